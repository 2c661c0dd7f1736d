#pragma once
// Winners as the tables of NVIDIA AIConfigurator (systems/data/<device>/<framework>/<version>/).
#include <map>
#include <string>

#include "harness/core/op_table.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// The first columns of every table.
inline constexpr const char* kAicColumns = "framework,version,device,op_name,kernel_source,";

/// The text of each file: gemm_perf.txt, context_attention_perf.txt, generation_attention_perf.txt and
/// custom_allreduce_perf.txt, the ones that have rows. Latencies are in ms. Winners that fuse more, and
/// features that the tables have no column for, are left out.
std::map<std::string, std::string> aic_tables(const OpTable& ops, const Wisdom& wisdom);

}  // namespace warptune
