// Random forests as a server has them: lengths that end anywhere in a page, uneven trees, odd batch sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/cases.hpp"

namespace trunkline::gpu_bench {

/// 1 to 700 requests, in random order, over `tokens` or a few more in trees of 1 to 6 levels. The same on every
/// platform.
PrefixTree random_forest(std::uint64_t seed, std::int64_t tokens);

/// 40 cases of 20 to 300 MB or so of distinct K and V, in shuffled pages; ragged#17 is of seed 17.
std::vector<Case> ragged_cases(DType dtype);

}  // namespace trunkline::gpu_bench
