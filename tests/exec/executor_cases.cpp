#include "exec/executor_cases.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

#include "base/half.hpp"
#include "support/paged_growth.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

RandomBatch batch_that_may_grow(std::mt19937_64& random) {
  RandomBatchOptions options;
  options.page_size = std::int32_t{1} << uniform(random, 0, 5);
  options.max_rows = 10;
  options.max_tokens = 200;
  options.growth_tokens = 70;
  options.trees = uniform(random, 0, 1) == 0;
  options.max_queries = options.trees ? 20 : uniform(random, 1, 2);
  return make_random_batch(random, options);
}

}  // namespace

PrefixTree ends_inside_a_node() {
  return {"inner ends", {-1, 0, 1, 1}, {40, 30, 50, 9}, {0, 1, 2, 3}};
}

PrefixTree uneven_depths() {
  return {"uneven", {-1, 0, 1, 2, 0, -1, 3}, {700, 300, 400, 90, 1500, 2000, 16}, {1, 2, 6, 3, 4, 5, 4}};
}

PrefixTree long_tail() {
  PrefixTree tree;
  tree.name = "long tail";
  for (std::int32_t request = 0; request < 64; ++request) {
    tree.parent.push_back(-1);
    tree.tokens.push_back(request == 0 ? 128 << 10 : 100 + request);
    tree.end_node.push_back(request);
  }
  return tree;
}

PrefixTree lengths_without_sharing() {
  return {"mixed", {-1, -1, -1, -1}, {60, 100, 200, 1000}, {0, 1, 2, 3}};
}

PrefixTree empty_requests() {
  return {"empty", {-1, 0}, {30, 20}, {-1, 1, -1, 0, -1}};
}

PrefixTree duplicates() {
  return {"duplicates", {-1, 0}, {50, 41}, {1, 1, 1, 0, 0, 1}};
}

Batch SamePages::view() const {
  Batch batch;
  batch.pages = PageTable::dense(std::span<const std::int32_t>(ids_), 4, 3, 16);
  batch.kv_lens = lens_;
  batch.num_pages = 5;
  return batch;
}

std::int32_t max_partials(const Plan& plan) {
  std::int32_t most = 0;
  for (std::size_t i = 0; i + 1 < plan.merge_begin.size(); ++i) {
    most = std::max(most, plan.merge_begin[i + 1] - plan.merge_begin[i]);
  }
  return most;
}

RandomBatchOptions random_executor_options(std::mt19937_64& random, std::span<const std::int32_t> page_sizes,
                                           std::int32_t row_limit, std::int32_t token_limit) {
  constexpr TableForm kForms[] = {TableForm::kDense, TableForm::kCsr};
  RandomBatchOptions options;
  const std::int32_t last = static_cast<std::int32_t>(page_sizes.size()) - 1;
  options.page_size = page_sizes[static_cast<std::size_t>(uniform(random, 0, last))];
  options.form = options.page_size == 1 ? TableForm::kTokenLevel : kForms[uniform(random, 0, 1)];
  options.wide_ids = uniform(random, 0, 1) == 1;
  options.max_rows = uniform(random, 1, row_limit);
  options.max_tokens = uniform(random, 1, token_limit);
  options.max_queries = uniform(random, 1, 4) == 1 ? 4 : 1;
  options.trees = uniform(random, 1, 4) == 1;
  if (options.trees) options.max_queries = 24;
  return options;
}

GrowingBatch::GrowingBatch(std::uint64_t seed)
    : random_(seed),
      batch_(batch_that_may_grow(random_)),
      shape_(make_shape(1, uniform(random_, 1, 6), 64, batch_.options.page_size)),
      before_(build_forest(batch_.view())) {}

KvSplit GrowingBatch::next_split() {
  return uniform(random_, 0, 1) == 0 ? experimental::kSplitMean : KvSplit::kNone;
}

AttentionCase& GrowingBatch::grow() {
  const std::vector<PageCopy> copies = testing::grow(batch_, uniform(random_, 1, 35));
  // A page that all its sharers have left is used by nobody, but is what their copies are made from: it must hold
  // numbers.
  SyntheticOptions cache;
  cache.poison_unused = false;
  grown_ = std::make_unique<AttentionCase>(shape_, batch_.view(), cache);
  for (const PageCopy& copy : copies) grown_->copy_page(copy);
  grown_->recompute_expected();
  return *grown_;
}

RandomBatch with_reversed_rows(const RandomBatch& batch) {
  RandomBatch reversed = batch;
  std::reverse(reversed.row_pages.begin(), reversed.row_pages.end());
  std::reverse(reversed.kv_lens.begin(), reversed.kv_lens.end());
  std::reverse(reversed.slots.begin(), reversed.slots.end());
  std::reverse(reversed.generations.begin(), reversed.generations.end());
  reversed.lay_out_table();
  return reversed;
}

LargePool::LargePool() : ids_{static_cast<std::int32_t>(kPages) - 1, static_cast<std::int32_t>(kPages) - 2} {
  void* pool = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pool == MAP_FAILED) return;
  pool_ = static_cast<std::uint16_t*>(pool);
  for (std::int64_t i = kFirstUsed; i < kPages * kPageElements; ++i) {
    pool_[i] = f32_to_f16(static_cast<float>(i % 13) * 0.1F - 0.6F);
  }
  for (std::size_t i = 0; i < 8 * 64; ++i) q_.push_back(f32_to_f16(static_cast<float>(i % 7) * 0.3F - 0.9F));
}

LargePool::~LargePool() {
  if (pool_ != nullptr) munmap(pool_, kBytes);
}

AttentionShape LargePool::shape() {
  return make_shape(2, 4, 64, 16);
}

Batch LargePool::batch() const {
  Batch batch;
  batch.pages = PageTable::dense(std::span<const std::int32_t>(ids_), 1, 2, 16);
  batch.kv_lens = lens_;
  batch.num_pages = kPages;
  return batch;
}

AttentionArgs LargePool::args() const {
  AttentionArgs args;
  args.q = q_.data();
  args.k = args.v = nhd_cache(pool_, shape());
  args.out_dtype = DType::kF32;
  return args;
}

std::vector<float> LargePool::expected() const {
  std::vector<float> expected(8 * 64);
  AttentionArgs with_output = args();
  with_output.out = expected.data();
  reference_attention(shape(), batch(), with_output);
  return expected;
}

}  // namespace trunkline::testing
