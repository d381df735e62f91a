// Faults of a serving loop, planted one by one into every entry of random batches: a wrong page id, length, slot or
// generation is refused by the checks of a batch (IdCheck::kAllPages) or by resolve, and named.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "exec/attention_case.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "trunkline/error.hpp"

namespace trunkline::testing {
namespace {

/// What a call refuses; empty where it does not.
std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// \return the form of table; token-level tables have pages of one token
RandomBatchOptions options_of(std::mt19937_64& random) {
  RandomBatchOptions options;
  options.form = static_cast<TableForm>(uniform(random, 0, 2));
  options.page_size = options.form == TableForm::kTokenLevel ? 1 : uniform(random, 0, 1) == 0 ? 5 : 16;
  options.wide_ids = uniform(random, 0, 1) == 0;
  options.max_queries = uniform(random, 1, 3);
  return options;
}

TEST(PlantedFaults, EveryWrongPageIdIsNamed) {
  std::int64_t planted = 0;
  for (int seed = 1; seed <= scaled(200); ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    RandomBatch batch = make_random_batch(random, options_of(random));
    ASSERT_EQ(refusal([&] { check_batch(batch.view(), IdCheck::kAllPages); }), "") << "seed " << seed;
    for (std::size_t row = 0; row < batch.row_pages.size(); ++row) {
      for (std::size_t index = 0; index < batch.row_pages[row].size(); ++index) {
        std::int64_t& page = batch.row_pages[row][index];
        const std::int64_t right = page;
        for (const std::int64_t wrong : {std::int64_t{-1}, batch.num_pages, batch.num_pages + 1000}) {
          page = wrong;
          batch.lay_out_table();
          const std::string words = refusal([&] { check_batch(batch.view(), IdCheck::kAllPages); });
          ASSERT_NE(words.find(std::to_string(wrong)), std::string::npos) << "seed " << seed << ": " << words;
          ASSERT_EQ(refusal([&] { build_forest(batch.view(), IdCheck::kAllPages); }), words) << "seed " << seed;
          ++planted;
        }
        page = right;
      }
    }
  }
  EXPECT_GT(planted, scaled(200) * 20);
}

class ResolvedFaults {
 public:
  explicit ResolvedFaults(std::uint64_t seed)
      : random_(seed),
        batch_(make_random_batch(random_, options_of(random_))),
        plan_(make_plan(build_forest(batch_.view()), make_shape(2, 2, 64, batch_.options.page_size),
                        generic_cpu_profile(2), plan_options(random_))),
        executor_(test_workers()),
        workspace_(executor_.workspace_bytes(plan_, static_cast<std::int32_t>(batch_.kv_lens.size()))) {}

  RandomBatch& batch() { return batch_; }
  const Plan& plan() const { return plan_; }
  std::string resolve() {
    return refusal([&] { executor_.resolve(plan_, batch_.view(), workspace_.bytes()); });
  }

 private:
  static PlanOptions plan_options(std::mt19937_64& random) {
    const std::vector<Policy> policies = all_policies();
    PlanOptions options;
    options.policy = policies[static_cast<std::size_t>(uniform(random, 0, static_cast<int>(policies.size()) - 1))];
    return options;
  }

  std::mt19937_64 random_;
  RandomBatch batch_;
  Plan plan_;
  CpuExecutor executor_;
  AlignedWorkspace workspace_;
};

TEST(PlantedFaults, EveryStaleSlotAndGenerationIsNamed) {
  for (int seed = 1; seed <= scaled(300); ++seed) {
    ResolvedFaults test(static_cast<std::uint64_t>(seed));
    ASSERT_EQ(test.resolve(), "") << "seed " << seed;
    RandomBatch& batch = test.batch();
    for (std::size_t row = 0; row < batch.slots.size(); ++row) {
      const std::string slot = "slot " + std::to_string(batch.slots[row]);
      ++batch.generations[row];
      std::string words = test.resolve();
      ASSERT_NE(words.find(slot), std::string::npos) << "seed " << seed << ", row " << row << ": " << words;
      --batch.generations[row];
      const std::int32_t right = batch.slots[row];
      batch.slots[row] = 1'000'000;  // another request took the row
      words = test.resolve();
      ASSERT_NE(words.find(slot + ", which no row"), std::string::npos) << "seed " << seed << ": " << words;
      batch.slots[row] = right;
      ASSERT_EQ(test.resolve(), "") << "seed " << seed;
    }
  }
}

/// A length is wrong where the table has no page for it, it is negative, it has fewer tokens than queries, or spans of
/// the plan end behind it. Any other is a length that the request may have.
TEST(PlantedFaults, EveryWrongLengthIsNamed) {
  std::int64_t too_short = 0;
  for (int seed = 1; seed <= scaled(300); ++seed) {
    ResolvedFaults test(static_cast<std::uint64_t>(seed));
    RandomBatch& batch = test.batch();
    for (std::size_t row = 0; row < batch.kv_lens.size(); ++row) {
      const std::int32_t right = batch.kv_lens[row];
      std::int32_t closed = 0;  // tokens that the plan's fixed spans read through this row
      for (const KvSpan& span : test.plan().spans) {
        if (span.slot == batch.slots[row] && !span.open_ended()) closed = std::max(closed, span.end);
      }
      for (const std::int32_t wrong : {-1, 1'000'000'000, closed - 1}) {
        if (wrong == closed - 1 && closed == 0) continue;
        batch.kv_lens[row] = wrong;
        const std::string words = test.resolve();
        ASSERT_NE(words.find("kv_lens[" + std::to_string(row) + "] is " + std::to_string(wrong)), std::string::npos)
            << "seed " << seed << ", row " << row << ", length " << wrong << ": " << words;
        too_short += wrong == closed - 1 ? 1 : 0;
      }
      batch.kv_lens[row] = right;
    }
    ASSERT_EQ(test.resolve(), "") << "seed " << seed;
  }
  EXPECT_GT(too_short, 0);
}

}  // namespace
}  // namespace trunkline::testing
