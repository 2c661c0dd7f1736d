// warptune export: the folder and its JSON, and the sentences of every mistake. Needs no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "harness/results/wisdom.h"
#include "tests/program.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;
using testing::Ended;
using testing::fresh_folder;
using testing::run_shell;

#if WARPTUNE_HAS_CUDA
const std::string kWisdom = std::string(SOURCE_ROOT) + "/results/h200/wisdom.json";

Ended run_export(const std::string& problem, const std::string& arch, const fs::path& out,
                 const std::string& more = "") {
  return run_shell("{} export --wisdom " + kWisdom + " --problem '" + problem + "' --arch " + arch + " -o " +
                   out.string() + " " + more);
}

json exported(const std::string& problem, const std::string& arch, const fs::path& out,
              const std::string& more = "") {
  const Ended ended = run_export(problem, arch, out, more);
  EXPECT_EQ(ended.code, 0) << ended.text;
  return json::parse(text_of(out / "warptune.json"), nullptr, false);
}

const json& plan_of(const json& document, std::string_view problem) {
  for (const json& plan : document.at("plans"))
    if (plan.at("problem").get_ref<const std::string&>() == problem) return plan;
  throw std::out_of_range(std::string(problem));
}

const json& named(const json& list, std::string_view name) {
  for (const json& item : list)
    if (item.at("name").get_ref<const std::string&>() == name) return item;
  throw std::out_of_range(std::string(name));
}

/// Every stage's cubin is there and holds its kernel; no cubin is there for nothing.
void expect_cubins(const json& document, const fs::path& out) {
  std::set<std::string> used;
  for (const json& plan : document.at("plans"))
    for (const json& stage : plan.at("stages")) {
      const std::string cubin = stage.at("cubin"), kernel = stage.at("kernel");
      used.insert(cubin);
      const std::string code = text_of(out / cubin);
      EXPECT_EQ(code.substr(1, 3), "ELF") << cubin;
      EXPECT_NE(code.find(kernel + '\0'), std::string::npos) << kernel << " is not in " << cubin;
    }
  std::size_t files = 0;
  for (const auto& file : fs::directory_iterator(out / "cubins")) files += file.is_regular_file();
  EXPECT_EQ(files, used.size());
}

TEST(Export, AWinnerHasAllThatALaunchNeeds) {
  const fs::path out = fresh_folder("export_rms") / "winners";
  const json document = exported("^rms_norm\\[tokens=1,hidden=4096,dtype=bf16", "sm_90a", out);
  EXPECT_EQ(document.at("schema"), 3);
  EXPECT_EQ(document.at("arch"), "sm_90a");
  const json& plan = plan_of(document, "rms_norm[tokens=1,hidden=4096,dtype=bf16]");
  EXPECT_EQ(plan.at("variant"), "vectorized");
  EXPECT_EQ(plan.at("dims"), json({{"hidden", 4096}}));
  EXPECT_EQ(plan.at("ranges"), json({{"tokens", {1, 1}}}));
  EXPECT_EQ(plan.at("origin").at("source"), "exact");
  EXPECT_EQ(plan.at("origin").at("made_on").at("device"), "NVIDIA H200");
  EXPECT_GT(plan.at("origin").at("time_us"), 0);
  EXPECT_GT(plan.at("origin").at("floor_us"), 0);
  EXPECT_EQ(plan.at("code_hash").get<std::string>().size(), 16u);
  const json& stage = plan.at("stages").at(0);
  EXPECT_EQ(stage.at("grid"), json({1, 1, 1}));
  EXPECT_EQ(stage.at("block").at(0), plan.at("config").at("block"));
  EXPECT_EQ(stage.at("pdl"), true);
  const json& fields = plan.at("args").at("fields");
  EXPECT_EQ(plan.at("args").at("bytes"), 32);
  EXPECT_EQ(named(fields, "y").at("offset"), 16);
  EXPECT_EQ(named(fields, "y").at("tensor"), "y");
  EXPECT_EQ(named(fields, "tokens").at("dim"), "tokens");
  EXPECT_NEAR(named(fields, "eps").at("value"), 1e-5, 1e-9);
  EXPECT_EQ(plan.at("workspace").at("bytes"), 0);
  expect_cubins(document, out);
}

