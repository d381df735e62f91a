// Input that the commands that plan have in common.
#pragma once

#include <vector>

#include "cli/batch_file.hpp"
#include "cli/options.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"
#include "trunkline/threads.hpp"

namespace trunkline::cli {

/// The machine that --machine names; "measured" is cuda_profile() where shape.device is cuda.
MachineProfile planning_profile(const Options& options, Workers& workers);

/// For that machine, of a command that runs nothing itself; measuring takes --threads threads.
Planner planner_of(const Options& options);

/// \throws Error naming the first batch whose page table does not fit into the memory that is available.
void check_table_memory(const std::vector<DecodeBatch>& batches, const Options& options);

}  // namespace trunkline::cli
