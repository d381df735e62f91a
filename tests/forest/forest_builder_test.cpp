// Costs of building a forest: memory and reads.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "support/brute_forest.hpp"
#include "support/count_allocations.hpp"
#include "support/random_batch.hpp"
#include "trunkline/error.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {
namespace {

TEST(ForestBuilder, AllocatesNothingOnceWarm) {
  std::mt19937_64 random(7);
  testing::RandomBatchOptions options;
  options.max_rows = 300;
  options.max_queries = 8;
  options.trees = true;
  std::vector<testing::RandomBatch> batches;
  std::size_t largest = 0;
  for (int i = 0; i < 20; ++i) {
    batches.push_back(make_random_batch(random, options));
    if (batches.back().kv_lens.size() > batches[largest].kv_lens.size()) largest = batches.size() - 1;
  }
  ForestBuilder builder;
  builder.build(batches[largest].view());
  const long before = testing::allocation_count();
  for (const auto& batch : batches) builder.build(batch.view(), IdCheck::kAllPages);
  EXPECT_EQ(testing::allocation_count() - before, 0);
}

TEST(ForestBuilder, ForgetsThePreviousBatch) {
  std::mt19937_64 random(8);
  const auto first = testing::make_random_batch(random, {});
  const auto second = testing::make_random_batch(random, {});
  ForestBuilder builder;
  builder.build(first.view());
  EXPECT_EQ(testing::to_text(builder.build(second.view())), testing::to_text(build_forest(second.view())));
  EXPECT_EQ(testing::to_text(builder.build(first.view())), testing::to_text(build_forest(first.view())));
}

TEST(ForestBuilder, KeepsItsForestWhenABatchIsRefused) {
  std::mt19937_64 random(9);
  const auto batch = testing::make_random_batch(random, {});
  ForestBuilder builder;
  const Forest& forest = builder.build(batch.view());
  const std::string before = testing::to_text(forest);
  Batch bad = batch.view();
  const std::vector<std::int32_t> lengths(batch.kv_lens.size(), -1);
  bad.kv_lens = lengths;
  EXPECT_THROW(builder.build(bad), Error);
  EXPECT_EQ(testing::to_text(forest), before);
}

TEST(ForestBuilder, ReadsOnlyTheFirstPageOfAnUnsharedRow) {
  // Each row begins in memory that can be read and goes on in memory that cannot.
  const auto os_page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  constexpr std::int32_t kRows = 64;
  const std::size_t width = 2 * os_page / sizeof(std::int32_t);
  const std::size_t bytes = kRows * 2 * os_page;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* ids = static_cast<std::int32_t*>(memory);
  for (std::int32_t row = 0; row < kRows; ++row) {
    std::int32_t* first = ids + static_cast<std::size_t>(row) * width;
    *first = row;
    ASSERT_EQ(mprotect(reinterpret_cast<std::byte*>(first) + os_page, os_page, PROT_NONE), 0);
  }
  const std::vector<std::int32_t> lengths(kRows, static_cast<std::int32_t>(width));
  Batch batch;
  batch.pages =
      PageTable::dense(std::span<const std::int32_t>(ids, kRows * width), kRows, static_cast<std::int64_t>(width), 1);
  batch.kv_lens = lengths;
  batch.null_page = 1000;
  EXPECT_EQ(build_forest(batch).nodes.size(), static_cast<std::size_t>(kRows));
  munmap(memory, bytes);
}

}  // namespace
}  // namespace trunkline