TEST(Export, TheRecordedMachineCodeIsThatOfTheFolder) {
  const json wisdom = json::parse(text_of(kWisdom));
  const fs::path out = fresh_folder("export_code") / "winners";
  const json document = exported("^rms_norm\\[tokens=1,hidden=4096,dtype=bf16", "sm_90a", out);
  if (document.at("toolkit") != wisdom.at("toolkit"))
    GTEST_SKIP() << "another toolkit than that of the wisdom";
  for (const json& winner : wisdom.at("winners")) {
    const bool is_same = winner.at("op") == "rms_norm" && winner.at("dtype") == "bf16" &&
                         winner.at("dims") == json({{"tokens", 1}, {"hidden", 4096}});
    if (is_same) {
      EXPECT_EQ(document.at("plans").at(0).at("code_hash"), winner.at("code_hash"));
    }
  }
}

#if WARPTUNE_HAS_CUBLASLT
/// A problem of linear where cuBLASLt won and a kernel of ours was timed.
std::string problem_that_the_library_won() {
  const Wisdom wisdom = Wisdom::load(kWisdom);
  for (const Winner& w : wisdom.winners())
    if (w.problem.op == "linear" && w.variant == "cublaslt" &&
        std::ranges::count(w.times, "wgmma_streaming", &VariantTimes::variant) > 0)
      return w.problem.key();
  throw std::out_of_range("the library won nowhere");
}

TEST(Export, ALibraryWinnerGivesWayToTheNextBestKernel) {
  const fs::path out = fresh_folder("export_library") / "winners";
  const std::string problem = problem_that_the_library_won();
  const json document =
      exported("^" + std::regex_replace(problem, std::regex("[\\[\\]]"), "\\$&") + "$", "sm_90a", out);
  const json& plan = plan_of(document, problem);
  const json& origin = plan.at("origin");
  EXPECT_NE(plan.at("variant"), "cublaslt");
  EXPECT_EQ(origin.at("instead_of").at("variant"), "cublaslt");
  EXPECT_EQ(origin.at("source"), "runner_up");
  EXPECT_GE(origin.at("time_us"), origin.at("instead_of").at("time_us"));
  expect_cubins(document, out);
}
#endif

TEST(Export, PersistentBlocksAndFormulasSayWhatTheyDependOn) {
  const fs::path out = fresh_folder("export_attention") / "winners";
  const json document = exported(
      "^attention_decode\\[batch=64,q_heads=32,kv_heads=8,head_dim=128,context=4096,uneven=no,k_layout=sd,"
      "append=no,bias=no,dtype=bf16",
      "sm_90a", out);
  const json& plan = document.at("plans").at(0);
  EXPECT_EQ(plan.at("variant"), "mma_pipelined");
  EXPECT_EQ(plan.at("ranges").at("context").at(1), 4096);
  EXPECT_EQ(plan.at("stages").at(0).at("per_sm"), true);
  const json& fields = plan.at("args").at("fields");
  EXPECT_EQ(named(fields, "capacity").at("required"), true);
  EXPECT_EQ(named(fields, "batch").at("dim"), "batch");
  EXPECT_EQ(named(fields, "workspace").at("workspace"), true);
  EXPECT_GT(plan.at("stages").at(0).at("shared_bytes"), 0);
}

TEST(Export, TensorMapsAreFormulasOfTheArgs) {
  const fs::path out = fresh_folder("export_prefill") / "winners";
  const json document = exported(
      "^attention_prefill\\[batch=1,q_len=512,kv_len=512,q_heads=32,kv_heads=8,head_dim=128,", "sm_90a", out);
  const json* plan = nullptr;
  for (const json& p : document.at("plans"))
    if (p.at("variant") == "flash_wgmma") plan = &p;
  ASSERT_NE(plan, nullptr);
  const json& maps = plan->at("stages").at(0).at("tensor_maps");
  ASSERT_EQ(maps.size(), 3u);
  EXPECT_EQ(maps.at(0).at("base"), "q");
  EXPECT_EQ(maps.at(1).at("base"), "k_cache");
  EXPECT_EQ(maps.at(2).at("base"), "v_cache");
  EXPECT_EQ(maps.at(1).at("dims").at(1), "capacity");
  EXPECT_EQ(maps.at(0).at("swizzle_bytes"), 128);
}

TEST(Export, WithoutAWinnerOfTheArchitectureDefaultsAreTaken) {
  const fs::path out = fresh_folder("export_sm80") / "winners";
  const json document = exported("^(rms_norm|swiglu)\\[tokens=1,.*dtype=bf16", "sm_80", out);
  EXPECT_EQ(document.at("arch"), "sm_80");
  for (const json& plan : document.at("plans")) {
    EXPECT_EQ(plan.at("origin").at("source"), "default");
    EXPECT_FALSE(plan.at("origin").contains("time_us"));
  }
  expect_cubins(document, out);
}

