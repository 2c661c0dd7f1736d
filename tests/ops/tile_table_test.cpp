#include "variants/tile_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "harness/core/space.h"
#include "kernels/linear/packed_weights.h"
#include "variants/table.h"

namespace warptune {
namespace {

Problem decode(std::int64_t batch, std::int64_t kv_heads, std::int64_t context) {
  return find_op("attention_decode")
      .op.problem(Assignment{{"batch", batch},
                             {"q_heads", 32},
                             {"kv_heads", kv_heads},
                             {"head_dim", 128},
                             {"context", context}},
                  DType::fp16);
}

TEST(TileTable, EveryExampleHasADefaultThatSweepsAlsoTry) {
  for (const char* arch : {"sm_80", "sm_90a"})
    for (Problem problem : tile_examples(ops()))
      for (const DType dtype : find_op(problem.op).op.dtypes) {
        if (dtype == DType::fp32) continue;  // not every tile fits
        problem.dtype = dtype;
        const DeviceFacts facts = known_device(arch);
        const auto tiles = ops().default_tiles(problem, facts);
        ASSERT_FALSE(tiles.empty()) << arch << " " << problem.key();
        for (const DefaultTile& tile : tiles) {
          EXPECT_EQ(Space(*tile.variant, problem, facts).broken_constraint(tile.config), std::nullopt);
          for (const Parameter& p : tile.variant->parameters)
            EXPECT_NE(std::ranges::find(p.values, tile.config[p.name]), p.values.end()) << p.name;
        }
      }
}

TEST(TileTable, EveryRowIsTheDefaultOfAnExample) {
  std::set<const Tile*> shown;
  DeviceFacts host;
  host.backend = Backend::host;
  host.sms = 2;
  for (const DeviceFacts& facts :
       {known_device("sm_80"), known_device("sm_86"), known_device("sm_90a"), host})
    for (const Problem& problem : tile_examples(ops())) {
      std::set<const Variant*> variants;  // the first row of each is what --variant takes
      for (const DefaultTile& tile : ops().default_tiles(problem, facts))
        if (variants.insert(tile.variant).second) shown.insert(tile.tile);
    }
  for (const Tile& tile : ops().tiles())
    EXPECT_TRUE(shown.contains(&tile))
        << tile.variant << " where " << tile.when.text() << ": " << tile.config;
}

TEST(TileTable, NoTileClaimsToBeMeasuredOnTheA100) {
  for (const Problem& problem : tile_examples(ops()))
    for (const DefaultTile& tile : ops().default_tiles(problem, known_device("sm_80")))
      EXPECT_TRUE(tile.origin().ends_with("; not measured")) << tile.origin();
}

TEST(TileTable, SplitsFillTheDevice) {
  const auto blocks = [](const Problem& p) {
    const Config config = ops().default_tiles(p, known_device("sm_80")).at(0).config;
    return config["splits"] * p["batch"] * p["kv_heads"];
  };
  EXPECT_EQ(blocks(decode(1, 8, 32768)), 216) << "two blocks of 4 warps on each of 108 multiprocessors";
  EXPECT_EQ(blocks(decode(1, 32, 8192)), 864) << "8 blocks on each";
  EXPECT_EQ(blocks(decode(1, 32, 512)), 512) << "32 keys per split at least";
  EXPECT_EQ(blocks(decode(64, 8, 4096)), 512) << "no splits where sequences fill it";
}

TEST(TileTable, GemvLoadsAsMuchAsTheDeviceHolds) {
  const auto first = [](std::int64_t tokens, std::int64_t in, const char* arch) {
    const Problem p =
        find_op("linear").op.problem(Assignment{{"tokens", tokens}, {"in", in}, {"out", 4096}}, DType::bf16);
    const auto tiles = ops().default_tiles(p, known_device(arch));
    return tiles.empty() ? "none" : tiles[0].variant->name + ' ' + tiles[0].config.str();
  };
  const std::string mma =
      "gemv_mma blocks_per_sm=1,rows=8,tile_k=2048,stages=6,prefetch=0,late_prefetch=0,pdl=1";
  EXPECT_EQ(first(1, 4096, "sm_90a"), mma);
  EXPECT_EQ(first(4, 14336, "sm_90a"), mma);
  EXPECT_EQ(first(1, 1000, "sm_90a"),
            "gemv_bulk_copy "
            "blocks_per_sm=1,warps=16,rows=4,tile_k=512,stages=3,register_tiles=0,stagger=1,prefetch=0,"
            "late_prefetch=0,pdl=1");
  EXPECT_EQ(first(1, 4096, "sm_80"),
            "gemv_vectorized warps=8,warps_per_row=8,rows=4,unroll=2,tail_prefetch=0,pdl=0");
  EXPECT_EQ(first(1, 2048, "sm_80"),
            "gemv_vectorized warps=8,warps_per_row=8,rows=4,unroll=1,tail_prefetch=0,pdl=0");
  EXPECT_EQ(first(8, 4096, "sm_90a"),
            "mma_bulk_copy blocks_per_sm=1,warps_m=1,warps_k=4,rows=32,tile_k=256,stages=8,resident_x=no,"
            "cluster=1,pdl=1");
  EXPECT_EQ(first(64, 4096, "sm_90a"),
            "wgmma_streaming "
            "rows=64,tile_k=64,stages=12,warpgroups=1,cluster_k=2,cluster_m=1,evict_first=1,persistent=1,"
            "early_stages=0,prefetch=0,late_prefetch=0,pdl=1");
  EXPECT_EQ(first(32, 14336, "sm_90a"),
            "wgmma_streaming "
            "rows=64,tile_k=128,stages=8,warpgroups=1,cluster_k=2,cluster_m=1,evict_first=1,persistent=1,"
            "early_stages=0,prefetch=0,late_prefetch=0,pdl=1");
#if WARPTUNE_HAS_CUBLASLT
  EXPECT_EQ(first(8, 4096, "sm_80"), "cublaslt algo=0") << "the library's first choice";
#else
  EXPECT_TRUE(first(8, 4096, "sm_80").starts_with("mma_cp_async blocks_per_sm=1,warps_m=1,warps_k=4"));
#endif
}

TEST(TileTable, OneTokenOnPackedWeightsTakesAGemv) {
  const auto first = [](int weights, int group, int act_order, const char* arch) {
    const Assignment dims{{"tokens", 1},        {"in", 4096},     {"out", 4096},
                          {"weights", weights}, {"group", group}, {"act_order", act_order}};
    const auto tiles =
        ops().default_tiles(find_op("linear").op.problem(dims, DType::bf16), known_device(arch));
    return tiles.empty() ? "none" : tiles[0].variant->name;
  };
  for (const int group : {0, 128})
    EXPECT_EQ(first(kWeightsFp8, group, 0, "sm_90a"), "gemv_packed_bulk_copy") << group;
  for (const int act_order : {0, 1})
    EXPECT_EQ(first(kWeightsInt4, 128, act_order, "sm_90a"), "gemv_packed_cp_async") << act_order;
  for (const auto& [weights, group] : {std::pair{kWeightsInt4, 128},
                                       {kWeightsInt4, 32},
                                       {kWeightsInt8, 0},
                                       {kWeightsFp8, 128},
                                       {kWeightsNvfp4, 16},
                                       {kWeightsMxfp4, 32},
                                       {kWeightsQ4K, 32},
                                       {kWeightsQ5K, 32},
                                       {kWeightsQ6K, 16}})
    for (const char* arch : {"sm_80", "sm_86"})
      EXPECT_EQ(first(weights, group, 0, arch), "gemv_packed_cp_async") << weights << " " << arch;
}

TEST(TileTable, EightTokensOnFourBitsTakeTheGemvWhereXFits) {
  const auto first = [](int in, int weights, int group, const char* arch) {
    const Assignment dims{{"tokens", 8}, {"in", in}, {"out", 12288}, {"weights", weights}, {"group", group}};
    const auto tiles =
        ops().default_tiles(find_op("linear").op.problem(dims, DType::bf16), known_device(arch));
    return tiles.empty() ? "none" : tiles[0].variant->name;
  };
  for (const char* arch : {"sm_80", "sm_90a"}) {
    EXPECT_EQ(first(4096, kWeightsInt4, 128, arch), "gemv_packed_cp_async") << arch;
    EXPECT_EQ(first(4096, kWeightsQ4K, 32, arch), "gemv_packed_cp_async") << arch;
  }
  EXPECT_EQ(first(14336, kWeightsInt4, 128, "sm_80"), "mma_packed_cp_async");
  EXPECT_EQ(first(14336, kWeightsInt4, 128, "sm_90a"), "gemv_packed_bulk_copy");
}

TEST(TileTable, SixteenTokensOnPackedWeightsSplitTheColumnsOfAStage) {
  const auto first = [](int in, int out, int weights, int group) {
    const Assignment dims{{"tokens", 16}, {"in", in}, {"out", out}, {"weights", weights}, {"group", group}};
    const auto tiles =
        ops().default_tiles(find_op("linear").op.problem(dims, DType::bf16), known_device("sm_90a"));
    if (tiles.empty()) return std::string("none");
    const Config& c = tiles[0].config;
    return fmt::format("{} rows {}, columns {}, warpgroups {}, blocks {}", tiles[0].variant->name, c["rows"],
                       c["tile_k"], c["warpgroups_k"], c["cluster_k"]);
  };
  EXPECT_EQ(first(4096, 4096, kWeightsInt4, 128),
            "wgmma_packed rows 64, columns 512, warpgroups 4, blocks 2");
  EXPECT_EQ(first(4096, 6144, kWeightsInt4, 128),
            "wgmma_packed rows 64, columns 512, warpgroups 4, blocks 1");
  EXPECT_EQ(first(4096, 12288, kWeightsInt4, 128),
            "wgmma_packed rows 192, columns 256, warpgroups 1, blocks 2");
  EXPECT_EQ(first(4096, 12288, kWeightsQ4K, 32), "wgmma_packed rows 96, columns 512, warpgroups 4, blocks 1");
  EXPECT_EQ(first(11008, 4096, kWeightsInt4, 128),
            "wgmma_packed rows 64, columns 256, warpgroups 2, blocks 2");
  EXPECT_EQ(first(4096, 12288, kWeightsFp8, 0), "wgmma_packed rows 96, columns 256, warpgroups 2, blocks 1");
}

// Gate and up share m64 tiles, so as many rows of weights take the same tile.
TEST(TileTable, SwigluOnPackedWeightsTakesTheTileOfAsManyRows) {
  const auto first = [](int tokens, int weights, int out, int epilogue) {
    const Assignment dims{{"tokens", tokens},     {"in", 4096},
                          {"out", out},           {"weights", weights},
                          {"epilogue", epilogue}, {"group", weights == kWeightsInt4 ? 128 : 0}};
    const auto tiles =
        ops().default_tiles(find_op("linear").op.problem(dims, DType::bf16), known_device("sm_90a"));
    return tiles.empty() ? "none" : tiles[0].variant->name + " " + tiles[0].config.str();
  };
  for (const int tokens : {16, 64})
    for (const int weights : {kWeightsInt4, kWeightsFp8})
      for (const int out : {4096, 5632, 11008, 14336})
        EXPECT_EQ(first(tokens, weights, out, kEpilogueSwiglu),
                  first(tokens, weights, 2 * out, kEpilogueNone))
            << tokens << " " << weights << " " << out;
}

// Tensor cores of sm_80 are fed best by two warps per scheduler, which share the blocks of a short stage.
TEST(TileTable, SixtyFourTokensOfSm80HaveTwoWarpsPerScheduler) {
  for (const int out : {6144, 8192, 12288}) {
    const Assignment dims{
        {"tokens", 64}, {"in", 4096}, {"out", out}, {"weights", kWeightsInt4}, {"group", 128}};
    const auto tiles =
        ops().default_tiles(find_op("linear").op.problem(dims, DType::bf16), known_device("sm_80"));
    ASSERT_FALSE(tiles.empty());
    EXPECT_EQ(tiles[0].variant->name, "mma_packed_cp_async");
    const Config& c = tiles[0].config;
    EXPECT_EQ(c["warps_m"] * c["warps_k"], 8) << c.str();
    EXPECT_EQ(c["one_group"], 1) << c.str();
  }
}

// mma_packed, which prompts take, is several times slower.
TEST(TileTable, UpTo64TokensOnPackedWeightsStreamThem) {
  const OpEntry& linear = find_op("linear");
  for (const char* arch : {"sm_80", "sm_86", "sm_90a"})
    for (const int tokens : {2, 5, 8, 9, 16, 17, 33, 64})
      for (const int in : {2048, 4096, 11008, 14336, 28672})
        for (const int out : {512, 4096, 14336, 28672})
          for (const auto& [weights, group] : {std::pair{kWeightsInt4, 128},
                                               {kWeightsInt4, 32},
                                               {kWeightsInt8, 0},
                                               {kWeightsFp8, 0},
                                               {kWeightsFp8, 128},
                                               {kWeightsNvfp4, 16},
                                               {kWeightsMxfp4, 32},
                                               {kWeightsQ4K, 32},
                                               {kWeightsQ5K, 32},
                                               {kWeightsQ5K, 32},
                                               {kWeightsQ6K, 16}}) {
            const Assignment dims{
                {"tokens", tokens}, {"in", in}, {"out", out}, {"weights", weights}, {"group", group}};
            if (tokens > 32 && std::string_view(arch) == "sm_86") continue;  // x exceeds its shared memory
            const Problem problem = linear.op.problem(dims, DType::bf16);
            const auto tiles = ops().default_tiles(problem, known_device(arch));
            const std::string name = tiles.empty() ? "none" : tiles[0].variant->name;
            EXPECT_TRUE(name.starts_with("gemv_packed") || name == "mma_packed_cp_async" ||
                        name == "wgmma_packed")
                << arch << " " << problem.key() << " " << name;
          }
}

// Qwen2.5-0.5B has 14 query heads on 2.
TEST(TileTable, EveryGroupOfHeadsHasAFastAttention) {
  const OpEntry& attention = find_op("attention_decode");
  for (const char* arch : {"sm_80", "sm_86", "sm_90a"})
    for (const auto& [q_heads, kv_heads] :
         {std::pair{32, 32}, {32, 8}, {64, 8}, {28, 4}, {14, 2}, {40, 8}, {16, 1}, {71, 1}})
      for (const int head_dim : {64, 80, 96, 128})
        for (const int append : {0, 1})
          for (const int kv_dtype : {0, 1, 2})
            for (const int batch : {1, 64}) {
              const Assignment dims{{"batch", batch},       {"q_heads", q_heads}, {"kv_heads", kv_heads},
                                    {"head_dim", head_dim}, {"context", 512},     {"append", append},
                                    {"kv_dtype", kv_dtype}};
              const Problem problem = attention.op.problem(dims, DType::bf16);
              const auto tiles = ops().default_tiles(problem, known_device(arch));
              EXPECT_FALSE(tiles.empty()) << arch << " " << problem.key();
            }
}

TEST(TileTable, CachesOfWhole64BytesPerRowTakeTensorCores) {
  for (const std::int64_t head_dim : {64, 96, 160, 256})
    for (const std::int64_t kv_dtype : {0, 1, 2})
      for (const std::int64_t kv_heads : {4, 8, 32})
        for (const std::int64_t batch : {1, 8, 64})
          for (const std::int64_t context : {512, 4096, 32768})
            for (const std::int64_t append : {0, 1}) {
              const std::int64_t row_bytes = head_dim * (kv_dtype == 0 ? 2 : 1);
              if (row_bytes % 64 != 0 || (kv_heads == 32 && row_bytes % 128 == 0)) continue;
              const Problem p = find_op("attention_decode")
                                    .op.problem(Assignment{{"batch", batch},
                                                           {"q_heads", 32},
                                                           {"kv_heads", kv_heads},
                                                           {"head_dim", head_dim},
                                                           {"context", context},
                                                           {"kv_dtype", kv_dtype},
                                                           {"append", append}},
                                                DType::bf16);
              const auto tiles = ops().default_tiles(p, known_device("sm_90a"));
              ASSERT_FALSE(tiles.empty());
              EXPECT_TRUE(tiles[0].variant->name.starts_with("mma_")) << p.key() << tiles[0].variant->name;
            }
}

TEST(TileTable, EveryHeadHasAPrefillOfFewAndManyQueries) {
  const OpEntry& attention = find_op("attention_prefill");
  for (const char* arch : {"sm_80", "sm_86", "sm_90a"})
    for (const auto& [q_heads, kv_heads] : {std::pair{32, 32}, {32, 8}, {14, 2}, {71, 1}})
      for (const int head_dim : {64, 80, 96, 128, 256})
        for (const int q_len : {2, 16, 100, 2048})
          for (const int page_size : {0, 64}) {
            const Assignment dims{
                {"batch", 1},     {"q_heads", q_heads},   {"kv_heads", kv_heads},  {"q_len", q_len},
                {"kv_len", 2048}, {"head_dim", head_dim}, {"page_size", page_size}};
            const Problem problem = attention.op.problem(dims, DType::bf16);
            EXPECT_FALSE(ops().default_tiles(problem, known_device(arch)).empty())
                << arch << " " << problem.key();
          }
}

TEST(TileTable, PromptsTakeWgmmaWhereNoLibraryDoes) {
  const auto first = [](std::int64_t tokens, std::int64_t epilogue, std::string_view variant = {}) {
    const Assignment dims{{"tokens", tokens}, {"in", 4096}, {"out", 11008}, {"epilogue", epilogue}};
    const auto tiles =
        ops().default_tiles(find_op("linear").op.problem(dims, DType::bf16), known_device("sm_90a"), variant);
    return tiles.empty() ? "none" : tiles[0].variant->name + ' ' + tiles[0].config.str();
  };
  EXPECT_EQ(first(64, 0, "wgmma"), "none");
  EXPECT_EQ(first(128, 2), "wgmma tile_m=128,tile_n=128,stages=6,cluster=1,group_m=4,pdl=1");
  EXPECT_EQ(first(4096, 2), "wgmma tile_m=128,tile_n=256,stages=4,cluster=2,group_m=8,pdl=1");
}

TEST(TileTable, AFusedArgmaxTakesFewBlocks) {
  const auto first = [](std::int64_t tokens, std::string_view arch) {
    const Assignment dims{{"tokens", tokens}, {"in", 4096}, {"out", 128256}, {"epilogue", 3}};
    const auto tiles =
        ops().default_tiles(find_op("linear").op.problem(dims, DType::bf16), known_device(arch));
    return tiles.empty() ? "none" : tiles[0].variant->name;
  };
  EXPECT_EQ(first(1, "sm_80"), "gemv_cp_async");
  EXPECT_EQ(first(1, "sm_90a"), "gemv_mma");
  EXPECT_EQ(first(8, "sm_80"), "mma_cp_async");
  EXPECT_EQ(first(8, "sm_90a"), "mma_bulk_copy");
}

TEST(TileTable, EveryOpHasADefault) {
  std::set<std::string> ops_with_rows;
  for (const Tile& tile : ops().tiles()) ops_with_rows.insert(tile.op);
  for (const OpEntry& entry : ops()) EXPECT_TRUE(ops_with_rows.contains(entry.op.name)) << entry.op.name;
}

TEST(TileTable, IsEmptyForTheHost) {
  EXPECT_TRUE(ops().default_tiles(decode(1, 8, 4096), DeviceFacts{}).empty());
  const auto only = ops().default_tiles(decode(1, 8, 4096), known_device("sm_80"), "split_kv");
  ASSERT_EQ(only.size(), 1u);
  EXPECT_EQ(only[0].variant->name, "split_kv");
}

}  // namespace
}  // namespace warptune
