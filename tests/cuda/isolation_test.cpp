// A request whose KV cache holds NaN or infinity harms no other, on a GPU: see exec/isolation_test.cpp.
#include <gtest/gtest.h>

#include <iterator>
#include <limits>
#include <vector>

#include "cuda/device_case.hpp"
#include "cuda/graph.hpp"
#include "cuda/on_device.hpp"
#include "exec/executor_cases.hpp"
#include "exec/poison.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class CudaIsolation : public CudaTest {};

void expect_isolation(const AttentionCase& test, KvSplit split = KvSplit::kOwn) {
  const DeviceBatch on_device(test.batch());
  DeviceTensors tensors(test);
  for (const CudaKernels kernels : kernels_for(test.shape())) {
    for (const Policy policy : all_policies()) {
      const Plan plan =
          make_plan(test.forest(), on_cuda(test.shape()), cutting_gpu_profile(16, kernels, test.shape().head_dim_qk),
                    options_of(policy, split));
      for (const RunWay& way : kRunWays) {
        const AttentionOutput output = run_cuda(plan, test.batch(), executor_of(way.with(kernels)), on_device, tensors);
        EXPECT_TRUE(isolates(test, output, tolerance_of(test.shape().q_dtype)))
            << name_of(policy) << ", " << text_of(way.with(kernels));
      }
    }
  }
}

TEST_F(CudaIsolation, TwoRequestsThatShareNothing) {
  const std::vector<std::int32_t> ids{0, 1}, lens{5, 5};
  Batch batch;
  batch.pages = PageTable::dense(std::span<const std::int32_t>(ids), 2, 1, 16);
  batch.kv_lens = lens;
  batch.num_pages = 2;
  for (const std::int32_t head_dim : {64, 128, 256}) {
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      for (const float value : {kNan, kInfinity}) {
        AttentionCase test(make_shape(2, 4, head_dim, 16, dtype), batch);
        poison(test, {.row = 0, .position = 0, .element = head_dim - 1, .value = value});
        test.recompute_expected();
        expect_isolation(test);
      }
    }
  }
}

// Query tokens of one request: a token is masked for those before it, and for other branches of a draft tree.
TEST_F(CudaIsolation, LaterTokensOfAChunkAndOtherBranchesOfATree) {
  const std::vector<std::int32_t> ids{2, 0, 1}, lens{40}, starts{0, 4}, parents{-1, 0, 0, 1};
  for (const bool tree : {false, true}) {
    Batch batch;
    batch.pages = PageTable::dense(std::span<const std::int32_t>(ids), 1, 3, 16);
    batch.kv_lens = lens;
    batch.num_pages = 3;
    batch.query_start = starts;
    if (tree) batch.query_parents = parents;
    for (const std::int32_t head_dim : {64, 128}) {
      for (const std::int32_t position : {37, 39}) {
        AttentionCase test(make_shape(2, 4, head_dim, 16), batch);
        poison(test, {.row = 0, .position = position, .value = kNan});
        test.recompute_expected();
        expect_isolation(test);
      }
    }
  }
}

TEST_F(CudaIsolation, RandomForests) {
  constexpr std::int32_t kPageSizes[] = {1, 5, 8, 16, 24, 64};
  constexpr std::int32_t kHeadDims[] = {64, 128, 128, 256};
  for (int round = 0; round < scaled(400); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 7000;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const RandomBatch random_batch = make_random_batch(random, random_executor_options(random, kPageSizes, 24, 300));
    const Batch batch = random_batch.view();
    const DType dtype = uniform(random, 0, 1) == 0 ? DType::kF16 : DType::kBF16;
    const AttentionShape shape = make_shape(uniform(random, 1, 3), uniform(random, 1, 16),
                                            kHeadDims[uniform(random, 0, 3)], random_batch.options.page_size, dtype);
    AttentionCase test(shape, batch);
    if (!poison_random_tokens(random, test)) continue;
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
      const Plan plan = make_plan(test.forest(), on_cuda(shape), profile, options_of(policy, split));
      const AttentionOutput output = run_cuda(plan, batch, executor_of(way), on_device, tensors);
      ASSERT_TRUE(isolates(test, output, tolerance_of(dtype, form.narrow)))
          << name_of(policy) << " " << name_of(split) << " " << text_of(way);
    }
  }
}

/// 64 requests on a trunk of 4,096 tokens, of which the fourth has a NaN in V of a private token.
class OneOfManyOnATrunk {
 public:
  explicit OneOfManyOnATrunk(DType dtype)
      : paged_(lay_out_pages(tree_from_levels("1,64/4096,320"), 16, 3)),
        batch_(paged_.view()),
        test_(make_shape(8, 4, 128, 16, dtype), batch_) {
    poison(test_, {.row = 3, .position = 4200, .head = 2, .element = 5, .value = kNan});
    test_.recompute_expected();
  }
  const AttentionCase& test() const { return test_; }

 private:
  PagedBatch paged_;
  Batch batch_;
  AttentionCase test_;
};

TEST_F(CudaIsolation, OneOfManyOnATrunk) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const OneOfManyOnATrunk poisoned(dtype);
    const AttentionCase& test = poisoned.test();
    EXPECT_GE(finite_percent(test), 99);
    for (const CudaKernels kernels : kernels_for(test.shape())) {
      const MachineProfile profile = cuda_profile(0, on_cuda(test.shape()), kernels);
      for (const Policy policy : {Policy::kAuto, Policy::kTrunk, Policy::kFlatten}) {
        const Plan plan = make_plan(test.forest(), on_cuda(test.shape()), profile, options_of(policy, KvSplit::kOwn));
        EXPECT_TRUE(isolates(test, run_cuda(test, plan, {.kernels = kernels}), tolerance_of(dtype)))
            << name_of(policy) << ", " << name_of(kernels);
      }
    }
  }
}

// Planned on the device and replayed, as an engine does.
TEST_F(CudaIsolation, DevicePlansInAGraph) {
  const OneOfManyOnATrunk poisoned(DType::kF16);
  const AttentionCase& test = poisoned.test();
  OnDevice on_device(on_cuda(test.shape()), 64, {.queries = 64, .items = 512, .spans = 2048, .partials = 1024});
  const DeviceBatch batch(test.batch());
  DeviceTensors tensors(test);
  const OwnStream stream;
  on_device.plan(batch, stream);  // before the capture, which makes no first plan
  Graph graph(stream, [&] {
    on_device.plan(batch, stream);
    on_device.run(tensors, stream);
    on_device.run(tensors, stream);
  });
  for (int replay = 0; replay < 3; ++replay) {
    tensors.poison();
    graph.launch(stream);
    check(cudaStreamSynchronize(stream));
    EXPECT_TRUE(isolates(test, tensors.download(), tolerance_of(DType::kF16)));
  }
}

}  // namespace
}  // namespace trunkline::testing