TEST(Export, ACoveredDimIsCoveredWhollyAndOnce) {
  const fs::path out = fresh_folder("export_cover") / "winners";
  const json document =
      exported("^rms_norm\\[tokens=(1|8|64),hidden=4096,dtype=bf16", "sm_90a", out, "--cover tokens=1:200");
  std::vector<int> plans(201);
  for (const json& plan : document.at("plans")) {
    const json& range = plan.at("ranges").at("tokens");
    for (int tokens = range.at(0); tokens <= range.at(1); ++tokens)
      ++plans.at(static_cast<std::size_t>(tokens));
  }
  for (std::size_t tokens = 1; tokens <= 200; ++tokens) EXPECT_EQ(plans[tokens], 1) << tokens;
}

TEST(Export, AModelsProblemsAreExported) {
  const fs::path out = fresh_folder("export_model") / "winners";
  const json document =
      exported("^(rms_norm|swiglu|advance)", "sm_90a", out, "--model llama3.2-1b --batch 1 --context 512");
  std::set<std::string> ops;
  for (const json& plan : document.at("plans")) ops.insert(plan.at("op").get<std::string>());
  EXPECT_EQ(ops, (std::set<std::string>{"rms_norm", "swiglu", "advance"}));
}

/// A wisdom of an H200 with one winner. The order of its dims is that of the op.
fs::path wisdom_of_one(const std::string& name, const std::string& op, const std::string& dims,
                       const std::string& dtype, const std::string& variant, const std::string& config) {
  const fs::path file = fresh_folder(name) / "wisdom.json";
  const std::string made_on =
      R"("device": "NVIDIA H200", "arch": "sm_90a", "driver": "580.159.04", "toolkit": "13.0", "git_commit": "0")";
  std::ofstream(file) << R"({"schema": 2, )" << made_on << R"(, "winners": [{"op": ")" << op
                      << R"(", "dims": {)" << dims << R"(}, "dtype": ")" << dtype << R"(", "variant": ")"
                      << variant << R"(", "config": {)" << config
                      << R"(}, "time_us": 0.5, "source_hash": "0", "code_hash": "0", "run_id": "r", )"
                      << R"("csv": "s.csv", "cache": "cold", "made_on": {)" << made_on << "}}]}";
  return file;
}

Ended export_own(const fs::path& wisdom, const std::string& more) {
  return run_shell("{} export --wisdom " + wisdom.string() + " --arch sm_90a -o " +
                   (wisdom.parent_path() / "winners").string() + " " + more);
}

const std::string kExamples = std::string(SOURCE_ROOT) + "/examples/";

/// decode takes these plans, too.
TEST(Export, AnUntunedContextHasThePlansOfTheNearStep) {
  const fs::path out = fresh_folder("export_near_step") / "winners";
  const auto plan_at = [&](const char* contexts) {
    const json document = exported("^linear.tokens=1,in=4096,out=4096,.*epilogue=add,dtype", "sm_90a", out,
                                   std::string("--model llama2-7b --batch 1 --context ") + contexts);
    const json& plan = plan_of(document, "linear[tokens=1,in=4096,out=4096,bias=no,epilogue=add,dtype=bf16]");
    return std::pair(plan.at("origin").at("source").get<std::string>(), plan.at("config").dump());
  };
  const auto tuned = plan_at("512");
  EXPECT_EQ(tuned.first, "step");
  EXPECT_EQ(plan_at("1024"), std::pair(std::string("near_step"), tuned.second));
  EXPECT_EQ(plan_at("1024,512"), tuned);
  EXPECT_NE(plan_at("65536").first, "near_step") << "a factor of 128";
}

TEST(Export, AKernelFromAFileIsExportedWithItsListOfArguments) {
  const fs::path wisdom = wisdom_of_one("export_own", "rms_norm", R"("tokens": 64, "hidden": 4096)", "bf16",
                                        "my_rms", R"("block": 256, "vec": 8)");
  const Ended ended = export_own(wisdom, "--stale-wisdom use --kernels " + kExamples + "my_rms/my_rms.yaml");
  EXPECT_EQ(ended.code, 0) << ended.text;
  const fs::path out = wisdom.parent_path() / "winners";
  const json document = json::parse(text_of(out / "warptune.json"), nullptr, false);
  EXPECT_EQ(document.at("schema"), 3) << "a reader of schema 1 would launch it wrongly";
  const json& plan = plan_of(document, "rms_norm[tokens=64,hidden=4096,dtype=bf16]");
  EXPECT_EQ(plan.at("variant"), "my_rms");
  EXPECT_EQ(plan.at("origin").at("source"), "exact");
  EXPECT_EQ(plan.at("ranges"), json({{"tokens", {1, 64}}})) << "the grid is a formula";
  const json &fields = plan.at("args").at("fields"), &stage = plan.at("stages").at(0);
  const json& hidden = named(fields, "stage0.argument3");
  EXPECT_EQ(hidden.at("value"), 4096);
  const auto place = [&](const std::string& name, int size) {
    return json{{"offset", named(fields, name).at("offset")}, {"size", size}};
  };
  EXPECT_EQ(stage.at("arguments"), json({place("x", 8), place("weight", 8), place("y", 8),
                                         place("stage0.argument3", 4), place("eps", 4)}));
  for (const json& field : fields)
    EXPECT_LE(field.at("offset").get<int>() + field.at("size").get<int>(), plan.at("args").at("bytes"))
        << field;
  expect_cubins(document, out);
}

