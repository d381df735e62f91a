// Merging attention states on the CPU: plain loops, as the time goes to memory.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

#include "base/check.hpp"
#include "base/half.hpp"
#include "exec/check_merge.hpp"
#include "trunkline/attention.hpp"

namespace trunkline {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The state that row `row` has in place i of the lists.
void check_slot(const MergeStates& states, std::int32_t row, std::int32_t i) {
  const std::int32_t slot = states.slots != nullptr ? states.slots[i] : i;
  if (slot >= 0 && slot < states.count) return;
  if (states.slots == nullptr) {
    fail(ErrorCode::kOutOfRange, "states.begin[", row + 1, "] reaches state ", slot, "; there are ", states.count,
         " states");
  }
  fail(ErrorCode::kOutOfRange, "states.slots[", i, "] is ", slot, "; there are ", states.count, " states");
}

void check_lists(const MergeStates& states) {
  if (states.rows > 0 && states.begin[0] != 0) {
    fail(ErrorCode::kInvalidArgument, "states.begin[0] is ", states.begin[0], "; it must be 0");
  }
  for (std::int32_t row = 0; row < states.rows; ++row) {
    const std::int32_t begin = states.begin[row];
    const std::int32_t end = states.begin[row + 1];
    if (end < begin) {
      fail(ErrorCode::kInvalidArgument, "states.begin[", row + 1, "] is ", end, ", less than the entry before, ",
           begin);
    }
    for (std::int32_t i = begin; i < end; ++i) check_slot(states, row, i);
  }
}

float element_at(const void* data, DType dtype, std::int64_t at) {
  if (dtype == DType::kF32) return static_cast<const float*>(data)[at];
  const std::uint16_t half = static_cast<const std::uint16_t*>(data)[at];
  return dtype == DType::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
}

void store_element(void* data, DType dtype, std::int64_t at, float value) {
  if (dtype == DType::kF32) {
    static_cast<float*>(data)[at] = value;
  } else {
    static_cast<std::uint16_t*>(data)[at] = dtype == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
  }
}

class Merger {
 public:
  explicit Merger(const MergeStates& states)
      : states_(states),
        to_base_two_(states.lse_base == LseBase::kNatural ? std::numbers::log2e_v<float> : 1.0F),
        from_base_two_(states.lse_base == LseBase::kNatural ? std::numbers::ln2_v<float> : 1.0F),
        o_(static_cast<std::size_t>(states.head_dim)) {}

  // Differences of LSEs alone are brought to base 2: LSEs themselves may be the largest floats there are.
  void merge(std::int32_t row, std::int32_t head) {
    float maximum = kMinusInfinity;
    for (std::int32_t i = states_.begin[row]; i < states_.begin[row + 1]; ++i) {
      const float lse = lse_of(slot(i), head);
      maximum = lse > maximum ? lse : maximum;
    }
    std::fill(o_.begin(), o_.end(), 0.0F);
    float sum = 0;
    for (std::int32_t i = states_.begin[row]; i < states_.begin[row + 1]; ++i) {
      const float lse = lse_of(slot(i), head);
      if (lse == kMinusInfinity) continue;
      const float weight = std::exp2((lse - maximum) * to_base_two_);
      sum += weight;
      const std::int64_t at = slot(i) * states_.state_stride + head * states_.state_head_stride;
      for (std::size_t element = 0; element < o_.size(); ++element) {
        o_[element] +=
            weight * element_at(states_.states, states_.states_dtype, at + static_cast<std::int64_t>(element));
      }
    }
    write(row, head, sum, sum == 0 ? kMinusInfinity : maximum + std::log2(sum) * from_base_two_);
  }

 private:
  std::int64_t slot(std::int32_t i) const { return states_.slots == nullptr ? i : states_.slots[i]; }
  float lse_of(std::int64_t slot, std::int32_t head) const {
    return states_.state_lse[slot * states_.state_lse_stride + head * states_.state_lse_head_stride];
  }

  void write(std::int32_t row, std::int32_t head, float sum, float lse) const {
    const float inverse = sum == 0 ? 0 : 1 / sum;  // nothing seen: O = 0. A NaN stays one
    const std::int64_t at = row * states_.out_row_stride + head * states_.out_head_stride;
    for (std::size_t element = 0; element < o_.size(); ++element) {
      store_element(states_.out, states_.out_dtype, at + static_cast<std::int64_t>(element), o_[element] * inverse);
    }
    if (states_.lse == nullptr) return;
    states_.lse[row * states_.lse_row_stride + head * states_.lse_head_stride] = lse;
  }

  const MergeStates& states_;
  float to_base_two_;
  float from_base_two_;
  std::vector<float> o_;
};

}  // namespace

void merge_states(const MergeStates& given) {
  const MergeStates states = check_merge_states(given);
  check_lists(states);
  check_merge_overlaps(states, states.rows > 0 ? states.begin[states.rows] : 0);
  Merger merger(states);
  for (std::int32_t row = 0; row < states.rows; ++row) {
    for (std::int32_t head = 0; head < states.q_heads; ++head) merger.merge(row, head);
  }
}

}  // namespace trunkline
