// Policy `invariant` on a GPU: a request's results are the same bits alone and in any batch, by each family of kernels.
#include <gtest/gtest.h>

#include <string>

#include "base/check.hpp"
#include "cuda/device_case.hpp"
#include "exec/company.hpp"
#include "exec/executor_cases.hpp"
#include "support/policies.hpp"
#include "support/test_scale.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

constexpr std::int32_t kPageSizes[] = {1, 5, 8, 16, 24, 32, 64};
constexpr std::int32_t kHeadDims[] = {64, 128, 128, 128, 256};
constexpr std::int32_t kChunks[] = {7, 64, 100, 128, 512};

class CudaInvariant : public CudaTest {};

template <class T, std::size_t N>
T any_of(std::mt19937_64& random, const T (&choices)[N]) {
  return choices[uniform(random, 0, static_cast<std::int32_t>(N) - 1)];
}

/// Large logits, so that rows' maxima rise at other tokens than their neighbours'.
SyntheticOptions random_cache(std::mt19937_64& random) {
  SyntheticOptions options;
  options.seed = random();
  options.layout = uniform(random, 0, 1) == 0 ? CacheLayout::kNhd : CacheLayout::kHnd;
  options.planted_keys = uniform(random, 0, 1) == 0;
  options.logit_scale = static_cast<float>(uniform(random, 1, 6));
  return options;
}

/// One random batch, its cache on the device, and runs of some of its requests.
class InvariantCase {
 public:
  explicit InvariantCase(std::uint64_t seed)
      : random_(seed),
        all_(make_random_batch(random_, random_executor_options(random_, kPageSizes, 24, 1200))),
        test_(make_shape(uniform(random_, 1, 2), uniform(random_, 1, 16), any_of(random_, kHeadDims),
                         all_.options.page_size, uniform(random_, 0, 1) == 0 ? DType::kF16 : DType::kBF16),
              all_.view(), random_cache(random_)),
        narrow_(uniform(random_, 0, 1) == 1),
        chunk_(any_of(random_, kChunks)),
        row_(uniform(random_, 0, static_cast<std::int32_t>(all_.kv_lens.size()) - 1)),
        k_(test_.args().k.data, cache_bytes()),
        v_(test_.args().v.data, cache_bytes()) {}

  const AttentionShape& shape() const { return test_.shape(); }

  /// \return how one request's results differ between it alone and three batches; empty where they do not
  std::string difference_under(Policy policy, CudaKernels kernels) {
    const AttentionOutput expected = run(alone(all_, test_, row_), policy, kernels);
    for (int batch = 0; batch < 3; ++batch) {
      const Company company = among_others(random_, all_, test_, row_);
      const AttentionOutput output = run(company, policy, kernels);
      const std::string differs = difference(expected, output, shape());
      if (differs.empty()) continue;
      return concat(name_of(kernels), ", ", shape().q_heads, "/", shape().kv_heads, " heads of ", shape().head_dim_qk,
                    ", pages of ", shape().page_size, ", chunks of ", chunk_, ", row ", row_, " of ",
                    all_.kv_lens[static_cast<std::size_t>(row_)], " tokens and ", company.queries.size(),
                    " queries, trees ", all_.options.trees ? 1 : 0, ", batch of ", company.batch.kv_lens.size(),
                    " rows, ", ways_, ": ", differs);
    }
    return {};
  }

 private:
  std::size_t cache_bytes() const {
    return static_cast<std::size_t>(test_.batch().num_pages * test_.args().k.page_stride) *
           size_of(test_.shape().q_dtype);
  }

  Plan plan_for(const Forest& forest, Policy policy, CudaKernels kernels) {
    PlanOptions options = options_of(policy, uniform(random_, 0, 1) == 0 ? KvSplit::kOwn : experimental::kSplitMean);
    options.policies.invariant_chunk = chunk_;
    Plan plan = make_plan(forest, on_cuda(shape()),
                          cutting_gpu_profile(uniform(random_, 1, 64), kernels, shape().head_dim_qk), options);
    EXPECT_EQ(find_plan_violation(plan, forest), std::nullopt);
    return plan;
  }

  AttentionOutput run(const Company& company, Policy policy, CudaKernels kernels) {
    const Batch batch = company.batch.view();
    const Plan plan = plan_for(build_forest(batch), policy, kernels);
    const RunWay way = any_of(random_, kRunWays).with(kernels);
    ways_ += " " + text_of(way);
    const DeviceBatch on_device(batch);
    const DeviceMemory q(company.q.data(), company.q.size());
    const std::size_t elements = company.q.size() / size_of(shape().q_dtype);
    const DeviceMemory out(elements * (narrow_ ? sizeof(std::uint16_t) : sizeof(float)), true);
    const DeviceMemory lse(elements / static_cast<std::size_t>(shape().head_dim_qk) * sizeof(float), true);
    AttentionArgs args = test_.args();
    args.q = q.data();
    args.k.data = k_.data();
    args.v.data = v_.data();
    args.out = out.data();
    args.out_dtype = narrow_ ? shape().q_dtype : DType::kF32;
    args.lse = lse.as<float>();
    CudaExecutor& executor = executor_of(way);
    const DeviceMemory workspace(executor.workspace_bytes(plan));
    executor.upload(plan, batch, workspace.data(), workspace.size(), nullptr);
    executor.resolve(on_device.view(), workspace.data(), nullptr);
    executor.run(args, workspace.data(), nullptr);
    const AttentionOutput output = download(out, lse, elements);
    executor.release(workspace.data());
    return outputs_of(output, company.queries, shape());
  }

  // A 16-bit O as numbers: different bits are different ones.
  AttentionOutput download(const DeviceMemory& out, const DeviceMemory& lse, std::size_t elements) const {
    AttentionOutput output{std::vector<float>(elements), std::vector<float>(lse.size() / sizeof(float))};
    lse.download(output.lse.data());
    if (!narrow_) {
      out.download(output.o.data());
      return output;
    }
    std::vector<std::uint16_t> bits(elements);
    out.download(bits.data());
    output.o.assign(bits.begin(), bits.end());
    return output;
  }

  std::mt19937_64 random_;
  RandomBatch all_;
  AttentionCase test_;
  bool narrow_;
  std::int32_t chunk_;
  std::int32_t row_;
  std::string ways_;
  DeviceMemory k_;
  DeviceMemory v_;
};

TEST_F(CudaInvariant, SameBitsAloneAndInAnyBatch) {
  int differing = 0;
  for (int round = 0; round < scaled(120); ++round) {
    InvariantCase test(static_cast<std::uint64_t>(round) + 1);
    for (const CudaKernels kernels : kernels_for(on_cuda(test.shape()))) {
      const std::string differs = test.difference_under(Policy::kInvariant, kernels);
      EXPECT_EQ(differs, "") << "seed " << round + 1;
      differing += differs.empty() ? 0 : 1;
    }
    ASSERT_LT(differing, 40);  // enough to show what they have in common
  }
}

// If the comparison could not fail, nothing above would mean anything.
TEST_F(CudaInvariant, OtherPoliciesGiveOtherBits) {
  for (const Policy policy : {Policy::kFlat, Policy::kTrunk}) {
    int differing = 0;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      InvariantCase test(seed);
      for (const CudaKernels kernels : kernels_for(on_cuda(test.shape())))
        differing += test.difference_under(policy, kernels).empty() ? 0 : 1;
    }
    EXPECT_GT(differing, 2) << name_of(policy);
  }
}

}  // namespace
}  // namespace trunkline::testing
