// A look at the rows of a step over all of the GPU, before the kernel that plans; see plan/team/row_look.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include "plan/team/steady_rows.hpp"
#include "plan/team/team_batch.hpp"

namespace trunkline::cuda {

/// Whether there is anything to look at: rows, and a step that they are compared with.
inline bool looks_at_rows(const TeamBatch& batch, const SteadyRows& steady) {
  return steady.rows != nullptr && batch.rows > 0;
}

/// Fills steady.seen and steady.changed for the batch's rows. The next kernel on the stream may come early
/// (TeamLaunch::early).
/// \param most_blocks of its clusters at most, as TeamLaunch::blocks. Of those that plan: then it fills some GPCs, and
/// leaves to the kernel that plans one where that can begin meanwhile
cudaError_t launch_look(const TeamBatch& batch, const SteadyRows& steady, std::int32_t most_blocks,
                        cudaStream_t stream);

}  // namespace trunkline::cuda
