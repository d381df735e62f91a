// The planner of GPUs as far as it can be called where there is none: what is refused before any device is needed.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "c_case.hpp"

namespace trunkline::testing {
namespace {

class CCudaPlanning : public ::testing::Test {
 protected:
  CCudaPlanning() {
    EXPECT_OK(trunkline_profile_named("h100-sxm", profile_.out()));
    shape_.q_heads = 32;
    shape_.kv_heads = 8;
    shape_.head_dim_qk = 128;
    shape_.page_size = 16;
    shape_.q_dtype = TRUNKLINE_F16;
    shape_.device = TRUNKLINE_CUDA;
    options_.rows = 8;
    options_.capacity_queries = 8;
    options_.capacity_items = 64;
    options_.capacity_spans = 256;
    options_.capacity_partials = 64;
  }
  trunkline_status create(trunkline_cuda_planner** planner) {
    return trunkline_cuda_planner_create(profile_, &shape_, &options_, planner);
  }

  CProfile profile_;
  trunkline_shape shape_ = c_struct<trunkline_shape>();
  trunkline_cuda_planner_options options_ = c_struct<trunkline_cuda_planner_options>();
  trunkline_cuda_planner* planner_ = nullptr;
};

TEST_F(CCudaPlanning, NullHandlesAreRefused) {
  std::size_t bytes = 7;
  auto report = c_struct<trunkline_cuda_plan_report>();
  auto batch = c_struct<trunkline_cuda_batch>();
  expect_failure(trunkline_cuda_planner_memory_bytes(nullptr, &bytes), TRUNKLINE_BAD_HANDLE,
                 "the CUDA planner handle is NULL");
  expect_failure(trunkline_cuda_planner_bind(nullptr, &bytes, sizeof(bytes), nullptr), TRUNKLINE_BAD_HANDLE,
                 "the CUDA planner handle is NULL");
  expect_failure(trunkline_cuda_planner_workspace_bytes(nullptr, nullptr, &bytes), TRUNKLINE_BAD_HANDLE,
                 "the CUDA executor handle is NULL");
  expect_failure(trunkline_cuda_plan(nullptr, nullptr, &batch, nullptr, 0, nullptr), TRUNKLINE_BAD_HANDLE,
                 "the CUDA executor handle is NULL");
  expect_failure(trunkline_cuda_planner_report(nullptr, &report), TRUNKLINE_BAD_HANDLE,
                 "the CUDA planner handle is NULL");
  expect_failure(trunkline_cuda_planner_create(nullptr, &shape_, &options_, &planner_), TRUNKLINE_BAD_HANDLE,
                 "the profile handle is NULL");
  EXPECT_EQ(bytes, 7U);
  EXPECT_EQ(planner_, nullptr);
}

TEST_F(CCudaPlanning, OtherKindsAreFoundOut) {
  auto* const other = reinterpret_cast<trunkline_cuda_planner*>(static_cast<trunkline_profile*>(profile_));
  std::size_t bytes = 0;
  expect_failure(trunkline_cuda_planner_memory_bytes(other, &bytes), TRUNKLINE_BAD_HANDLE, "CUDA planner handle");
  expect_failure(trunkline_cuda_planner_destroy(other), TRUNKLINE_BAD_HANDLE, "CUDA planner handle");
  auto info = c_struct<trunkline_profile_info>();
  EXPECT_OK(trunkline_profile_get_info(profile_, &info));
}

TEST_F(CCudaPlanning, BadArgumentsAreRefusedFirst) {
  expect_failure(trunkline_cuda_planner_create(profile_, &shape_, &options_, nullptr), TRUNKLINE_INVALID_ARGUMENT,
                 "planner is NULL");
  expect_failure(trunkline_cuda_planner_create(profile_, nullptr, &options_, &planner_), TRUNKLINE_INVALID_ARGUMENT,
                 "shape is NULL");
  expect_failure(trunkline_cuda_planner_create(profile_, &shape_, nullptr, &planner_), TRUNKLINE_INVALID_ARGUMENT,
                 "options is NULL");
  options_.growth = -2;
  expect_failure(create(&planner_), TRUNKLINE_INVALID_ARGUMENT, "options.growth is -2");
  options_.growth = -1;
  options_.has_null_page = 2;
  expect_failure(create(&planner_), TRUNKLINE_INVALID_ARGUMENT, "options.has_null_page is 2");
  options_.has_null_page = 1;
  options_.null_page = -4;
  expect_failure(create(&planner_), TRUNKLINE_OUT_OF_RANGE, "options.null_page is -4");
  options_.has_null_page = 0;
  options_.struct_size = 0;
  expect_failure(create(&planner_), TRUNKLINE_INVALID_ARGUMENT, "options.struct_size is 0");
  EXPECT_EQ(planner_, nullptr);
}

TEST_F(CCudaPlanning, WithoutADeviceItSaysWhy) {
  std::int32_t devices = 0;
  if (trunkline_cuda_status(&devices) == TRUNKLINE_OK) GTEST_SKIP() << devices << " devices are here";
  const std::string reason = trunkline_last_error();
  expect_failure(create(&planner_), TRUNKLINE_UNSUPPORTED, reason);
  EXPECT_EQ(planner_, nullptr);
}

}  // namespace
}  // namespace trunkline::testing
