// Very large and very negative logits, and numbers that are none: nothing lost, nothing swallowed, nothing leaked.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/half.hpp"
#include "cuda/device_case.hpp"
#include "kv/paged_batch.hpp"
#include "support/policies.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

constexpr std::int32_t kDim = 128;  // of all kernels

class CudaLogits : public CudaTest {
 protected:
  static void expect_policies_match(const AttentionCase& test, double tolerance) {
    const DeviceBatch on_device(test.batch());
    DeviceTensors tensors(test);
    for (const CudaKernels kernels : kernels_for(test.shape())) {
      for (const Policy policy : packing_policies()) {
        const Plan plan = make_plan(test.forest(), on_cuda(test.shape()), cutting_gpu_profile(16, kernels),
                                    options_of(policy, experimental::kSplitMean));
        const RunWay way = RunWay{}.with(kernels);
        const AttentionOutput output = run_cuda(plan, test.batch(), executor_of(way), on_device, tensors);
        EXPECT_TRUE(test.matches(output, tolerance)) << name_of(kernels) << ", " << name_of(policy);
      }
    }
  }

  // The case owns its tensors.
  static std::uint16_t* keys_of(const AttentionCase& test) {
    return static_cast<std::uint16_t*>(const_cast<void*>(test.args().k.data));
  }
  static std::uint16_t* queries_of(const AttentionCase& test) {
    return static_cast<std::uint16_t*>(const_cast<void*>(test.args().q));
  }
};

TEST_F(CudaLogits, ExtremeScales) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,3,12/90,40,25"), 16, 3);
  const Batch batch = paged.view();
  for (const float logit_scale : {1e-3F, 30.0F, 1000.0F}) {
    SCOPED_TRACE(logit_scale);
    SyntheticOptions options;
    options.logit_scale = logit_scale;
    options.planted_keys = false;
    const AttentionCase test(make_shape(2, 4, kDim, 16), batch, options);
    // An fp32 logit of 4,000 is known to 0.0005, and weights may differ by as much.
    expect_policies_match(test, logit_scale > 100 ? 1e-2 : tolerance_of(DType::kF16));
  }
}

// Where exp(lse) underflows to 0, a merge that divides by the sum of such weights gives NaN.
TEST_F(CudaLogits, AllVeryNegative) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,12/300,40"), 16, 3);
  const Batch batch = paged.view();
  AttentionCase test(make_shape(1, 4, kDim, 16), batch);
  const std::int64_t key_elements = batch.num_pages * test.args().k.page_stride;
  for (std::int64_t i = 0; i < key_elements; i += kDim) keys_of(test)[i] = f32_to_f16(-1000);
  for (std::int64_t i = 0; i < std::int64_t{batch.total_queries()} * 4 * kDim; i += kDim) {
    queries_of(test)[i] = f32_to_f16(100);
  }
  test.recompute_expected();
  ASSERT_LT(test.expected().lse[0], -8000.0F);
  expect_policies_match(test, 3e-2);  // logits of 8,800 are sums near 100,000, known to 0.008 / 11
}

// A scale of 0 gives all visible tokens equal weights, and masked tokens none: query tokens of a chunk have different
// masks.
TEST_F(CudaLogits, AScaleOfZero) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,3,12/90,40,25"), 16, 3);
  const std::vector<std::int32_t> chunks = {0, 1, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16};
  const PagedBatch single = lay_out_pages(tree_from_levels("1/500"), 16, 3);
  for (const bool alone : {false, true}) {
    Batch batch = alone ? single.view() : paged.view();
    if (!alone) batch.query_start = chunks;
    const AttentionCase test(make_shape(2, 4, kDim, 16), batch);
    const AttentionOutput expected = test.collect([&](AttentionArgs args) {
      args.scale = 0.0F;
      reference_attention(test.shape(), batch, args);
    });
    const DeviceBatch on_device(batch);
    DeviceTensors tensors(test);
    AttentionArgs args = tensors.args();
    args.scale = 0.0F;
    for (const CudaKernels kernels : {CudaKernels::kAuto, CudaKernels::kPortable}) {
      const MachineProfile profile = cuda_profile(0, on_cuda(test.shape()), kernels);
      const Plan plan =
          make_plan(test.forest(), on_cuda(test.shape()), profile, options_of(Policy::kNode, experimental::kSplitMean));
      CudaExecutor executor({.kernels = kernels});
      const DeviceMemory workspace(executor.workspace_bytes(plan));
      executor.upload(plan, batch, workspace.data(), workspace.size(), nullptr);
      executor.resolve(on_device.view(), workspace.data(), nullptr);
      tensors.poison();
      executor.run(args, workspace.data(), nullptr);
      const AttentionOutput output = tensors.download();
      const double tolerance = tolerance_of(DType::kF16);
      for (std::size_t i = 0; i < output.o.size(); ++i) ASSERT_NEAR(output.o[i], expected.o[i], tolerance) << i;
      for (std::size_t i = 0; i < output.lse.size(); ++i) ASSERT_NEAR(output.lse[i], expected.lse[i], 1e-4) << i;
    }
  }
}

// A NaN in the inputs must reach the outputs of the queries that attend to it, and no others.
TEST_F(CudaLogits, NanIsNeitherSwallowedNorSpread) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,3,12/90,40,25"), 16, 3);
  const Batch batch = paged.view();
  const std::uint16_t nan = f32_to_f16(std::numeric_limits<float>::quiet_NaN());
  for (const bool in_query : {true, false}) {
    SCOPED_TRACE(in_query ? "in a query row" : "in a key of one request");
    AttentionCase test(make_shape(1, 4, kDim, 16), batch);
    const std::int32_t last = batch.rows() - 1;
    const std::int32_t position = batch.kv_lens[static_cast<std::size_t>(last)] - 1;
    const std::int64_t page = batch.pages.id(last, position / 16);
    (in_query ? queries_of(test)[5 * 4 * kDim]
              : keys_of(test)[page * test.args().k.page_stride + position % 16 * kDim]) = nan;
    test.recompute_expected();
    expect_policies_match(test, tolerance_of(DType::kF16));
  }
}

}  // namespace
}  // namespace trunkline::testing
