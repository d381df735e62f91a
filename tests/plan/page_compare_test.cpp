// Comparing page ids by several lanes, which the host's team, whose warps are one lane, never has.
#include "plan/team/page_compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "support/random_batch.hpp"
#include "support/test_scale.hpp"

namespace trunkline {
namespace {

using testing::uniform;

/// Lanes that are threads.
class Lanes {
 public:
  struct Shared {
    explicit Shared(std::int32_t count) : values(static_cast<std::size_t>(count)), barrier(count) {}
    std::vector<std::int32_t> values;
    std::barrier<> barrier;
  };

  Lanes(Shared& shared, std::int32_t index) : shared_(shared), index_(index) {}
  std::int32_t index() const { return index_; }
  std::int32_t count() const { return static_cast<std::int32_t>(shared_.values.size()); }
  bool any(bool value) const { return least(value ? 0 : 1) == 0; }
  std::int32_t least(std::int32_t value) const {
    shared_.values[static_cast<std::size_t>(index_)] = value;
    shared_.barrier.arrive_and_wait();
    const std::int32_t found = *std::min_element(shared_.values.begin(), shared_.values.end());
    shared_.barrier.arrive_and_wait();
    return found;
  }

 private:
  Shared& shared_;
  std::int32_t index_;
};

template <class Id>
struct Case {
  std::vector<Id> a, b;
  std::int32_t begin = 0, end = 0;
  std::int32_t skipped = 0;  // ids before those that are compared, so that rows are not aligned
  std::int64_t null_page = -1;

  std::int32_t expected() const {
    for (std::int32_t page = begin; page < end; ++page) {
      const auto at = static_cast<std::size_t>(page);
      if (a[at] != b[at] || (null_page >= 0 && a[at] == null_page)) return page;
    }
    return end;
  }
};

/// Rows that are equal in all that is compared, or part at one page there; of few ids, so that some are null.
template <class Id>
Case<Id> random_case(std::mt19937_64& random) {
  Case<Id> test;
  const std::int32_t pages = uniform(random, 1, 150);
  for (std::int32_t i = 0; i < pages; ++i) test.a.push_back(static_cast<Id>(uniform(random, 1, 400)));
  test.b = test.a;
  test.end = uniform(random, 0, pages);
  test.begin = uniform(random, 0, test.end);
  test.skipped = uniform(random, 0, 1) == 0 ? 0 : uniform(random, 1, 3);
  if (uniform(random, 0, 1) == 0) test.null_page = uniform(random, 1, 400);
  if (uniform(random, 0, 2) > 0) test.b[static_cast<std::size_t>(uniform(random, 0, pages - 1))] += 1000;
  return test;
}

template <class Id>
void expect_right_by_lanes(std::int32_t lanes) {
  std::mt19937_64 random(static_cast<std::uint64_t>(lanes));
  std::vector<Case<Id>> cases;
  for (int i = 0; i < testing::scaled(500); ++i) cases.push_back(random_case<Id>(random));
  std::vector<std::vector<std::int32_t>> found(static_cast<std::size_t>(lanes));
  Lanes::Shared shared(lanes);
  {
    std::vector<std::jthread> threads;
    for (std::int32_t lane = 0; lane < lanes; ++lane) {
      threads.emplace_back([&, lane] {
        for (const Case<Id>& test : cases) {
          const std::int32_t skipped = least(test.skipped, test.begin);
          const std::int32_t first =
              first_parting(Lanes(shared, lane), test.a.data() + skipped, test.b.data() + skipped, test.begin - skipped,
                            test.end - skipped, TeamNullId<Id>(test.null_page));
          found[static_cast<std::size_t>(lane)].push_back(first + skipped);
        }
      });
    }
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (const auto& of_lane : found) ASSERT_EQ(of_lane[i], cases[i].expected()) << "case " << i;
  }
}

TEST(PageCompare, LanesShareTheWork) {
  for (const std::int32_t lanes : {1, 2, 5}) {
    SCOPED_TRACE(lanes);
    expect_right_by_lanes<std::int32_t>(lanes);
    expect_right_by_lanes<std::int64_t>(lanes);
  }
}

TEST(PageCompare, ANullPageThatNoIdCanBeIsNone) {
  const std::int32_t id = 7;
  EXPECT_TRUE(TeamNullId<std::int32_t>(7).is(id));
  EXPECT_FALSE(TeamNullId<std::int32_t>(-1).is(-1));
  EXPECT_FALSE(TeamNullId<std::int32_t>((std::int64_t{1} << 32) + 7).is(id));
}

}  // namespace
}  // namespace trunkline
