#include "exec/check_merge.hpp"

#include <cstddef>
#include <cstdint>

#include "base/check.hpp"
#include "exec/check_overlap.hpp"
#include "exec/check_tensor.hpp"

namespace trunkline {
namespace {

void check_sizes(const MergeStates& states) {
  if (states.rows < 0) fail(ErrorCode::kInvalidArgument, "states.rows is ", states.rows, "; it must be >= 0");
  if (states.count < 0) fail(ErrorCode::kInvalidArgument, "states.count is ", states.count, "; it must be >= 0");
  if (states.q_heads < 1) fail(ErrorCode::kInvalidArgument, "states.q_heads is ", states.q_heads, "; it must be >= 1");
  if (states.head_dim != 64 && states.head_dim != 128 && states.head_dim != 256) {
    fail(ErrorCode::kUnsupported, "states.head_dim is ", states.head_dim, "; supported: 64, 128, 256");
  }
  for (const DType dtype : {states.states_dtype, states.out_dtype}) {
    if (dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16) continue;
    fail(ErrorCode::kUnsupported, "states have type number ", static_cast<int>(dtype), "; supported: f32, f16, bf16");
  }
  if (states.lse_base != LseBase::kNatural && states.lse_base != LseBase::kTwo) {
    fail(ErrorCode::kInvalidArgument, "states.lse_base is number ", static_cast<int>(states.lse_base),
         "; supported: natural, two");
  }
}

void fill_defaults(MergeStates& states) {
  const std::int64_t row = std::int64_t{states.q_heads} * states.head_dim;
  const auto tensor = [&](std::int64_t& row_stride, std::int64_t& head_stride) {
    if (row_stride == 0) row_stride = row;
    if (head_stride == 0) head_stride = states.head_dim;
  };
  const auto lse = [&](std::int64_t& row_stride, std::int64_t& head_stride) {
    if (row_stride != 0 || head_stride != 0) return;
    row_stride = states.q_heads;
    head_stride = 1;
  };
  tensor(states.state_stride, states.state_head_stride);
  tensor(states.out_row_stride, states.out_head_stride);
  lse(states.state_lse_stride, states.state_lse_head_stride);
  lse(states.lse_row_stride, states.lse_head_stride);
}

}  // namespace

MergeStates check_merge_states(const MergeStates& given) {
  MergeStates states = given;
  check_sizes(states);
  fill_defaults(states);
  if (states.rows == 0) return states;
  if (states.count > 0) {
    check_pointer("states", "states", states.states, size_of(states.states_dtype));
    check_pointer("states", "state_lse", states.state_lse, sizeof(float));
  }
  check_pointer("states", "begin", states.begin, sizeof(std::int32_t));
  check_pointer("states", "out", states.out, size_of(states.out_dtype));
  check_stride("states", "state_stride", states.state_stride);
  check_stride("states", "state_head_stride", states.state_head_stride);
  check_stride("states", "state_lse_stride", states.state_lse_stride);
  check_stride("states", "state_lse_head_stride", states.state_lse_head_stride);
  check_stride("states", "out_row_stride", states.out_row_stride);
  check_stride("states", "out_head_stride", states.out_head_stride);
  if (states.lse == nullptr) return states;
  check_pointer("states", "lse", states.lse, sizeof(float));
  check_stride("states", "lse_row_stride", states.lse_row_stride);
  check_stride("states", "lse_head_stride", states.lse_head_stride);
  return states;
}

void check_merge_overlaps(const MergeStates& states, std::int64_t listed) {
  const auto tensor = [&states](const char* name, const void* data, std::int64_t rows, std::int64_t row_stride,
                                std::int64_t head_stride, std::int64_t inner, std::size_t bytes) {
    return extent_of_tensor("states", name, data, rows, row_stride, states.q_heads, head_stride, inner, bytes);
  };
  const std::int64_t lse_rows = states.lse == nullptr ? 0 : states.rows;
  const auto begins = states.rows > 0 ? static_cast<std::size_t>(states.rows) + 1 : 0;
  const auto slots = states.slots != nullptr ? static_cast<std::size_t>(listed) : 0;
  const NamedExtent extents[] = {
      {"states.out", tensor("out", states.out, states.rows, states.out_row_stride, states.out_head_stride,
                            states.head_dim, size_of(states.out_dtype))},
      {"states.lse",
       tensor("lse", states.lse, lse_rows, states.lse_row_stride, states.lse_head_stride, 1, sizeof(float))},
      {"states.states", tensor("states", states.states, states.count, states.state_stride, states.state_head_stride,
                               states.head_dim, size_of(states.states_dtype))},
      {"states.state_lse", tensor("state_lse", states.state_lse, states.count, states.state_lse_stride,
                                  states.state_lse_head_stride, 1, sizeof(float))},
      {"states.begin", extent_of_bytes(states.begin, begins * sizeof(std::int32_t))},
      {"states.slots", extent_of_bytes(states.slots, slots * sizeof(std::int32_t))},
  };
  check_overlaps(extents, 2);
  if (states.rows == 0) return;
  check_disjoint("states", "out", states.rows, states.out_row_stride, states.q_heads, states.out_head_stride,
                 states.head_dim);
  if (states.lse == nullptr) return;
  check_disjoint("states", "lse", states.rows, states.lse_row_stride, states.q_heads, states.lse_head_stride, 1);
}

}  // namespace trunkline
