// The merge kernels by themselves, on states made here.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/half.hpp"
#include "cuda/device_case.hpp"
#include "exec/cuda/kernels/any/merge.hpp"
#include "exec/merge_case.hpp"
#include "support/expect_error.hpp"

namespace trunkline::testing {
namespace {

class CudaMerge : public CudaTest {
 protected:
  // As a plan's partials, of queries in another order than their outputs.
  static void expect_right(const MergeCase& made) {
    ListCounts counts{};
    counts.merges = made.rows();
    std::vector<std::int32_t> queries;
    std::vector<RowQuery> tokens;
    for (std::int32_t row = 0; row < made.rows(); ++row) {
      queries.push_back(made.rows() - 1 - row);
      tokens.push_back({row, row, 0});
    }
    const DeviceMemory counts_memory(&counts, sizeof(counts));
    const DeviceMemory tokens_memory(tokens);
    const DeviceMemory merge_queries(queries);
    const DeviceMemory begin(made.begin);
    const DeviceMemory slots(made.slots);
    const DeviceMemory partial_out(made.states);
    const DeviceMemory partial_lse(made.lse);
    const std::size_t rows = queries.size() * static_cast<std::size_t>(made.q_heads);
    const DeviceMemory out(rows * static_cast<std::size_t>(made.head_dim) * sizeof(float), true);
    const DeviceMemory lse(rows * sizeof(float), true);
    cuda::MergeArgs args{};
    args.plan.counts = counts_memory.as<ListCounts>();
    args.plan.merge_queries = merge_queries.as<std::int32_t>();
    args.plan.merge_begin = begin.as<std::int32_t>();
    args.plan.merge_slots = slots.as<std::int32_t>();
    args.plan.queries = tokens_memory.as<RowQuery>();
    args.layer.out = out.data();
    args.layer.out_f32 = 1;
    args.layer.out_token = std::int64_t{made.q_heads} * made.head_dim;
    args.layer.out_head = made.head_dim;
    args.layer.lse = lse.as<float>();
    args.layer.lse_token = made.q_heads;
    args.layer.lse_head = 1;
    args.layer.lse_factor = 1;
    args.layer.q_heads = made.q_heads;
    args.partials = {partial_out.as<float>(), partial_lse.as<float>()};
    check(cuda::launch_merge(args, DType::kF16, made.head_dim, queries.size(), 4, false, nullptr));
    std::vector<float> got_out(rows * static_cast<std::size_t>(made.head_dim));
    std::vector<float> got_lse(rows);
    out.download(got_out.data());
    lse.download(got_lse.data());
    ASSERT_TRUE(merged_right(made, got_out, got_lse, 1e-5, queries));
  }
};

TEST_F(CudaMerge, AnyNumberOfPartials) {
  std::mt19937_64 random(11);
  for (const std::int32_t head_dim : {64, 128, 256}) {
    SCOPED_TRACE(head_dim);
    expect_right(make_merge_case(random, 5, head_dim, {1, 2, 31, 32, 33, 64, 100, 1000, 3}, false));
  }
  expect_right(make_merge_case(random, 32, 128, std::vector<std::int32_t>(300, 4), false));
}

// The operation that engines call: each type of state, and of output where it is another; LSE by heads.
TEST_F(CudaMerge, StatesOfACaller) {
  std::mt19937_64 random(12);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const std::int32_t head_dim : {64, 128, 256}) {
      SCOPED_TRACE(::testing::Message() << name_of(dtype) << " d " << head_dim);
      MergeCase made = make_merge_case(random, 6, head_dim, {2, 2, 0, 1, 40, 2}, true);
      std::vector<std::uint16_t> narrow;
      for (float& element : made.states) {
        if (dtype == DType::kF32) break;
        narrow.push_back(dtype == DType::kF16 ? f32_to_f16(element) : f32_to_bf16(element));
        element = dtype == DType::kF16 ? f16_to_f32(narrow.back()) : bf16_to_f32(narrow.back());
      }
      const DeviceMemory states_memory = dtype == DType::kF32 ? DeviceMemory(made.states) : DeviceMemory(narrow);
      const DeviceMemory lse_in(made.lse);
      const DeviceMemory begin(made.begin);
      const DeviceMemory slots(made.slots);
      const std::size_t rows = static_cast<std::size_t>(made.rows()) * 6;
      const DeviceMemory out(rows * static_cast<std::size_t>(head_dim) * sizeof(float), true);
      const DeviceMemory lse(rows * sizeof(float), true);
      MergeStates states = made.view();
      states.states = states_memory.data();
      states.states_dtype = dtype;
      states.state_lse = lse_in.as<float>();
      states.begin = begin.as<std::int32_t>();
      states.slots = slots.as<std::int32_t>();
      states.out = out.data();
      states.lse = lse.as<float>();
      cuda_merge_states(states, 0, nullptr);
      std::vector<float> got_out(rows * static_cast<std::size_t>(head_dim));
      std::vector<float> got_lse(rows);
      out.download(got_out.data());
      lse.download(got_lse.data());
      EXPECT_TRUE(merged_right(made, got_out, got_lse, 1e-5));

      if (dtype == DType::kF32) continue;
      states.out_dtype = dtype;
      cuda_merge_states(states, 0, nullptr);
      std::vector<std::uint16_t> got_narrow(2 * got_out.size());
      out.download(got_narrow.data());
      for (std::size_t i = 0; i < got_out.size(); ++i) {
        const std::uint16_t rounded = dtype == DType::kF16 ? f32_to_f16(got_out[i]) : f32_to_bf16(got_out[i]);
        ASSERT_EQ(got_narrow[i], rounded) << i;
      }
    }
  }
}

