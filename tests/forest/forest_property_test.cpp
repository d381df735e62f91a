// The forest builder against the definition, on random batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>

#include "support/brute_forest.hpp"
#include "support/forest_invariants.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {
namespace {

using testing::make_random_batch;
using testing::RandomBatchOptions;
using testing::TableForm;
using testing::uniform;

RandomBatchOptions random_options(std::mt19937_64& random, TableForm form) {
  constexpr std::int32_t kPageSizes[] = {1, 3, 16, 24, 32, 128};
  RandomBatchOptions options;
  options.form = form;
  options.page_size = form == TableForm::kTokenLevel ? 1 : kPageSizes[uniform(random, 0, 5)];
  options.max_tokens = std::max(40, 4 * options.page_size);
  options.wide_ids = uniform(random, 0, 1) == 1;
  options.max_queries = uniform(random, 1, 3);
  options.null_pages = uniform(random, 0, 2) == 0;
  if (uniform(random, 0, 1) == 0) {
    options.trees = true;
    options.max_queries = uniform(random, 2, 40);
  }
  return options;
}

class ForestProperty : public ::testing::TestWithParam<TableForm> {};

TEST_P(ForestProperty, EqualsTheDefinition) {
  ForestBuilder builder;
  for (int seed = 1; seed <= testing::scaled(1500); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const auto batch = make_random_batch(random, random_options(random, GetParam()));
    const Forest& forest = builder.build(batch.view(), IdCheck::kAllPages);
    ASSERT_EQ(testing::to_text(forest), testing::to_text(testing::brute_forest(batch.view())));
    ASSERT_EQ(testing::find_forest_violation(forest), std::nullopt);
  }
}

TEST_P(ForestProperty, KeepsItsPromisesOnLargeBatches) {
  ForestBuilder builder;
  for (int seed = 1; seed <= testing::scaled(50); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    RandomBatchOptions options = random_options(random, GetParam());
    options.max_rows = 1024;
    const auto batch = make_random_batch(random, options);
    ASSERT_EQ(testing::find_forest_violation(builder.build(batch.view())), std::nullopt);
  }
}

const char* form_name(const ::testing::TestParamInfo<TableForm>& form) {
  constexpr const char* kNames[] = {"Dense", "Csr", "TokenLevel"};
  return kNames[static_cast<std::size_t>(form.param)];
}

INSTANTIATE_TEST_SUITE_P(Forms, ForestProperty,
                         ::testing::Values(TableForm::kDense, TableForm::kCsr, TableForm::kTokenLevel), form_name);

TEST(ForestPropertyOfGenerator, MakesEveryKindOfBatch) {
  int several_roots = 0, inner_ends = 0, mid_page_forks = 0, duplicates = 0, empties = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto batch = make_random_batch(random, {});
    const Forest forest = build_forest(batch.view());
    several_roots += forest.nodes.empty() || forest.nodes[0].last < static_cast<std::int32_t>(forest.nodes.size());
    for (std::int32_t node = 0; node < static_cast<std::int32_t>(forest.nodes.size()); ++node) {
      const ForestNode& n = forest.nodes[static_cast<std::size_t>(node)];
      inner_ends += forest.ending_at(node).size() > 0 && n.last > node + 1;
      mid_page_forks += n.begin % batch.options.page_size != 0;
      duplicates += forest.ending_at(node).size() > 1;
    }
    for (const ForestRequest& request : forest.requests) empties += request.kv_len == 0;
  }
  EXPECT_GT(several_roots, 50);
  EXPECT_GT(inner_ends, 50);
  EXPECT_GT(mid_page_forks, 50);
  EXPECT_GT(duplicates, 50);
  EXPECT_GT(empties, 50);
}

}  // namespace
}  // namespace trunkline
