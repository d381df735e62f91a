// Attention sinks, soft caps and scales on a GPU: by hand where they are simple, else against the oracle.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "cuda/device_case.hpp"
#include "exec/executor_cases.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class CudaSoftmaxVariants : public CudaTest {
 protected:
  // 13 requests on a trunk, of which some end in the trunk and one is empty.
  CudaSoftmaxVariants()
      : paged_(
            lay_out_pages({"trunk", {-1, 0, 0, 1}, {150, 40, 9, 30}, {1, 2, 3, 0, 1, 2, 3, 3, 3, 2, 1, -1, 3}}, 16, 3)),
        single_(lay_out_pages(tree_from_levels("1/3000"), 16, 3)) {}

  // Both batches: of many requests, and of one, which has a kernel of its own.
  template <class Change>
  void expect_matches(const Change& change) {
    for (const PagedBatch* const paged : {&paged_, &single_}) {
      for (const std::int32_t head_dim : {64, 128, 256}) {
        SCOPED_TRACE(::testing::Message() << paged->view().rows() << " requests, d " << head_dim);
        const Batch batch = paged->view();
        AttentionCase test(make_shape(2, 4, head_dim, 16), batch);
        test.vary(change);
        expect_all_policies_match(test, 16);
        expect_auto_matches(test);
      }
    }
  }

  // With the kernels that a user gets, the single-query kernel among them.
  static void expect_auto_matches(const AttentionCase& test) {
    const Plan plan = make_plan(test.forest(), on_cuda(test.shape()), cuda_profile(0, on_cuda(test.shape())), {});
    CudaExecutor executor;
    const DeviceBatch on_device(test.batch());
    DeviceTensors tensors(test);
    EXPECT_TRUE(test.matches(run_cuda(plan, test.batch(), executor, on_device, tensors), tolerance_of(DType::kF16)));
  }

  PagedBatch paged_;
  PagedBatch single_;
};

TEST_F(CudaSoftmaxVariants, Sinks) {
  for (const std::vector<float>& sinks : {std::vector<float>{-kInfinity, 0, 1, 2, 5, -3, 1e4F, 12},
                                          std::vector<float>(8, -kInfinity), std::vector<float>(8, -1e4F)}) {
    expect_matches([&](AttentionArgs& args) { args.sinks = sinks.data(); });
  }
}

// A sink of minus infinity changes no bit.
TEST_F(CudaSoftmaxVariants, SinksWithoutWeight) {
  const std::vector<float> sinks(8, -kInfinity);
  for (const PagedBatch* const paged : {&paged_, &single_}) {
    const Batch batch = paged->view();
    AttentionCase test(make_shape(2, 4, 128, 16), batch);
    for (const CudaKernels kernels : {CudaKernels::kAuto, CudaKernels::kPortable}) {
      const Plan plan =
          make_plan(test.forest(), on_cuda(test.shape()), cuda_profile(0, on_cuda(test.shape()), kernels), {});
      CudaExecutor executor({.kernels = kernels});
      const DeviceBatch on_device(batch);
      test.vary({});
      DeviceTensors plain(test);
      const AttentionOutput without = run_cuda(plan, batch, executor, on_device, plain);
      test.vary([&](AttentionArgs& args) { args.sinks = sinks.data(); });
      DeviceTensors with_sinks(test);
      const AttentionOutput with = run_cuda(plan, batch, executor, on_device, with_sinks);
      EXPECT_EQ(with.o, without.o) << name_of(kernels);
      EXPECT_EQ(with.lse, without.lse) << name_of(kernels);
    }
  }
}

TEST_F(CudaSoftmaxVariants, SoftCaps) {
  for (const float cap : {0.05F, 1.0F, 30.0F, 50.0F, 1e4F, 1e6F, 1e32F}) {
    SCOPED_TRACE(cap);
    expect_matches([&](AttentionArgs& args) { args.soft_cap = cap; });
  }
}

// Logits of many times the cap, where tanh is 1, and a negative scale, whose sign is in Q.
TEST_F(CudaSoftmaxVariants, SoftCapsOfLargeLogits) {
  for (const float scale : {0.0F, 1e-6F, 0.6F, -0.6F, 10.0F, 1e4F}) {
    SCOPED_TRACE(scale);
    expect_matches([&](AttentionArgs& args) {
      args.scale = scale;
      args.soft_cap = 8;
    });
  }
}

TEST_F(CudaSoftmaxVariants, EverythingTogether) {
  const std::vector<float> sinks{-kInfinity, 0, 1, 2, 5, -3, 1e4F, 12};
  expect_matches([&](AttentionArgs& args) {
    args.soft_cap = 5;
    args.sinks = sinks.data();
    args.q_scale.value = 0.5F;
    args.k_scale.value = 3;
    args.v_scale.value = 0.25F;
  });
}

// A masked logit is -inf, which a cap would make finite: masks must come after it.
TEST_F(CudaSoftmaxVariants, ASoftCapShowsNoMaskedToken) {
  for (int round = 0; round < scaled(40); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 7000;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    constexpr std::int32_t kPageSizes[] = {1, 5, 16, 24};
    const RandomBatch random_batch = make_random_batch(random, random_executor_options(random, kPageSizes, 16, 300));
    const Batch batch = random_batch.view();
    AttentionCase test(make_shape(2, uniform(random, 1, 8), 128, random_batch.options.page_size), batch);
    test.vary([](AttentionArgs& args) {
      args.scale = 1e-3F;
      args.soft_cap = 1;
    });
    const DeviceBatch on_device(batch);
    DeviceTensors tensors(test);
    for (const CudaKernels kernels : kernels_for(test.shape())) {
      for (const Policy policy : all_policies()) {
        const Plan plan = make_plan(test.forest(), on_cuda(test.shape()), cutting_gpu_profile(16, kernels),
                                    options_of(policy, experimental::kSplitMean));
        const AttentionOutput output = run_cuda(plan, batch, executor_of(RunWay{}.with(kernels)), on_device, tensors);
        ASSERT_TRUE(test.matches(output, tolerance_of(DType::kF16))) << name_of(policy) << " " << name_of(kernels);
      }
    }
  }
}

}  // namespace
}  // namespace trunkline::testing
