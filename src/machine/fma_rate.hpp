// The FMA rate of one thread, compiled once per instruction set.
#pragma once

#include <cstdint>

namespace trunkline {

/// Runs `rounds` rounds of independent fp32 FMAs on full vectors and returns the FLOPs done (one FMA is two).
using FmaLoop = double (*)(std::int64_t rounds);
double fma_loop_portable(std::int64_t rounds);
double fma_loop_avx2(std::int64_t rounds);
double fma_loop_avx512(std::int64_t rounds);

}  // namespace trunkline
