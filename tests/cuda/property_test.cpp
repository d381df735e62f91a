// Random forests x policies x cuts x modes x types x groups x page sizes x table forms against the oracle.
#include <gtest/gtest.h>

#include <utility>

#include "cuda/device_case.hpp"
#include "exec/executor_cases.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

constexpr std::int32_t kPageSizes[] = {1, 5, 8, 16, 24, 64};
constexpr std::int32_t kHeadDims[] = {64, 64, 128, 128, 256};

class CudaProperty : public CudaTest {};

TEST_F(CudaProperty, EveryPolicyAndCutMatchesTheOracle) {
  for (int round = 0; round < scaled(1500); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 1000;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const RandomBatch random_batch = make_random_batch(random, random_executor_options(random, kPageSizes, 24, 400));
    const Batch batch = random_batch.view();
    const DType dtype = uniform(random, 0, 1) == 0 ? DType::kF16 : DType::kBF16;
    const AttentionShape shape = make_shape(uniform(random, 1, 3), uniform(random, 1, 16),
                                            kHeadDims[uniform(random, 0, 4)], random_batch.options.page_size, dtype);
    SyntheticOptions cache;
    cache.layout = uniform(random, 0, 1) == 0 ? CacheLayout::kNhd : CacheLayout::kHnd;
    const AttentionCase test(shape, batch, cache);
    const std::vector<CudaKernels> families = kernels_for(on_cuda(shape));
    const CudaKernels kernels = families[static_cast<std::size_t>(round) % families.size()];
    const MachineProfile profile = cutting_gpu_profile(uniform(random, 1, 64), kernels, shape.head_dim_qk);
    const OutputForm form{uniform(random, 0, 1) == 1, uniform(random, 0, 1) == 1, uniform(random, 0, 1) == 1};
    const DeviceBatch on_device(batch);
    DeviceTensors tensors(test, form);
    for (const Policy policy : all_policies()) {
      const KvSplit splits[] = {KvSplit::kOwn, KvSplit::kBalance, experimental::kSplitMean};
      const KvSplit split = splits[uniform(random, 0, 2)];
      const RunWay way = kRunWays[uniform(random, 0, static_cast<std::int32_t>(std::size(kRunWays)) - 1)].with(kernels);
      SCOPED_TRACE(::testing::Message() << name_of(policy) << " " << name_of(split) << " " << text_of(way));
      const Plan plan = make_plan(test.forest(), on_cuda(shape), profile, options_of(policy, split));
      ASSERT_EQ(find_plan_violation(plan, test.forest()), std::nullopt);
      const AttentionOutput output = run_cuda(plan, batch, executor_of(way), on_device, tensors);
      ASSERT_TRUE(test.matches(output, tolerance_of(dtype, form.narrow)));
    }
  }
}

// One or two tokens a task: warps of a CTA may be a task apart, so what they share between tasks must not be written
// while it is read.
TEST_F(CudaProperty, ManyShortTasksOfEachCta) {
  PrefixTree tree{"short", {}, {}, {}};
  for (std::int32_t request = 0; request < 4000; ++request) {
    tree.parent.push_back(-1);
    tree.tokens.push_back(1 + request % 2);
    tree.end_node.push_back(request);
  }
  for (const auto& [head_dim, page_size] : {std::pair{64, 16}, {128, 16}, {128, 8}, {256, 16}}) {
    const PagedBatch paged = lay_out_pages(tree, page_size, 1);
    const Batch batch = paged.view();
    const AttentionCase test(make_shape(2, 4, head_dim, page_size, DType::kF16), batch);
    for (const CudaKernels kernels : kernels_for(test.shape())) {
      const Plan plan = make_plan(test.forest(), on_cuda(test.shape()), cutting_gpu_profile(64, kernels, head_dim),
                                  options_of(Policy::kFlat, KvSplit::kNone));
      for (const RunWay way : kRunWays) {
        SCOPED_TRACE(::testing::Message()
                     << "d " << head_dim << ", pages of " << page_size << ", " << text_of(way.with(kernels)));
        EXPECT_TRUE(test.matches(run_cuda(test, plan, way.with(kernels)), tolerance_of(DType::kF16)));
      }
    }
  }
}

// Tiles of two halves whose requests have stages of their own in turns, over many tasks of a CTA: warps of one half
// look up stages behind those of the other, whose ring slots and masks must not be taken for later ones. Between them
// are tiles of at most 64 rows, whose stages both warpgroups take in turns.
TEST_F(CudaProperty, HalvesPassEachOthersStages) {
  std::mt19937_64 random(4);
  std::uniform_int_distribution<std::int32_t> tokens(0, 600);
  PrefixTree tree{"halves", {-1}, {200}, {}};
  for (std::int32_t group = 0; group < 24; ++group) {
    const auto prefix = static_cast<std::int32_t>(tree.parent.size());
    tree.parent.push_back(0);
    tree.tokens.push_back(tokens(random) + 32);
    const std::int32_t requests = group % 3 == 0 ? 5 : 28;
    for (std::int32_t request = 0; request < requests; ++request) {
      tree.end_node.push_back(static_cast<std::int32_t>(tree.parent.size()));
      tree.parent.push_back(prefix);
      tree.tokens.push_back(tokens(random));
    }
  }
  for (const std::int32_t page_size : {16, 32, 24, 8, 20}) {
    const PagedBatch paged = lay_out_pages(tree, page_size, 1);
    const Batch batch = paged.view();
    const AttentionCase test(make_shape(2, 8, 128, page_size, DType::kF16), batch);
    for (const CudaKernels kernels : kernels_for(test.shape())) {
      for (const Policy policy : {Policy::kTrunk, Policy::kFlatten}) {
        const Plan plan = make_plan(test.forest(), on_cuda(test.shape()), cutting_gpu_profile(16, kernels),
                                    options_of(policy, KvSplit::kNone));
        SCOPED_TRACE(::testing::Message()
                     << "pages of " << page_size << ", " << name_of(policy) << ", " << name_of(kernels));
        for (int run = 0; run < 3; ++run) {
          const RunWay way = kRunWays[0];
          EXPECT_TRUE(test.matches(run_cuda(test, plan, way.with(kernels)), tolerance_of(DType::kF16)));
        }
      }
    }
  }
}

// If the comparison could not fail, nothing above would mean anything.
TEST_F(CudaProperty, ADroppedNodeShows) {
  std::mt19937_64 random(77);
  RandomBatchOptions options;
  options.max_rows = 10;
  options.max_tokens = 600;
  const RandomBatch random_batch = make_random_batch(random, options);
  const Batch batch = random_batch.view();
  const AttentionCase test(make_shape(1, 4, 64, 16, DType::kBF16), batch);
  const Plan plan = make_plan(test.forest(), on_cuda(test.shape()), cutting_gpu_profile(2),
                              options_of(Policy::kNode, KvSplit::kNone));
  int changed = 0;
  for (std::size_t i = 0; i < plan.spans.size(); ++i) {
    if (plan.spans[i].open_ended() || plan.spans[i].end == plan.spans[i].begin) continue;
    Plan broken = plan;
    broken.spans[i].end = broken.spans[i].begin;
    EXPECT_FALSE(test.matches(run_cuda(test, broken), tolerance_of(DType::kBF16, true))) << "span " << i << " dropped";
    ++changed;
  }
  EXPECT_GT(changed, 0);
}

}  // namespace
}  // namespace trunkline::testing
