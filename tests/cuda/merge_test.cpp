// The merge kernel by itself, on partials made here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "cuda/device_case.hpp"
#include "exec/cuda/merge.hpp"
#include "support/random_batch.hpp"

namespace trunkline::testing {
namespace {

using cuda::PlanCounts;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Queries with any numbers of partials, some of them empty; slots in no order.
struct MergeCase {
  std::int32_t heads;
  std::int32_t head_dim;
  std::vector<std::int32_t> queries;  // of the step, in another order than their outputs
  std::vector<std::int32_t> begin{0};
  std::vector<std::int32_t> slots;
  std::vector<float> out;  // [slots, heads, d]
  std::vector<float> lse;  // [slots, heads], base 2

  std::size_t row(std::int32_t slot, std::int32_t head) const {
    return static_cast<std::size_t>(slot) * static_cast<std::size_t>(heads) + static_cast<std::size_t>(head);
  }
};

MergeCase make_case(std::mt19937_64& random, std::int32_t heads, std::int32_t head_dim,
                    const std::vector<std::int32_t>& partials) {
  MergeCase made{heads, head_dim, {}, {0}, {}, {}, {}};
  for (const std::int32_t count : partials) {
    made.queries.push_back(static_cast<std::int32_t>(partials.size() - made.queries.size()) - 1);
    for (std::int32_t i = 0; i < count; ++i) made.slots.push_back(static_cast<std::int32_t>(made.slots.size()));
    made.begin.push_back(static_cast<std::int32_t>(made.slots.size()));
  }
  std::shuffle(made.slots.begin(), made.slots.end(), random);
  const std::size_t rows = made.slots.size() * static_cast<std::size_t>(heads);
  std::normal_distribution<float> normal(0, 1);
  for (std::size_t row = 0; row < rows; ++row) {
    const bool empty = uniform(random, 0, 5) == 0;
    made.lse.push_back(empty ? kMinusInfinity : 20 * normal(random) - 500);
    for (std::int32_t i = 0; i < head_dim; ++i) made.out.push_back(empty ? 0 : normal(random));
  }
  return made;
}

struct Expected {
  std::vector<double> o;
  double lse = -std::numeric_limits<double>::infinity();  // base 2
};

Expected merge_on_host(const MergeCase& made, std::size_t query, std::int32_t head) {
  const auto d = static_cast<std::size_t>(made.head_dim);
  Expected expected{std::vector<double>(d), -std::numeric_limits<double>::infinity()};
  double maximum = expected.lse;
  const auto first = static_cast<std::size_t>(made.begin[query]);
  const auto last = static_cast<std::size_t>(made.begin[query + 1]);
  for (std::size_t i = first; i < last; ++i) {
    maximum = std::max(maximum, double{made.lse[made.row(made.slots[i], head)]});
  }
  double sum = 0;
  for (std::size_t i = first; i < last && std::isfinite(maximum); ++i) {
    const std::size_t row = made.row(made.slots[i], head);
    const double weight = std::exp2(double{made.lse[row]} - maximum);
    sum += weight;
    for (std::size_t e = 0; e < d; ++e) expected.o[e] += weight * double{made.out[row * d + e]};
  }
  if (sum == 0) return expected;
  for (double& element : expected.o) element /= sum;
  expected.lse = maximum + std::log2(sum);
  return expected;
}

class CudaMerge : public CudaTest {
 protected:
  static void expect_right(const MergeCase& made) {
    PlanCounts counts{};
    counts.merges = static_cast<std::int32_t>(made.queries.size());
    const auto queries = static_cast<std::int32_t>(made.queries.size());
    std::vector<ResolvedQuery> step;
    for (std::int32_t i = 0; i < queries; ++i) step.push_back({i, 0});
    const DeviceMemory counts_memory(&counts, sizeof(counts));
    const DeviceMemory step_memory(step);
    const DeviceMemory merge_queries(made.queries);
    const DeviceMemory begin(made.begin);
    const DeviceMemory slots(made.slots);
    const DeviceMemory partial_out(made.out);
    const DeviceMemory partial_lse(made.lse);
    const std::size_t rows = made.queries.size() * static_cast<std::size_t>(made.heads);
    const DeviceMemory out(rows * static_cast<std::size_t>(made.head_dim) * sizeof(float), true);
    const DeviceMemory lse(rows * sizeof(float), true);
    cuda::MergeArgs args{};
    args.plan.counts = counts_memory.as<PlanCounts>();
    args.plan.merge_queries = merge_queries.as<std::int32_t>();
    args.plan.merge_begin = begin.as<std::int32_t>();
    args.plan.merge_slots = slots.as<std::int32_t>();
    args.step.queries = step_memory.as<ResolvedQuery>();
    args.layer.out = out.data();
    args.layer.out_f32 = 1;
    args.layer.out_token = std::int64_t{made.heads} * made.head_dim;
    args.layer.out_head = made.head_dim;
    args.layer.lse = lse.as<float>();
    args.layer.lse_token = made.heads;
    args.layer.lse_head = 1;
    args.layer.lse_factor = 1;
    args.layer.q_heads = made.heads;
    args.partials = {partial_out.as<float>(), partial_lse.as<float>()};
    check(cuda::launch_merge(args, DType::kF16, made.head_dim, made.queries.size(), 4, nullptr));
    std::vector<float> got_out(rows * static_cast<std::size_t>(made.head_dim));
    std::vector<float> got_lse(rows);
    out.download(got_out.data());
    lse.download(got_lse.data());
    compare(made, got_out, got_lse);
  }

 private:
  static void compare(const MergeCase& made, const std::vector<float>& out, const std::vector<float>& lse) {
    for (std::size_t query = 0; query < made.queries.size(); ++query) {
      for (std::int32_t head = 0; head < made.heads; ++head) {
        const Expected expected = merge_on_host(made, query, head);
        const std::size_t row = made.row(made.queries[query], head);
        if (std::isinf(expected.lse)) {
          ASSERT_EQ(lse[row], kMinusInfinity);
        } else {
          ASSERT_NEAR(lse[row], expected.lse, 1e-4);
        }
        for (std::size_t e = 0; e < expected.o.size(); ++e) {
          ASSERT_NEAR(out[row * expected.o.size() + e], expected.o[e], 1e-5) << "query " << query << ", head " << head;
        }
      }
    }
  }
};

TEST_F(CudaMerge, AnyNumberOfPartials) {
  std::mt19937_64 random(11);
  for (const std::int32_t head_dim : {64, 128, 256}) {
    SCOPED_TRACE(head_dim);
    expect_right(make_case(random, 5, head_dim, {1, 2, 31, 32, 33, 64, 100, 1000, 3}));
  }
  expect_right(make_case(random, 32, 128, std::vector<std::int32_t>(300, 4)));
}

}  // namespace
}  // namespace trunkline::testing
