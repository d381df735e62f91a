// The single-query kernel against the oracle, in each output form, and cases in which another kernel must run.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cuda/device_case.hpp"
#include "cuda/graph.hpp"
#include "exec/executor_cases.hpp"
#include "kv/paged_batch.hpp"
#include "support/expect_error.hpp"
#include "support/policies.hpp"
#include "support/test_scale.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

constexpr std::int32_t kKvHeads[] = {1, 2, 4, 5, 8, 10, 16, 32, 40};

PagedBatch one_request(std::int32_t tokens, std::int32_t page_size) {
  PagedBatch paged =
      lay_out_pages(tree_from_levels("1/" + std::to_string(std::max(tokens, 1))), page_size, 5, PageOrder::kShuffled);
  paged.kv_lens[0] = tokens;
  return paged;
}

Plan plan_of(const AttentionCase& test, Policy policy = Policy::kAuto, std::int32_t capacity = 0) {
  PlanOptions options;
  options.policy = policy;
  if (capacity > 0) options.capacity = {.queries = capacity, .items = 256, .spans = 512, .partials = 512};
  return make_plan(test.forest(), on_cuda(test.shape()), cuda_profile(0, on_cuda(test.shape())), options);
}

class CudaSingleQuery : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped() && cuda_device_info(0).major < 9) GTEST_SKIP() << "no clusters on this device";
  }
};

/// A workspace with a plan, ready to run.
class Ready {
 public:
  Ready(CudaExecutor& executor, const Plan& plan, const Batch& batch, cudaStream_t stream = nullptr)
      : executor_(executor), on_device_(batch), workspace_(executor.workspace_bytes(plan)) {
    executor.upload(plan, batch, workspace_.data(), workspace_.size(), stream);
    resolve(stream);
  }
  ~Ready() { executor_.release(workspace_.data()); }
  Ready(const Ready&) = delete;
  Ready& operator=(const Ready&) = delete;
  void resolve(cudaStream_t stream) { executor_.resolve(on_device_.view(), workspace_.data(), stream); }
  bool single_query() const { return executor_.runs_single_query(workspace_.data()); }
  void run(const AttentionArgs& args, cudaStream_t stream = nullptr) { executor_.run(args, workspace_.data(), stream); }
  DeviceMemory& workspace() { return workspace_; }
  DeviceBatch& batch() { return on_device_; }

 private:
  CudaExecutor& executor_;
  DeviceBatch on_device_;
  DeviceMemory workspace_;
};

TEST_F(CudaSingleQuery, EveryLengthAndForm) {
  CudaExecutor executor;
  std::mt19937_64 random(11);
  constexpr std::int32_t kLengths[] = {0, 1, 7, 15, 16, 17, 63, 64, 65, 127, 128, 500, 1024, 1025, 2047, 4097, 20000};
  constexpr std::int32_t kPageSizes[] = {1, 5, 8, 16, 24, 32, 64};
  int ran = 0;
  for (int round = 0; round < scaled(300); ++round) {
    const std::int32_t tokens = kLengths[uniform(random, 0, 16)] + uniform(random, 0, 1) * uniform(random, 0, 300);
    const std::int32_t page_size = kPageSizes[uniform(random, 0, 6)];
    const std::int32_t kv_heads = kKvHeads[uniform(random, 0, 8)];
    const DType dtype = uniform(random, 0, 1) == 0 ? DType::kF16 : DType::kBF16;
    SyntheticOptions cache;
    cache.seed = random();
    cache.layout = uniform(random, 0, 1) == 0 ? CacheLayout::kNhd : CacheLayout::kHnd;
    cache.logit_scale = static_cast<float>(uniform(random, 1, 6));
    const AttentionShape shape = make_shape(kv_heads, uniform(random, 1, 16), 128, page_size, dtype);
    const PagedBatch paged = one_request(std::min(tokens, 30000 / kv_heads), page_size);
    SCOPED_TRACE(::testing::Message() << "round " << round << ": " << paged.kv_lens[0] << " tokens, pages of "
                                      << page_size << ", " << shape.q_heads << '/' << kv_heads << ' '
                                      << name_of(dtype));
    const AttentionCase test(shape, paged.view(), cache);
    const OutputForm form{.narrow = uniform(random, 0, 1) == 1,
                          .base_two = uniform(random, 0, 1) == 1,
                          .heads_first = uniform(random, 0, 1) == 1};
    DeviceTensors tensors(test, form);
    Ready ready(executor, plan_of(test), test.batch());
    ran += ready.single_query() ? 1 : 0;
    tensors.poison();
    ready.run(tensors.args());
    const AttentionOutput output = tensors.download();
    ASSERT_TRUE(test.matches(output, tolerance_of(dtype, form.narrow)));
    tensors.poison();
    ready.run(tensors.args());
    const AttentionOutput again = tensors.download();
    ASSERT_EQ(output.lse, again.lse);
    ASSERT_TRUE(std::ranges::equal(output.o, again.o)) << "other bits in the second run";
  }
  EXPECT_GT(ran, scaled(300) / 3);
}

