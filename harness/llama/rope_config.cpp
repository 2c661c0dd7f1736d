// The rotary embedding that a config.json asks for.

#include <cmath>
#include <string>

#include "harness/core/error.h"
#include "harness/llama/model_config.h"

namespace warptune {
namespace {

void expect_whole_rotation(const JsonReader& in) {
  if (in.number("partial_rotary_factor", 1) != 1)
    in.fail("partial_rotary_factor", "1: whole heads are rotated");
}

/// What a scaling may refer to: keys of the config itself.
struct RopeModel {
  int head_dim, max_position;
  int pretrained_length;  // 0: the config has no such key
};

/// A factor per pair of a head.
std::vector<double> read_factors(const JsonReader& in, const char* key, int head_dim) {
  std::vector<double> factors;
  for (const nlohmann::json& factor : in.list(key)) {
    if (!factor.is_number() || factor.get<double>() <= 0) in.fail(key, "a list of numbers above 0");
    factors.push_back(factor.get<double>());
  }
  if (factors.size() != static_cast<std::size_t>(head_dim / 2))
    in.fail(key, "a list of {} numbers, half of head_dim", head_dim / 2);
  return factors;
}

double yarn_mscale(double factor, double mscale = 1) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

void read_yarn(const JsonReader& in, RopeScaling& rope) {
  if (rope.theta <= 1) in.fail("rope_theta", "above 1");
  rope.kind = RopeKind::yarn;
  rope.beta_fast = in.number("beta_fast", 32);
  rope.beta_slow = in.number("beta_slow", 1);
  rope.truncate = in.flag("truncate", true);
  const bool has_scales = in.has("mscale") && in.has("mscale_all_dim");
  rope.attention_factor = has_scales ? yarn_mscale(rope.factor, in.number("mscale")) /
                                           yarn_mscale(rope.factor, in.number("mscale_all_dim"))
                                     : yarn_mscale(rope.factor);
}

void read_longrope(const JsonReader& in, int head_dim, RopeScaling& rope) {
  rope.kind = RopeKind::longrope;
  rope.short_factors = read_factors(in, "short_factor", head_dim);
  rope.long_factors = read_factors(in, "long_factor", head_dim);
  if (rope.factor > 1)
    rope.attention_factor = std::sqrt(1 + std::log(rope.factor) / std::log(rope.original_max_position));
}

/// yarn and longrope, whose original length may be a key of the config and whose factor may follow from it.
void read_stretch(const JsonReader& in, const RopeModel& model, bool is_yarn, RopeScaling& rope) {
  rope.original_max_position = model.pretrained_length;
  if (model.pretrained_length == 0)
    rope.original_max_position = in.whole_or("original_max_position_embeddings", model.max_position);
  rope.factor = in.number("factor", static_cast<double>(model.max_position) / rope.original_max_position);
  if (is_yarn)
    read_yarn(in, rope);
  else
    read_longrope(in, model.head_dim, rope);
  rope.attention_factor = in.number("attention_factor", rope.attention_factor);
}

void read_llama3(const JsonReader& in, RopeScaling& rope) {
  rope.kind = RopeKind::llama3;
  rope.low_freq_factor = in.number("low_freq_factor");
  rope.high_freq_factor = in.number("high_freq_factor");
  rope.original_max_position = in.whole("original_max_position_embeddings");
  if (rope.high_freq_factor <= rope.low_freq_factor)
    in.fail("high_freq_factor", "larger than low_freq_factor");
  rope.factor = in.number("factor");
}

/// Reads the object that the keys rope_scaling and rope_parameters hold. `rope`: what applies without it.
RopeScaling read_scaling(const JsonReader& in, const RopeModel& model, RopeScaling rope) {
  expect_whole_rotation(in);
  rope.theta = in.number("rope_theta", rope.theta);
  const char* type_key = in.has("rope_type") ? "rope_type" : "type";
  const std::string type = in.text_or(type_key, "default");
  if (type == "default") return rope;
  if (type == "llama3") {
    read_llama3(in, rope);
  } else if (type == "yarn" || type == "longrope" || type == "su") {  // su: longrope in old configs
    read_stretch(in, model, type == "yarn", rope);
  } else if (type == "linear" || type == "dynamic") {
    rope.kind = type == "linear" ? RopeKind::linear : RopeKind::dynamic_ntk;
    rope.factor = in.number("factor");
  } else {
    in.fail(type_key, "default, linear, dynamic, llama3, yarn or longrope");
  }
  return rope;
}

}  // namespace

RopeScaling read_rope(const JsonReader& config, int head_dim, int max_position, double theta) {
  expect_whole_rotation(config);
  const RopeModel model{.head_dim = head_dim,
                        .max_position = max_position,
                        .pretrained_length = config.has("original_max_position_embeddings")
                                                 ? config.whole("original_max_position_embeddings")
                                                 : 0};
  RopeScaling base{.theta = config.number("rope_theta", theta), .original_max_position = max_position};
  const auto says_something = [&](const char* key) {
    return config.has(key) && !config.object(key).json().empty();
  };
  const bool has_parameters = says_something("rope_parameters");
  const RopeScaling rope =
      has_parameters ? read_scaling(config.object("rope_parameters"), model, base) : base;
  if (!says_something("rope_scaling")) return rope;
  base.theta = rope.theta;
  const RopeScaling scaling = read_scaling(config.object("rope_scaling"), model, base);
  if (has_parameters && scaling != rope)
    throw InputError(
        "{}: 'rope_scaling' and 'rope_parameters' differ; they must be equal, or one of them be left out",
        config.origin());
  return scaling;
}

}  // namespace warptune
