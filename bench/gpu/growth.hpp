// How time grows with the batch: one factor at a time, the others fixed.
#pragma once

#include <vector>

#include "gpu/cases.hpp"

namespace trunkline::gpu_bench {

/// Some 35 cases at 32/8 (but for the group size itself) and page 16; Case::factor and Case::value say what varies.
std::vector<Case> growth_cases(DType dtype);

}  // namespace trunkline::gpu_bench