TEST_F(CudaSingleQuery, NanBehindTheEndAndNegativeScale) {
  CudaExecutor executor;
  for (const std::int32_t tokens : {1, 30, 1000}) {
    const PagedBatch paged = one_request(tokens, 64);  // unused page offsets and pages are NaN
    AttentionCase test(make_shape(8, 4, 128, 64), paged.view());
    DeviceTensors tensors(test);
    Ready ready(executor, plan_of(test), test.batch());
    if (!ready.single_query()) GTEST_SKIP() << "no cluster for each head on this device";
    AttentionArgs args = tensors.args();
    args.scale = -0.05F;
    const AttentionOutput expected = test.collect([&](AttentionArgs host) {
      host.scale = args.scale;
      reference_attention(test.shape(), test.batch(), host);
    });
    tensors.poison();
    ready.run(args);
    const AttentionOutput output = tensors.download();
    for (std::size_t i = 0; i < output.o.size(); ++i) ASSERT_NEAR(output.o[i], expected.o[i], 2e-3) << "element " << i;
    for (std::size_t i = 0; i < output.lse.size(); ++i) ASSERT_NEAR(output.lse[i], expected.lse[i], 1e-3);
  }
}

// Kernels chosen by name, invariant results and times of tasks need the forward kernels.
TEST_F(CudaSingleQuery, OthersRunWhatTheyAloneGive) {
  const PagedBatch paged = one_request(1000, 16);
  const PagedBatch two = lay_out_pages(tree_from_levels("2/500"), 16, 5);
  const AttentionCase test(make_shape(8, 4, 128, 16), paged.view());
  const AttentionCase of_two(make_shape(8, 4, 128, 16), two.view());
  CudaExecutor automatic;
  if (!Ready(automatic, plan_of(test), test.batch()).single_query())
    GTEST_SKIP() << "no cluster for each head on this device";
  EXPECT_FALSE(Ready(automatic, plan_of(of_two), of_two.batch()).single_query());
  EXPECT_FALSE(Ready(automatic, plan_of(test, Policy::kInvariant), test.batch()).single_query());
  for (const RunWay way :
       {RunWay{.forward = experimental::ForwardMode::kSerial, .kernels = CudaKernels::kAuto},
        RunWay{.merge = MergeMode::kFused, .kernels = CudaKernels::kAuto}, RunWay{.kernels = CudaKernels::kHopper}}) {
    if (way.kernels != CudaKernels::kAuto && cuda_device_info(0).major != 9) continue;
    CudaExecutor executor(way.options());
    EXPECT_FALSE(Ready(executor, plan_of(test), test.batch()).single_query());
  }
  const Plan plan = plan_of(test);
  Ready ready(automatic, plan, test.batch());
  const std::size_t tasks = plan.items.size() * 8;
  const DeviceMemory times(tasks * sizeof(experimental::CudaTaskTime));
  experimental::record_tasks(automatic, ready.workspace().data(), times.as<experimental::CudaTaskTime>(), tasks);
  EXPECT_FALSE(ready.single_query());
}

