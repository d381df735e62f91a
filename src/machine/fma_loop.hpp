// Body of the FMA loop; included by one source per instruction set.
#pragma once

#include "base/vec.hpp"

namespace trunkline {

template <int kLanes>
double run_fma_loop(std::int64_t rounds) {
  // 4 cycles of latency on 2 ports need 8 chains; 12 leave slack and fit the 16 registers of AVX2.
  constexpr int kChains = 12;
  VecF<kLanes> chains[kChains];
  for (int i = 0; i < kChains; ++i) chains[i] = broadcast<kLanes>(static_cast<float>(i));
  VecF<kLanes> factor = broadcast<kLanes>(0.999F);
  VecF<kLanes> summand = broadcast<kLanes>(0.001F);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chains[i] = chains[i] * factor + summand;
    asm volatile("" : "+x"(factor), "+x"(summand));  // keeps the compiler from solving the recurrence
  }
  float sum = 0;
  for (int i = 0; i < kChains; ++i) sum += horizontal_sum<kLanes>(chains[i]);
  asm volatile("" : : "x"(sum));
  return static_cast<double>(rounds) * kChains * kLanes * 2;
}

}  // namespace trunkline
