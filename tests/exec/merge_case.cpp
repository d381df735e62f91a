#include "exec/merge_case.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/random_batch.hpp"

namespace trunkline::testing {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

struct Expected {
  std::vector<double> o;
  double lse = kMinusInfinity;
};

Expected merge_in_doubles(const MergeCase& made, std::size_t row, std::int32_t head) {
  const auto d = static_cast<std::size_t>(made.head_dim);
  Expected expected{std::vector<double>(d), kMinusInfinity};
  const auto first = made.slots.begin() + made.begin[row];
  const auto last = made.slots.begin() + made.begin[row + 1];
  double maximum = kMinusInfinity;
  for (auto slot = first; slot != last; ++slot) maximum = std::max(maximum, double{made.lse[made.at(*slot, head)]});
  if (maximum == kMinusInfinity) return expected;
  double sum = 0;
  for (auto slot = first; slot != last; ++slot) {
    const std::size_t state = made.at(*slot, head);
    const double weight = std::exp2(double{made.lse[state]} - maximum);
    if (weight == 0) continue;
    sum += weight;
    for (std::size_t e = 0; e < d; ++e) expected.o[e] += weight * double{made.states[state * d + e]};
  }
  for (double& element : expected.o) element /= sum;
  expected.lse = maximum + std::log2(sum);
  return expected;
}

}  // namespace

MergeStates MergeCase::view() const {
  MergeStates view;
  view.rows = rows();
  view.count = static_cast<std::int64_t>(lse.size()) / q_heads;
  view.q_heads = q_heads;
  view.head_dim = head_dim;
  view.states = states.data();
  view.state_lse = lse.data();
  view.begin = begin.data();
  view.slots = slots.data();
  view.out_dtype = DType::kF32;
  view.lse_base = LseBase::kTwo;
  return view;
}

MergeCase make_merge_case(std::mt19937_64& random, std::int32_t q_heads, std::int32_t head_dim,
                          const std::vector<std::int32_t>& counts, bool nan) {
  MergeCase made;
  made.q_heads = q_heads;
  made.head_dim = head_dim;
  for (const std::int32_t count : counts) {
    for (std::int32_t i = 0; i < count; ++i) made.slots.push_back(static_cast<std::int32_t>(made.slots.size()));
    made.begin.push_back(static_cast<std::int32_t>(made.slots.size()));
  }
  std::shuffle(made.slots.begin(), made.slots.end(), random);
  std::normal_distribution<float> normal(0, 1);
  const float of_empty = nan ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
  for (std::size_t state = 0; state < made.slots.size() * static_cast<std::size_t>(q_heads); ++state) {
    const bool empty = uniform(random, 0, 5) == 0;
    made.lse.push_back(empty ? static_cast<float>(kMinusInfinity) : 20 * normal(random) - 500);
    for (std::int32_t i = 0; i < head_dim; ++i) made.states.push_back(empty ? of_empty : normal(random));
  }
  return made;
}

::testing::AssertionResult merged_right(const MergeCase& made, const std::vector<float>& out,
                                        const std::vector<float>& lse, double tolerance,
                                        const std::vector<std::int32_t>& row_of) {
  for (std::size_t row = 0; row < static_cast<std::size_t>(made.rows()); ++row) {
    for (std::int32_t head = 0; head < made.q_heads; ++head) {
      const Expected expected = merge_in_doubles(made, row, head);
      const std::size_t at = made.at(row_of.empty() ? static_cast<std::int32_t>(row) : row_of[row], head);
      const double off = std::abs(double{lse[at]} - expected.lse);
      const bool lse_right = std::isinf(expected.lse) ? double{lse[at]} == expected.lse : off < 1e-4;
      if (!lse_right) {
        return ::testing::AssertionFailure()
               << "row " << row << ", head " << head << ": LSE " << lse[at] << ", expected " << expected.lse;
      }
      for (std::size_t e = 0; e < expected.o.size(); ++e) {
        const float got = out[at * expected.o.size() + e];
        if (std::abs(double{got} - expected.o[e]) < tolerance) continue;
        return ::testing::AssertionFailure() << "row " << row << ", head " << head << ", element " << e << ": " << got
                                             << ", expected " << expected.o[e];
      }
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace trunkline::testing