/// A captured step of one workspace, replayed with what was uploaded and written since.
class CapturedRun {
 public:
  CapturedRun(Ready& ready, const AttentionArgs& args)
      : graph_(stream_, [&] {
          ready.resolve(stream_);
          ready.run(args, stream_);
        }) {}
  void replay() {
    check(cudaDeviceSynchronize());
    graph_.launch(stream_);
    check(cudaStreamSynchronize(stream_));
  }
  std::size_t nodes() const { return graph_.nodes(); }

 private:
  OwnStream stream_;
  Graph graph_;
};

TEST_F(CudaSingleQuery, AGraphReplaysWithOtherLengthsAndPlans) {
  const AttentionShape shape = make_shape(8, 4, 128, 16);
  const PagedBatch longest = one_request(3000, 16);
  const AttentionCase first(shape, longest.view());
  CudaExecutor executor;
  DeviceTensors tensors(first);
  Ready ready(executor, plan_of(first, Policy::kAuto, 1), first.batch());
  if (!ready.single_query()) GTEST_SKIP() << "no cluster for each head on this device";
  CapturedRun graph(ready, tensors.args());
  std::vector<std::int32_t> lens = longest.kv_lens;
  Batch view = longest.view();
  view.kv_lens = lens;
  for (const std::int32_t tokens : {3000, 17, 0, 2999, 128, 1}) {
    lens[0] = tokens;
    const AttentionCase now(shape, view);
    tensors.copy_inputs(now);
    ready.batch().overwrite(view);
    for (const Policy policy : {Policy::kFlat, Policy::kTrunk, Policy::kNode}) {
      const Plan plan = plan_of(now, policy, 1);
      executor.upload(plan, view, ready.workspace().data(), ready.workspace().size(), nullptr);
      tensors.poison();
      graph.replay();
      ASSERT_TRUE(now.matches(tensors.download(), tolerance_of(DType::kF16))) << tokens << ' ' << name_of(policy);
    }
  }
  expect_error(ErrorCode::kWorkspace, "invariant", [&] {
    executor.upload(plan_of(first, Policy::kInvariant), first.batch(), ready.workspace().data(),
                    ready.workspace().size(), nullptr);
  });
}

// With room for more queries a captured run takes the forward kernels, unless max_queries excludes more.
TEST_F(CudaSingleQuery, AGraphIsCapturedForWhatMayCome) {
  const AttentionShape shape = make_shape(8, 4, 128, 16);
  const PagedBatch one = one_request(700, 16);
  const AttentionCase test(shape, one.view());
  CudaExecutor executor;
  DeviceTensors tensors(test);
  Ready ready(executor, plan_of(test, Policy::kAuto, 4), test.batch());
  if (!ready.single_query()) GTEST_SKIP() << "no cluster for each head on this device";
  AttentionArgs args = tensors.args();
  CapturedRun for_more(ready, args);
  args.max_queries = 1;
  CapturedRun for_one(ready, args);
  EXPECT_LT(for_one.nodes(), for_more.nodes());  // no merge
  for (CapturedRun* const run : {&for_one, &for_more}) {
    tensors.poison();
    run->replay();
    EXPECT_TRUE(test.matches(tensors.download(), tolerance_of(DType::kF16)));
  }
  const PagedBatch two = lay_out_pages(tree_from_levels("2/500"), 16, 5);
  const AttentionCase of_two(shape, two.view());
  DeviceTensors more(of_two);
  Ready others(executor, plan_of(of_two), of_two.batch());
  args = more.args();
  args.max_queries = 1;
  expect_error(ErrorCode::kInvalidArgument, "max_queries", [&] { others.run(args); });
}

}  // namespace
}  // namespace trunkline::testing
