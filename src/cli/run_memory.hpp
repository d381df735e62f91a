// How much memory `trunkline run` needs for a batch.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/batch_file.hpp"
#include "cli/options.hpp"

namespace trunkline::cli {

/// An estimate from the batch's tree alone, before anything is allocated: page table, forest, tensors, all plans with
/// their workspaces, and the larger of what comes last: the buffer that bandwidth is measured with, or, with --check,
/// the oracle's copies of keys and values.
std::int64_t run_memory_bytes(const PrefixTree& tree, const Options& options);

/// \param flush_bytes held beside each batch
/// \throws Error naming the first batch that does not fit into the memory that is available, and what to change.
void check_run_memory(const std::vector<DecodeBatch>& batches, const Options& options, std::int64_t flush_bytes);

}  // namespace trunkline::cli
