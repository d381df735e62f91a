// Machine information, profiles, and the messages of builds without CUDA.
#include <gtest/gtest.h>
#include <trunkline/experimental.h>

#include <cstdint>
#include <string>

#include "c_case.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/profile_file.hpp"

namespace trunkline::testing {
namespace {

std::string text_of(trunkline_text* text) {
  const char* data = nullptr;
  std::size_t length = 0;
  EXPECT_OK(trunkline_text_view(text, &data, &length));
  EXPECT_EQ(data[length], '\0');
  return {data, length};
}

TEST(CMachine, Cpu) {
  auto info = c_struct<trunkline_cpu_info>();
  ASSERT_OK(trunkline_get_cpu_info(&info));
  const CpuInfo expected = cpu_info();
  EXPECT_EQ(info.model, expected.model.substr(0, sizeof(info.model) - 1));
  EXPECT_EQ(info.cores, expected.cores);
  EXPECT_EQ(info.isa, static_cast<int>(expected.isa) + 1);
  EXPECT_EQ(info.memory_bytes, expected.memory_bytes);
}

TEST(CMachine, NamedProfiles) {
  for (const std::string name : {"a100-80gb", "generic-cpu", "h100-sxm", "h200-sxm"}) {
    SCOPED_TRACE(name);
    CProfile profile;
    ASSERT_OK(trunkline_profile_named(name.c_str(), profile.out()));
    const MachineProfile file = load_profile(std::string(TRUNKLINE_DATA) + "/machines/" + name + ".json");
    auto info = c_struct<trunkline_profile_info>();
    ASSERT_OK(trunkline_profile_get_info(profile, &info));
    EXPECT_EQ(info.name, file.name);
    EXPECT_EQ(info.workers, file.workers);
    EXPECT_EQ(info.device, file.device == Device::kCpu ? TRUNKLINE_CPU : TRUNKLINE_CUDA);
    EXPECT_EQ(info.read_bytes_per_us, file.read_bytes_per_us);
    // Its text is a profile again.
    CText json;
    ASSERT_OK(trunkline_profile_json(profile, json.out()));
    const std::string text = text_of(json);
    CProfile again;
    ASSERT_OK(trunkline_profile_parse(text.data(), text.size(), "again", again.out()));
  }
  CProfile none;
  expect_failure(trunkline_profile_named("h300", none.out()), TRUNKLINE_INVALID_ARGUMENT,
                 "known profiles: a100-80gb, generic-cpu, h100-sxm, h200-sxm");
}

TEST(CMachine, OtherProfiles) {
  CProfile profile;
  expect_failure(trunkline_profile_load("/nowhere/x.json", profile.out()), TRUNKLINE_IO, "/nowhere/x.json");
  expect_failure(trunkline_profile_parse("{", 1, "mine", profile.out()), TRUNKLINE_PARSE, "mine");
  expect_failure(trunkline_profile_generic_cpu(0, profile.out()), TRUNKLINE_INVALID_ARGUMENT, "threads is 0");
  ASSERT_OK(trunkline_profile_generic_cpu(3, profile.out()));
  CText json;
  expect_failure(trunkline_profile_json(profile, json.out()), TRUNKLINE_UNSUPPORTED, "have no sources");
  CWorkers workers;
  CProfile measured;
  ASSERT_OK(trunkline_workers_create(1, workers.out()));
  ASSERT_OK(trunkline_profile_measure_cpu(workers, measured.out()));
  auto info = c_struct<trunkline_profile_info>();
  ASSERT_OK(trunkline_profile_get_info(measured, &info));
  EXPECT_EQ(info.workers, 1);
  EXPECT_GT(info.read_bytes_per_us, 0);
}

TEST(CMachine, APlanForAnotherMachineNeedsNoGpu) {
  CProfile profile;
  ASSERT_OK(trunkline_profile_named("h200-sxm", profile.out()));
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,16/512,64"), 16, 1);
  const CBatch batch(paged.view());
  CForest forest;
  CPlanner planner;
  ASSERT_OK(trunkline_forest_create(forest.out()));
  ASSERT_OK(trunkline_forest_build(forest, &batch.batch, TRUNKLINE_CHECK_ALL_IDS));
  ASSERT_OK(trunkline_planner_create(profile, planner.out()));
  const trunkline_shape shape = {.struct_size = sizeof shape,
                                 .q_heads = 32,
                                 .kv_heads = 8,
                                 .head_dim_qk = 128,
                                 .head_dim_v = 0,
                                 .page_size = 16,
                                 .q_dtype = TRUNKLINE_BF16,
                                 .kv_dtype = 0,
                                 .device = TRUNKLINE_CUDA};
  const trunkline_plan* plan = nullptr;
  ASSERT_OK(trunkline_planner_plan(planner, forest, &shape, nullptr, &plan));
  EXPECT_OK(trunkline_plan_validate(plan, forest));
}

TEST(CMachine, Cuda) {
  const CudaStatus expected = cuda_status();
  std::int32_t devices = -1;
  const trunkline_status status = trunkline_cuda_status(&devices);
  EXPECT_EQ(devices, expected.devices);
  if (expected.usable) {
    EXPECT_OK(status);
    return;
  }
  expect_failure(status, TRUNKLINE_UNSUPPORTED, expected.reason);
  trunkline_cuda* cuda = nullptr;
  CProfile profile;
  auto info = c_struct<trunkline_cuda_info>();
  const trunkline_shape shape = {.struct_size = sizeof shape,
                                 .q_heads = 8,
                                 .kv_heads = 2,
                                 .head_dim_qk = 64,
                                 .head_dim_v = 0,
                                 .page_size = 16,
                                 .q_dtype = TRUNKLINE_F16,
                                 .kv_dtype = 0,
                                 .device = TRUNKLINE_CUDA};
  trunkline_kernels kernels = -1;
  expect_failure(trunkline_cuda_create(nullptr, &cuda), TRUNKLINE_UNSUPPORTED, expected.reason);
  expect_failure(trunkline_get_cuda_info(0, &info), TRUNKLINE_UNSUPPORTED, expected.reason);
  expect_failure(trunkline_profile_cuda(0, &shape, TRUNKLINE_KERNELS_AUTO, profile.out()), TRUNKLINE_UNSUPPORTED,
                 expected.reason);
  expect_failure(trunkline_cuda_kernels_for(0, &shape, TRUNKLINE_KERNELS_AUTO, &kernels), TRUNKLINE_UNSUPPORTED,
                 expected.reason);
  expect_failure(trunkline_supports(&shape), TRUNKLINE_UNSUPPORTED, expected.reason);
  expect_failure(trunkline_cuda_kernels_for(0, &shape, 3, &kernels), TRUNKLINE_INVALID_ARGUMENT, "wanted is 3");
  auto options = c_struct<trunkline_cuda_options>();
  auto study = c_struct<trunkline_cuda_study>();
  options.study = &study;
  study.forward = 3;
  expect_failure(trunkline_cuda_create(&options, &cuda), TRUNKLINE_INVALID_ARGUMENT, "options.study.forward is 3");
  study = c_struct<trunkline_cuda_study>();
  study.merge = 3;
  expect_failure(trunkline_cuda_create(&options, &cuda), TRUNKLINE_INVALID_ARGUMENT, "options.study.merge is 3");
}

}  // namespace
}  // namespace trunkline::testing
