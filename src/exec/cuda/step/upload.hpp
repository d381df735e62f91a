// Bytes that an upload copies to the device for a plan: its lists, with rows in place of slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/cuda/step/workspace.hpp"
#include "trunkline/batch.hpp"

namespace trunkline::cuda {

/// The compiled tile that computes items of a tile: of the same m, and of the same n where there is one, as n says only
/// how many tokens are on chip at a time. \return its index in `tiles`, or -1.
int kernel_tile(const std::vector<TileShape>& tiles, TileShape tile);

/// Checks that the kernels can run a plan. \param half_rows tiles of twice so many rows work as two halves; 0: none do
/// \return bit i set for each tile i that its items use.
/// \throws Error(kUnsupported) naming the item, its tile and those that are compiled.
std::uint32_t used_tiles(const Plan& plan, const std::vector<TileShape>& tiles, std::int32_t half_rows);

/// Bytes from the workspace's begin that write_upload fills.
std::size_t upload_bytes(const Plan& plan, const WorkspaceLayout& layout);

/// Writes the plan as it lies in the workspace; with MergeMode::kFused, what the forward kernel merges by, too.
/// \param slot_table slot_table_size(batch.rows()) entries
/// \throws Error as check_live_batch and LiveRows.
void write_upload(const Plan& plan, const Batch& batch, const std::vector<TileShape>& tiles,
                  const WorkspaceLayout& layout, MergeMode merge, std::span<std::int32_t> slot_table, std::byte* to);

}  // namespace trunkline::cuda
