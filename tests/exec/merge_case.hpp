// Attention states to merge, and what they make, in fp64.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "trunkline/attention.hpp"

namespace trunkline::testing {

/// Rows with any numbers of states, a sixth of them over no tokens: their outputs are NaN where `nan`, else 0. Slots in
/// no order. LSEs in base 2, far from 0.
struct MergeCase {
  std::int32_t q_heads = 0;
  std::int32_t head_dim = 0;
  std::vector<std::int32_t> begin{0};
  std::vector<std::int32_t> slots;
  std::vector<float> states;  ///< [slots, Hq, d]
  std::vector<float> lse;     ///< [slots, Hq]

  std::int32_t rows() const { return static_cast<std::int32_t>(begin.size()) - 1; }
  std::size_t at(std::int32_t slot, std::int32_t head) const {
    return static_cast<std::size_t>(slot) * static_cast<std::size_t>(q_heads) + static_cast<std::size_t>(head);
  }
  /// With the tensors of this case; the caller gives the outputs.
  MergeStates view() const;
};

/// \param counts states of each row
MergeCase make_merge_case(std::mt19937_64& random, std::int32_t q_heads, std::int32_t head_dim,
                          const std::vector<std::int32_t>& counts, bool nan);

/// Compares O [rows, Hq, d] and base-2 LSE [rows, Hq] with sums in fp64.
/// \param row_of the output row of each row of the case; empty: the same
::testing::AssertionResult merged_right(const MergeCase& made, const std::vector<float>& out,
                                        const std::vector<float>& lse, double tolerance,
                                        const std::vector<std::int32_t>& row_of = {});

}  // namespace trunkline::testing
