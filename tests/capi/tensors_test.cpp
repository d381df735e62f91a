// Tensors from DLPack, and merging attention states.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "c_case.hpp"
#include "exec/merge_case.hpp"

namespace trunkline::testing {
namespace {

/// The layout that DLPack fixes, written down once more: the library's own mirror is what is tested.
struct DlTensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device_id;
  std::int32_t ndim;
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

class CDlpack : public ::testing::Test {
 protected:
  std::array<float, 24> data_{};
  std::array<std::int64_t, 2> shape_{3, 4};
  std::array<std::int64_t, 2> strides_{8, 2};
  DlTensor given_{data_.data(), 1, 0, 2, 2, 32, 1, shape_.data(), strides_.data(), 8};
  trunkline_tensor tensor_{};
};

TEST_F(CDlpack, IsAView) {
  ASSERT_OK(trunkline_tensor_from_dlpack(&given_, &tensor_));
  EXPECT_EQ(tensor_.data, &data_[2]);
  EXPECT_EQ(tensor_.dtype, TRUNKLINE_F32);
  EXPECT_EQ(tensor_.device, TRUNKLINE_CPU);
  EXPECT_EQ(tensor_.ndim, 2);
  EXPECT_EQ(tensor_.shape, shape_.data());
  EXPECT_EQ(tensor_.strides, strides_.data());
}

TEST_F(CDlpack, TypesAndDevices) {
  struct Type {
    std::uint8_t code, bits;
    trunkline_dtype dtype;
  };
  for (const Type type : {Type{2, 16, TRUNKLINE_F16}, Type{4, 16, TRUNKLINE_BF16}, Type{0, 32, TRUNKLINE_I32},
                          Type{0, 64, TRUNKLINE_I64}}) {
    given_.code = type.code;
    given_.bits = type.bits;
    ASSERT_OK(trunkline_tensor_from_dlpack(&given_, &tensor_));
    EXPECT_EQ(tensor_.dtype, type.dtype);
  }
  given_.device_id = 3;
  for (const std::int32_t device : {2, 13}) {
    given_.device_type = device;
    ASSERT_OK(trunkline_tensor_from_dlpack(&given_, &tensor_));
    EXPECT_EQ(tensor_.device, TRUNKLINE_CUDA);
    EXPECT_EQ(tensor_.device_index, 3);
  }
  given_.device_type = 3;
  ASSERT_OK(trunkline_tensor_from_dlpack(&given_, &tensor_));
  EXPECT_EQ(tensor_.device, TRUNKLINE_CPU);
}

TEST_F(CDlpack, WhatIsNotTaken) {
  given_.bits = 64;
  expect_failure(trunkline_tensor_from_dlpack(&given_, &tensor_), TRUNKLINE_UNSUPPORTED, "code 2, 64 bits");
  given_.bits = 32;
  given_.lanes = 4;
  expect_failure(trunkline_tensor_from_dlpack(&given_, &tensor_), TRUNKLINE_UNSUPPORTED, "4 lanes");
  given_.lanes = 1;
  given_.device_type = 10;
  expect_failure(trunkline_tensor_from_dlpack(&given_, &tensor_), TRUNKLINE_UNSUPPORTED, "device has type 10");
  expect_failure(trunkline_tensor_from_dlpack(nullptr, &tensor_), TRUNKLINE_INVALID_ARGUMENT, "dl_tensor is NULL");
  expect_failure(trunkline_tensor_from_dlpack(&given_, nullptr), TRUNKLINE_INVALID_ARGUMENT, "tensor is NULL");
}

TEST_F(CDlpack, Versioned) {
  struct {
    std::uint32_t major = 1;
    std::uint32_t minor = 1;
    void* context = nullptr;
    void* deleter = nullptr;
    std::uint64_t flags = 1;
    DlTensor tensor{};
  } managed;
  managed.tensor = given_;
  std::int32_t read_only = 0;
  ASSERT_OK(trunkline_tensor_from_dlpack_versioned(&managed, &tensor_, &read_only));
  EXPECT_EQ(read_only, 1);
  EXPECT_EQ(tensor_.data, &data_[2]);
  managed.flags = 2;
  ASSERT_OK(trunkline_tensor_from_dlpack_versioned(&managed, &tensor_, &read_only));
  EXPECT_EQ(read_only, 0);
  managed.major = 2;
  expect_failure(trunkline_tensor_from_dlpack_versioned(&managed, &tensor_, nullptr), TRUNKLINE_UNSUPPORTED,
                 "DLPack 2.1; supported: 1");
}

class CMerge : public ::testing::Test {
 protected:
  CMerge() : random_(3), made_(make_merge_case(random_, 3, 64, {0, 1, 5, 40, 2}, true)) {
    const auto rows = static_cast<std::size_t>(made_.rows());
    out_.resize(rows * 3 * 64);
    lse_.resize(rows * 3);
    states_shape_ = {static_cast<std::int64_t>(made_.slots.size()), 3, 64};
    out_shape_ = {made_.rows(), 3, 64};
    merge_ = c_struct<trunkline_merge>();
    merge_.states = tensor(made_.states.data(), 3, states_shape_.data());
    merge_.state_lse = tensor(made_.lse.data(), 2, states_shape_.data());
    merge_.out = tensor(out_.data(), 3, out_shape_.data());
    merge_.lse = tensor(lse_.data(), 2, out_shape_.data());
    merge_.begin = made_.begin.data();
    merge_.slots = made_.slots.data();
    merge_.lse_base = TRUNKLINE_LSE_TWO;
  }
  static trunkline_tensor tensor(float* data, std::int32_t ndim, const std::int64_t* shape) {
    return {.data = data,
            .dtype = TRUNKLINE_F32,
            .device = TRUNKLINE_CPU,
            .device_index = 0,
            .ndim = ndim,
            .shape = shape,
            .strides = nullptr};
  }

