// How much memory `trunkline run` needs for a batch.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/batch_file.hpp"
#include "cli/options.hpp"

namespace trunkline::cli {

/// Bytes of host memory, estimated from the batch's tree alone, before anything is allocated. It counts page table,
/// forest, tensors, on the CPU all plans with their workspaces, and the larger of the last two buffers: the buffer that
/// the CPU's bandwidth is measured with, or, with --check, the oracle's copies of keys and values.
std::int64_t run_memory_bytes(const PrefixTree& tree, const Options& options);

/// Bytes of a CUDA device's memory: page table, tensors, all plans with their workspaces.
std::int64_t run_device_bytes(const PrefixTree& tree, const Options& options);

/// \param flush_bytes held beside each batch
/// \throws Error naming the first batch that does not fit into the memory that is available, and what to change.
void check_run_memory(const std::vector<DecodeBatch>& batches, const Options& options, std::int64_t flush_bytes);
/// \param available of the device, beside what is held for each batch \throws Error likewise.
void check_device_memory(const std::vector<DecodeBatch>& batches, const Options& options, std::int64_t available);

}  // namespace trunkline::cli
