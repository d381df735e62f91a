// Token masks and bounds from the live end: a draft tree of query tokens on top of a request's KV. The plan is written
// by hand, and so is the right answer.
#include <gtest/gtest.h>

#include <cmath>

#include "attention_case.hpp"
#include "base/half.hpp"
#include "synthetic/paged_batch.hpp"

namespace trunkline::testing {
namespace {

constexpr std::int32_t kDrafts = 5;
// Draft i attends to the past, to itself and to its ancestors; draft 0 is the root.
constexpr std::int32_t kParents[kDrafts] = {-1, 0, 0, 1, 2};

bool is_ancestor_or_self(std::int32_t ancestor, std::int32_t draft) {
  for (; draft >= 0; draft = kParents[draft]) {
    if (draft == ancestor) return true;
  }
  return false;
}

// One request of `kv_len` tokens, the last kDrafts of which are the drafts. All bounds are from the live end.
Plan token_tree_plan(const AttentionShape& shape) {
  Plan plan;
  plan.shape = shape;
  for (std::int32_t draft = 0; draft < kDrafts; ++draft) {
    plan.queries.push_back({0, 0, draft, kDrafts - 1 - draft, kParents[draft]});
    plan.item_queries.push_back(draft);
    plan.item_outputs.push_back(kDirect);
    QueryMask seen_by;
    for (std::int32_t query = 0; query < kDrafts; ++query) {
      if (is_ancestor_or_self(draft, query)) seen_by.set(query);
    }
    plan.masks.push_back(seen_by);
  }
  plan.spans.push_back({0, 0, 0, -kDrafts, -1, kSpanEndFromEnd});
  plan.spans.push_back({0, 0, -kDrafts, 0, 0, kSpanBeginFromEnd | kSpanEndFromEnd | kSpanTokenMask});
  plan.items.push_back({{0, kDrafts}, {0, 2}, {128, 32}});
  plan.schedule.push_back(0);
  plan.merge_begin.push_back(0);
  return plan;
}

// Attention of draft `query` over the tokens that it sees, straight from the cache.
double expected_element(const AttentionArgs& args, const AttentionShape& shape, const PagedBatch& paged,
                        std::int32_t query, std::int32_t head, std::int32_t element) {
  const auto read = [&](const CacheView& cache, std::int32_t position, std::int32_t i) {
    const std::int64_t page = paged.page_ids[static_cast<std::size_t>(position / shape.page_size)];
    const std::int64_t at = page * cache.page_stride + position % shape.page_size * cache.token_stride +
                            head / shape.group_size() * cache.head_stride + i;
    return static_cast<double>(f16_to_f32(static_cast<const std::uint16_t*>(cache.data)[at]));
  };
  const auto* q = static_cast<const std::uint16_t*>(args.q) + (query * shape.q_heads + head) * shape.head_dim_qk;
  const std::int32_t past = paged.kv_lens[0] - kDrafts;
  double sum = 0;
  double total = 0;
  for (std::int32_t position = 0; position < past + kDrafts; ++position) {
    if (position >= past && !is_ancestor_or_self(position - past, query)) continue;
    double dot = 0;
    for (std::int32_t i = 0; i < shape.head_dim_qk; ++i)
      dot += static_cast<double>(f16_to_f32(q[i])) * read(args.k, position, i);
    const double weight = std::exp(dot / std::sqrt(static_cast<double>(shape.head_dim_qk)));
    sum += weight;
    total += weight * read(args.v, position, element);
  }
  return total / sum;
}

TEST(TokenTree, MasksPerTokenAtLiveLengths) {
  const AttentionShape shape = make_shape(1, 3, 64, 16);
  const Plan plan = token_tree_plan(shape);
  for (const std::int32_t kv_len : {5, 16, 21, 70}) {
    SCOPED_TRACE(kv_len);
    const PagedBatch paged = lay_out_pages(PrefixTree{"request", {-1}, {kv_len}, {0}}, 16, 1);
    const std::vector<std::int32_t> query_start{0, kDrafts};
    Batch batch = paged.view();
    batch.query_start = query_start;
    batch.query_parents = kParents;
    const AttentionCase test(shape, batch);
    for (std::int32_t i = 0; i < kDrafts * 3 * 64; i += 37) {
      EXPECT_NEAR(test.expected().o[static_cast<std::size_t>(i)],
                  expected_element(test.args(), shape, paged, i / (3 * 64), i / 64 % 3, i % 64), 1e-6)
          << "the oracle";
    }
    for (const CpuIsa isa : available_isas()) {
      const AttentionOutput output = test.run_cpu(plan, test_workers(), {MergeMode::kFused, isa});
      const AttentionOutput reference = test.run_reference(plan);
      for (std::int32_t query = 0; query < kDrafts; ++query) {
        for (std::int32_t head = 0; head < 3; ++head) {
          const auto at = static_cast<std::size_t>((query * 3 + head) * 64);
          for (const std::int32_t element : {0, 37}) {
            const double expected = expected_element(test.args(), shape, paged, query, head, element);
            EXPECT_NEAR(output.o[at + static_cast<std::size_t>(element)], expected, 5e-5) << "query " << query;
            EXPECT_NEAR(reference.o[at + static_cast<std::size_t>(element)], expected, 1e-6) << "query " << query;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace trunkline::testing