  std::mt19937_64 random_;
  MergeCase made_;
  std::vector<float> out_;
  std::vector<float> lse_;
  std::array<std::int64_t, 3> states_shape_{};
  std::array<std::int64_t, 3> out_shape_{};
  trunkline_merge merge_{};
};

TEST_F(CMerge, IsRight) {
  ASSERT_OK(trunkline_merge_states(&merge_));
  EXPECT_TRUE(merged_right(made_, out_, lse_, 1e-5));
}

// numpy gives empty arrays strides of 0, and slices keep any in dimensions of one element.
TEST_F(CMerge, StridesThatNobodyStepsBy) {
  constexpr std::array<std::int64_t, 3> kOdd = {-7, 0, 0};
  constexpr std::array<std::int32_t, 1> kNoRows = {0};
  merge_.slots = nullptr;
  merge_.begin = kNoRows.data();
  states_shape_[0] = out_shape_[0] = 0;
  for (trunkline_tensor* each : {&merge_.states, &merge_.state_lse, &merge_.out, &merge_.lse})
    each->strides = kOdd.data();
  EXPECT_OK(trunkline_merge_states(&merge_));

  constexpr std::array<std::int64_t, 3> kOneRow = {-7, 64, 1};
  constexpr std::array<std::int64_t, 2> kOneRowOfHeads = {-7, 1};
  constexpr std::array<std::int32_t, 2> kOneState = {0, 1};
  std::iota(made_.states.begin(), made_.states.end(), 0.0F);
  std::fill(made_.lse.begin(), made_.lse.end(), 0.5F);
  merge_.begin = kOneState.data();
  states_shape_[0] = out_shape_[0] = 1;
  merge_.states.strides = merge_.out.strides = kOneRow.data();
  merge_.state_lse.strides = merge_.lse.strides = kOneRowOfHeads.data();
  ASSERT_OK(trunkline_merge_states(&merge_));
  for (std::size_t i = 0; i < 3 * 64; ++i) EXPECT_EQ(out_[i], made_.states[i]);
}

TEST_F(CMerge, BadInput) {
  const auto refused = [&](void (*change)(trunkline_merge&), trunkline_status status, const std::string& text) {
    trunkline_merge merge = merge_;
    change(merge);
    expect_failure(trunkline_merge_states(&merge), status, text);
  };
  using M = trunkline_merge;
  static constexpr std::int64_t kTwoHeads[] = {5, 2, 64};
  static constexpr std::int64_t kFewStates[] = {20, 3, 64};
  static constexpr std::int64_t kHuge[] = {48, std::int64_t{1} << 40, std::int64_t{1} << 40};
  refused([](M& m) { m.struct_size = 3; }, TRUNKLINE_INVALID_ARGUMENT, "merge.struct_size is 3");
  refused([](M& m) { m.states.ndim = 2; }, TRUNKLINE_INVALID_ARGUMENT, "merge.states has 2 dimensions");
  refused([](M& m) { m.states.shape = kHuge; }, TRUNKLINE_INVALID_ARGUMENT, "merge.states.shape[1] is 1099511627776");
  refused([](M& m) { m.states.data = nullptr; }, TRUNKLINE_INVALID_ARGUMENT, "states.states is null");
  refused([](M& m) { m.state_lse.dtype = TRUNKLINE_F16; }, TRUNKLINE_INVALID_ARGUMENT, "merge.state_lse has dtype f16");
  refused([](M& m) { m.out.shape = kTwoHeads; }, TRUNKLINE_INVALID_ARGUMENT, "merge.out has shape [5, 2, 64]");
  refused([](M& m) { m.lse.shape = kTwoHeads; }, TRUNKLINE_INVALID_ARGUMENT, "merge.lse has shape [5, 2]");
  refused([](M& m) { m.begin = nullptr; }, TRUNKLINE_INVALID_ARGUMENT, "merge.begin is NULL");
  refused([](M& m) { m.out.device = TRUNKLINE_CUDA; }, TRUNKLINE_INVALID_ARGUMENT, "merge.out is on cuda:0");
  refused([](M& m) { m.lse_base = -1; }, TRUNKLINE_INVALID_ARGUMENT, "merge.lse_base is -1");
  refused([](M& m) { m.states.shape = m.state_lse.shape = kFewStates; }, TRUNKLINE_OUT_OF_RANGE, "there are 20 states");
  refused(
      [](M& m) {
        m.states.shape = m.state_lse.shape = kFewStates;
        m.slots = nullptr;
      },
      TRUNKLINE_OUT_OF_RANGE, "reaches state 20; there are 20 states");
  std::vector<float> states = made_.states;
  std::vector<float> lse = made_.lse;
  static constexpr std::int64_t kOverlapping[] = {64, 64, 1};
  static constexpr std::int64_t kStill[] = {192, 0, 1};
  merge_.states.data = states.data();
  merge_.state_lse.data = lse.data();
  refused([](M& m) { m.out.data = m.states.data; }, TRUNKLINE_INVALID_ARGUMENT, "out overlaps states.states");
  refused([](M& m) { m.lse.data = m.state_lse.data; }, TRUNKLINE_INVALID_ARGUMENT, "lse overlaps states.state_lse");
  refused([](M& m) { m.lse.data = m.out.data; }, TRUNKLINE_INVALID_ARGUMENT, "out overlaps states.lse");
  refused([](M& m) { m.out.strides = kOverlapping; }, TRUNKLINE_INVALID_ARGUMENT, "which overlap each other");
  refused([](M& m) { m.out.strides = kStill; }, TRUNKLINE_INVALID_ARGUMENT, "merge.out.strides[1] is 0");
  std::int32_t device_status = trunkline_cuda_merge_states(&merge_, 0, nullptr);
  expect_failure(device_status, TRUNKLINE_INVALID_ARGUMENT, "merge.states is on cpu; expected: cuda:0");
}

}  // namespace
}  // namespace trunkline::testing