// Rows without a state, of which there are none: nothing of them is read.
TEST_F(CudaMerge, NoStates) {
  constexpr std::int32_t kRows = 5;
  const DeviceMemory begin(std::vector<std::int32_t>(kRows + 1, 0));
  const DeviceMemory out(kRows * 2 * 64 * sizeof(float), true);
  const DeviceMemory lse(kRows * 2 * sizeof(float), true);
  MergeStates states;
  states.rows = kRows;
  states.q_heads = 2;
  states.head_dim = 64;
  auto* const nowhere = reinterpret_cast<float*>(std::uintptr_t{1} << 40);
  states.states = nowhere;
  states.state_lse = nowhere;
  states.begin = begin.as<std::int32_t>();
  states.out = out.data();
  states.out_dtype = DType::kF32;
  states.lse = lse.as<float>();
  cuda_merge_states(states, 0, nullptr);
  std::vector<float> got_out(kRows * 2 * 64);
  std::vector<float> got_lse(kRows * 2);
  out.download(got_out.data());
  lse.download(got_lse.data());
  for (const float element : got_out) ASSERT_EQ(element, 0);
  for (const float value : got_lse) ASSERT_EQ(value, -std::numeric_limits<float>::infinity());
}

TEST_F(CudaMerge, FaultsAreNamed) {
  std::mt19937_64 random(13);
  MergeCase made = make_merge_case(random, 2, 64, {2, 3}, false);
  std::vector<float> out(4 * 64);
  MergeStates states = made.view();  // refused before anything is read
  states.out = out.data();
  states.out_row_stride = 129;
  expect_error(ErrorCode::kInvalidArgument, "states.out is at", [&] { cuda_merge_states(states, 0, nullptr); });
  states.out_row_stride = 0;
  expect_error(ErrorCode::kOutOfRange, "device is 99", [&] { cuda_merge_states(states, 99, nullptr); });
  std::vector<float> lse_with_room(made.lse.size() + out.size());  // so that `out` overlaps nothing behind it
  states.state_lse = lse_with_room.data();
  states.out = lse_with_room.data();
  expect_error(ErrorCode::kInvalidArgument, "states.out overlaps states.state_lse",
               [&] { cuda_merge_states(states, 0, nullptr); });
  states.out = out.data();
  states.head_dim = 80;
  expect_error(ErrorCode::kUnsupported, "states.head_dim is 80", [&] { cuda_merge_states(states, 0, nullptr); });
}

}  // namespace
}  // namespace trunkline::testing
