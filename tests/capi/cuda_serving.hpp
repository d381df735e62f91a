// A case on the device as the C interface takes it, and all that serves it.
#pragma once

#include <gtest/gtest.h>

#include "c_case.hpp"
#include "cuda/device_case.hpp"
#include "exec/attention_case.hpp"

namespace trunkline::testing {

using CCuda = CHandle<trunkline_cuda, trunkline_cuda_destroy>;

/// A layer's tensors on device 0.
struct DeviceLayer : CLayer {
  DeviceLayer(const AttentionCase& test, const DeviceTensors& tensors)
      : CLayer(test.shape(), test.batch(), tensors.args()) {
    for (trunkline_tensor* tensor : {&layer.q, &layer.k, &layer.v, &layer.out, &layer.lse}) {
      tensor->device = TRUNKLINE_CUDA;
    }
  }
};

inline Batch table_of(const PageTable& pages) {
  Batch batch;
  batch.pages = pages;
  return batch;
}

/// All that a step needs, for a case on the device.
struct CudaServing {
  explicit CudaServing(const AttentionCase& test)
      : shape(c_shape(test.shape())),
        host(test.batch()),
        on_device(test.batch()),
        tables(table_of(on_device.view().pages)) {
    shape.device = TRUNKLINE_CUDA;
    EXPECT_OK(trunkline_profile_cuda(0, &shape, TRUNKLINE_KERNELS_AUTO, profile.out()));
    EXPECT_OK(trunkline_planner_create(profile, planner.out()));
    EXPECT_OK(trunkline_forest_create(forest.out()));
    EXPECT_OK(trunkline_forest_build(forest, &host.batch, TRUNKLINE_CHECK_ALL_IDS));
    EXPECT_OK(trunkline_cuda_create(nullptr, cuda.out()));
    EXPECT_OK(trunkline_cuda_supports(cuda, &shape));
    device = c_struct<trunkline_cuda_batch>();
    device.pages = &tables.pages;
    device.kv_lens = on_device.view().kv_lens;
    device.num_pages = test.batch().num_pages;
  }
  const trunkline_plan* plan(trunkline_policy policy) {
    auto options = c_struct<trunkline_plan_options>();
    options.policy = policy;
    const trunkline_plan* made = nullptr;
    EXPECT_OK(trunkline_planner_plan(planner, forest, &shape, &options, &made));
    return made;
  }

  trunkline_shape shape;
  CBatch host;
  DeviceBatch on_device;
  CBatch tables;  // of which pages alone is meant
  trunkline_cuda_batch device{};
  CProfile profile;
  CPlanner planner;
  CForest forest;
  CCuda cuda;
};

}  // namespace trunkline::testing