TEST(Export, AWinnerThatCannotBeExportedIsNamedAndTheCodeIsOne) {
  const fs::path wisdom = wisdom_of_one("export_lost", "rms_norm", R"("tokens": 1, "hidden": 4096)", "bf16",
                                        "my_rms", R"("block": 256, "vec": 8)");
  const Ended lost = export_own(wisdom, "--stale-wisdom use");
  EXPECT_EQ(lost.code, 1) << lost.text;
  EXPECT_NE(lost.text.find("the winner 'my_rms' is not exported, 'vectorized' (default) takes its place"),
            std::string::npos)
      << lost.text;
  EXPECT_NE(lost.text.find("--kernels"), std::string::npos) << lost.text;
  const json document =
      json::parse(text_of(wisdom.parent_path() / "winners" / "warptune.json"), nullptr, false);
  EXPECT_EQ(document.at("plans").at(0).at("origin").at("instead_of").at("variant"), "my_rms");
  const Ended stale = export_own(wisdom, "--kernels " + kExamples + "my_rms/my_rms.yaml");
  EXPECT_EQ(stale.code, 1) << stale.text;
  EXPECT_NE(stale.text.find("tuned on other code"), std::string::npos) << stale.text;
}

TEST(Export, AWinnerOfTheSameMachineCodeIsExportedWithoutTheFileOfItsDevice) {
  const fs::path wisdom =
      wisdom_of_one("export_same_code", "rms_norm", R"("tokens": 1, "hidden": 4096)", "bf16", "vectorized",
                    R"("block": 256, "rows": 1, "vec": 4, "cache_hint": [0, "none"], "pdl": 1)");
  const fs::path out = wisdom.parent_path() / "winners" / "warptune.json";
  EXPECT_EQ(export_own(wisdom, "--stale-wisdom use").code, 0);
  const json first = json::parse(text_of(out), nullptr, false);
  auto document = nlohmann::ordered_json::parse(text_of(wisdom));
  auto& winner = document.at("winners").at(0);
  winner["code_hash"] = first.at("plans").at(0).at("code_hash").get<std::string>();
  document["toolkit"] = winner["made_on"]["toolkit"] = first.at("toolkit").get<std::string>();
  std::ofstream(wisdom) << document;
  const Ended ended = export_own(wisdom, "");
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_EQ(json::parse(text_of(out), nullptr, false).at("plans").at(0).at("origin").at("source"), "exact")
      << ended.text;
}

TEST(Export, AnOpFromAFileIsExported) {
  const fs::path wisdom = wisdom_of_one("export_own_op", "saxpy", R"("n": 4096)", "fp32",
                                        "one_thread_per_element", R"("block": 256)");
  const Ended unknown = export_own(wisdom, "");
  EXPECT_EQ(unknown.code, 2) << unknown.text;
  EXPECT_NE(unknown.text.find("the winner 'one_thread_per_element' is not exported"), std::string::npos)
      << unknown.text;
  const Ended ended = export_own(wisdom, "--stale-wisdom use --kernels " + kExamples + "saxpy/saxpy.yaml");
  EXPECT_EQ(ended.code, 0) << ended.text;
  const json document =
      json::parse(text_of(wisdom.parent_path() / "winners" / "warptune.json"), nullptr, false);
  const json& plan = document.at("plans").at(0);
  EXPECT_EQ(plan.at("op"), "saxpy");
  EXPECT_EQ(document.at("ops").at(0).at("name"), "saxpy");
  expect_cubins(document, wisdom.parent_path() / "winners");
}

TEST(Export, AnEarlierExportIsReplacedAsAWhole) {
  const fs::path folder = fresh_folder("export_again"), out = folder / "winners";
  exported("^rms_norm\\[tokens=1,hidden=4096,dtype=bf16", "sm_90a", out);
  const json document = exported("^swiglu\\[tokens=1,intermediate=11008,dtype=bf16", "sm_90a", out);
  expect_cubins(document, out);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << "only the export is left";
}

