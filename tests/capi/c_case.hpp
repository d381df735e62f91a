// Batches and layers as the C interface takes them, and handles that close themselves.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "trunkline/attention.hpp"
#include "trunkline/trunkline.h"

#define EXPECT_OK(call) EXPECT_EQ(call, TRUNKLINE_OK) << trunkline_last_error()
#define ASSERT_OK(call) ASSERT_EQ(call, TRUNKLINE_OK) << trunkline_last_error()

namespace trunkline::testing {

/// Expects a failure of this kind whose text contains `text`.
inline void expect_failure(trunkline_status status, trunkline_status expected, const std::string& text) {
  EXPECT_STREQ(trunkline_status_name(status), trunkline_status_name(expected)) << trunkline_last_error();
  EXPECT_THAT(trunkline_last_error(), ::testing::HasSubstr(text));
}

template <class T, trunkline_status (*destroy)(T*)>
class CHandle {
 public:
  CHandle() = default;
  ~CHandle() { EXPECT_OK(destroy(handle_)); }
  CHandle(const CHandle&) = delete;
  CHandle& operator=(const CHandle&) = delete;
  operator T*() const { return handle_; }
  T** out() { return &handle_; }
  /// The handle, no longer closed here.
  T* let_go() { return std::exchange(handle_, nullptr); }

 private:
  T* handle_ = nullptr;
};
using CText = CHandle<trunkline_text, trunkline_text_destroy>;
using CProfile = CHandle<trunkline_profile, trunkline_profile_destroy>;
using CForest = CHandle<trunkline_forest, trunkline_forest_destroy>;
using CPlanner = CHandle<trunkline_planner, trunkline_planner_destroy>;
using CPlan = CHandle<trunkline_plan, trunkline_plan_destroy>;
using CLiveBatch = CHandle<trunkline_live_batch, trunkline_live_batch_destroy>;
using CLivePlanner = CHandle<trunkline_live_planner, trunkline_live_planner_destroy>;
using CAsyncPlanner = CHandle<trunkline_async_planner, trunkline_async_planner_destroy>;
using CWorkers = CHandle<trunkline_workers, trunkline_workers_destroy>;
using CCpu = CHandle<trunkline_cpu, trunkline_cpu_destroy>;

template <class Struct>
Struct c_struct() {
  Struct value{};
  value.struct_size = sizeof(Struct);
  return value;
}

trunkline_dtype c_dtype(DType dtype);
trunkline_shape c_shape(const AttentionShape& shape);

/// A view of a batch, which outlives it.
struct CBatch {
  explicit CBatch(const Batch& from);
  CBatch(const CBatch&) = delete;
  CBatch& operator=(const CBatch&) = delete;

  trunkline_page_table pages;
  trunkline_batch batch;
};

/// A layer's tensors with explicit shapes and strides.
struct CLayer {
  CLayer(const AttentionShape& shape, const Batch& batch, const AttentionArgs& args);
  CLayer(const CLayer&) = delete;
  CLayer& operator=(const CLayer&) = delete;

  std::array<std::int64_t, 3> q_shape;
  std::array<std::int64_t, 3> q_strides;
  std::array<std::int64_t, 4> cache_shape;
  std::array<std::int64_t, 4> k_strides;
  std::array<std::int64_t, 4> v_strides;
  std::array<std::int64_t, 3> out_strides;
  std::array<std::int64_t, 2> lse_shape;
  std::array<std::int64_t, 2> lse_strides;
  trunkline_attention layer;
};

/// A forest, a planner and an executor on two threads.
struct CServing {
  explicit CServing(const trunkline_batch* batch);

  CWorkers workers;
  CProfile profile;
  CPlanner planner;
  CForest forest;
  CCpu cpu;
};

}  // namespace trunkline::testing