TEST(Export, TheCurrentFolderStaysTheSame) {
  const fs::path out = fresh_folder("export_here");
  const std::string command = "cd " + out.string() + " && {} export --wisdom " + kWisdom +
                              " --problem '^rms_norm\\[tokens=1,hidden=4096,dtype=bf16' --arch sm_90a -o .";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run_shell(command).code, 0);
  expect_cubins(json::parse(text_of(out / "warptune.json"), nullptr, false), out);
  std::ofstream(out / "notes.txt") << "mine";
  EXPECT_EQ(run_shell(command).code, 2);
  EXPECT_EQ(text_of(out / "notes.txt"), "mine");
}

TEST(Export, TablesOfAiconfiguratorTakeTheirOwnOptionsAndReplaceOnlyTables) {
  const fs::path out = fresh_folder("export_aic");
  const auto run = [&](const std::string& more) {
    return run_shell("{} export --format aic --wisdom " + kWisdom + " -o " + out.string() + " " + more);
  };
  for (const char* ignored : {"--arch sm_90a", "--model llama2-7b --context 64", "--cover tokens=1:8",
                              "--stale-wisdom use", "--jobs 2"}) {
    const Ended ended = run(ignored);
    EXPECT_EQ(ended.code, 2) << ignored;
    EXPECT_NE(ended.text.find("--format aic writes times only"), std::string::npos) << ended.text;
    EXPECT_TRUE(fs::is_empty(out)) << ignored;
  }
  EXPECT_EQ(run("").code, 0);
  EXPECT_EQ(run("").code, 0) << "its own tables are replaced";
  std::ofstream(out / "gemm_perf.txt") << "mine\n";
  EXPECT_EQ(run("").code, 2);
  EXPECT_EQ(text_of(out / "gemm_perf.txt"), "mine\n");
  EXPECT_EQ(run("--force").code, 0);
  EXPECT_TRUE(text_of(out / "gemm_perf.txt").starts_with("framework,version,"));
}

TEST(Export, AMistakeIsOneSentenceAndWritesNothing) {
  const fs::path folder = fresh_folder("export_mistakes"), out = folder / "winners", file = folder / "file",
                 other = folder / "other", forged = folder / "forged", dangling = folder / "dangling";
  std::ofstream(file) << "x";
  fs::create_directories(other);
  std::ofstream(other / "notes.txt") << "x";
  fs::create_directories(forged);
  std::ofstream(forged / "warptune.json") << "{}";
  fs::create_symlink("nowhere", dangling);
  const std::string good = "--wisdom " + kWisdom + " --problem ^rms_norm --arch sm_90a -o ";
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"--wisdom " + kWisdom + " --problem ^nothing --arch sm_90a -o " + out.string(), "matches '^nothing'"},
      {"--wisdom " + kWisdom + " --arch sm_12 -o " + out.string(), "unknown architecture 'sm_12'"},
      {"--wisdom /no/wisdom.json --arch sm_90a -o " + out.string(), "/no/wisdom.json"},
      {good + file.string(), "is a file; -o names a folder"},
      {good + other.string(), "holds 'notes.txt', which no export wrote"},
      {good + forged.string(), "holds 'warptune.json', which no export wrote"},
      {good + dangling.string(), "is a link to a folder that does not exist"},
      {good + (folder / "no" / "winners").string(), "does not exist"},
      {good + out.string() + " --cover tokens", "it must be DIM=FROM:TO"},
      {good + out.string() + " --cover tokens=9:2", "it must be DIM=FROM:TO"},
      {good + out.string() + " --cover hidden=1:2", "'hidden', which is no dim of work"},
      {good + out.string() + " --context 512", "those of a --model"},
      {good + out.string() + " --model llama3-8b", "--model needs --context"},
      {good + out.string() + " --model llama9 --context 512", "llama9"},
  };
  for (const auto& [arguments, sentence] : mistakes) {
    const Ended ended = run_shell("{} export " + arguments);
    EXPECT_EQ(ended.code, 2) << arguments << "\n" << ended.text;
    EXPECT_NE(ended.text.find(sentence), std::string::npos) << arguments << "\n" << ended.text;
    EXPECT_EQ(std::ranges::count(ended.text, '\n'), 1) << ended.text;
  }
  EXPECT_FALSE(fs::exists(out));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 4) << "nothing half-written is left";
  EXPECT_EQ(text_of(forged / "warptune.json"), "{}");
}
#endif

}  // namespace
}  // namespace warptune
