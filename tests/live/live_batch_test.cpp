// Events by hand, and what is refused.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/brute_forest.hpp"
#include "support/expect_error.hpp"
#include "trunkline/live.hpp"

namespace trunkline::testing {
namespace {

using Ids = std::vector<std::int32_t>;

class LiveBatchTest : public ::testing::Test {
 protected:
  RequestId join(std::int32_t kv_len, const Ids& pages, std::int32_t queries = 1) {
    NewRequest request;
    request.kv_len = kv_len;
    request.pages = std::span<const std::int32_t>(pages);
    request.queries = queries;
    return live_.join(request);
  }
  void advance(const Ids& kv_lens, const Ids& indptr = {}, const Ids& pages = {}) {
    live_.advance(kv_lens, {indptr, std::span<const std::int32_t>(pages)});
  }
  Ids pages_of(RequestId request) const {
    const auto pages = live_.request_pages(request);
    return {pages.begin(), pages.end()};
  }
  /// All that is seen of the batch.
  std::string snapshot() {
    std::string text = to_text(live_.forest()) + std::to_string(live_.sharing_revision());
    for (std::int32_t row = 0; row < live_.rows(); ++row) {
      for (const std::int32_t page : live_.request_pages(live_.request(row))) text += " " + std::to_string(page);
      text += ";";
    }
    return text;
  }
  template <class Call>
  void expect_refused(ErrorCode code, const std::string& message, Call&& call) {
    const std::string before = snapshot();
    expect_error(code, message, std::forward<Call>(call));
    EXPECT_EQ(snapshot(), before);
  }

  LiveBatch live_{{.page_size = 4, .num_pages = 100}};
};

TEST_F(LiveBatchTest, RequestsJoinGrowAndShare) {
  const RequestId a = join(8, {5, 6});
  const RequestId b = join(9, {5, 6, 7});
  EXPECT_EQ(live_.rows(), 2);
  EXPECT_EQ(live_.shared_tokens(a), 8);
  EXPECT_EQ(live_.shared_tokens(b), 8);
  advance({9, 10}, {0, 1, 1}, {8});
  EXPECT_EQ(pages_of(a), (Ids{5, 6, 8}));
  EXPECT_EQ(live_.kv_len(b), 10);
  EXPECT_EQ(live_.forest().distinct_tokens, 8 + 1 + 2);
  EXPECT_EQ(to_text(live_.forest()), to_text(brute_forest(live_.batch())));
}

TEST_F(LiveBatchTest, SlotsAreReusedWithANewGenerationAndRowsMoveUp) {
  const RequestId a = join(4, {1});
  const RequestId b = join(4, {2});
  const RequestId c = join(4, {3});
  live_.leave(b);
  EXPECT_EQ(live_.row(c), 1);
  const RequestId d = join(2, {2});
  EXPECT_EQ(d.slot, b.slot);
  EXPECT_NE(d.generation, b.generation);
  EXPECT_EQ(live_.row(d), 2);
  expect_refused(ErrorCode::kStale, "the request has left", [&] { live_.row(b); });
  live_.reorder(Ids{2, 0, 1});
  EXPECT_EQ(live_.request(0), d);
  EXPECT_EQ(live_.request(1), a);
  EXPECT_EQ(live_.kv_len(d), 2);
  EXPECT_EQ(to_text(live_.forest()), to_text(brute_forest(live_.batch())));
}

TEST_F(LiveBatchTest, ForksShareUntilOneGetsACopyOfTheirLastPage) {
  const RequestId parent = join(6, {1, 2});
  const RequestId child = live_.fork(parent);
  EXPECT_EQ(live_.shared_tokens(child), 6);
  EXPECT_EQ(live_.forest().nodes.size(), 1U);
  live_.replace_page(child, 1, 3);
  EXPECT_EQ(live_.shared_tokens(child), 4);
  EXPECT_EQ(pages_of(parent), (Ids{1, 2}));
  EXPECT_EQ(pages_of(child), (Ids{1, 3}));
  advance({7, 7});
  EXPECT_EQ(live_.forest().distinct_tokens, 4 + 3 + 3);
}

TEST_F(LiveBatchTest, SharingRevisionMovesWithSharingAlone) {
  const RequestId a = join(6, {1, 2});
  join(7, {1, 3});
  const auto unchanged = [&](auto&& event) {
    const std::uint64_t before = live_.sharing_revision();
    event();
    return live_.sharing_revision() == before;
  };
  EXPECT_TRUE(unchanged([&] { advance({7, 8}); }));
  EXPECT_TRUE(unchanged([&] { live_.truncate(a, 5); }));
  EXPECT_TRUE(unchanged([&] { live_.reorder(Ids{1, 0}); }));
  EXPECT_TRUE(unchanged([&] { live_.replace_page(a, 1, 9); }));
  EXPECT_TRUE(unchanged([&] { live_.set_queries(a, 1); }));
  EXPECT_FALSE(unchanged([&] { live_.replace_page(a, 0, 10); }));
  EXPECT_FALSE(unchanged([&] { live_.set_queries(a, 2); }));
  EXPECT_FALSE(unchanged([&] { live_.leave(a); }));
}

// Both forks write to the page that they share, and so, by the tables, go on sharing.
TEST_F(LiveBatchTest, GrowthIntoTheSamePageIsShared) {
  const RequestId parent = join(6, {1, 2});
  live_.fork(parent);
  const std::uint64_t before = live_.sharing_revision();
  advance({7, 7});
  EXPECT_EQ(live_.shared_tokens(parent), 7);
  EXPECT_NE(live_.sharing_revision(), before);
}

TEST_F(LiveBatchTest, TruncationDropsPagesAndStopsAtWhatIsShared) {
  const RequestId a = join(10, {1, 2, 3});
  const RequestId b = join(6, {1, 4});
  live_.truncate(a, 5);
  EXPECT_EQ(pages_of(a), (Ids{1, 2}));
  expect_refused(ErrorCode::kInvalidArgument, "shares its first 4 tokens", [&] { live_.truncate(a, 3); });
  live_.truncate(a, 4);
  EXPECT_EQ(pages_of(a), (Ids{1}));
  EXPECT_EQ(to_text(live_.forest()), to_text(brute_forest(live_.batch())));
  live_.leave(b);
  live_.truncate(a, 0);
  EXPECT_EQ(live_.forest().nodes.size(), 0U);
}

TEST_F(LiveBatchTest, AdvanceRefusesWhatDoesNotFit) {
  join(4, {1});
  join(7, {1, 2});
  const auto refused = [&](ErrorCode code, const std::string& message, const Ids& kv_lens, const Ids& indptr,
                           const Ids& pages) {
    expect_refused(code, message, [&] { advance(kv_lens, indptr, pages); });
  };
  refused(ErrorCode::kInvalidArgument, "kv_lens[1] is 6, but row 1 has 7 tokens", {4, 6}, {}, {});
  refused(ErrorCode::kInvalidArgument, "kv_lens has 1 entries; the batch has 2 rows", {4}, {}, {});
  refused(ErrorCode::kInvalidArgument, "pages has 0 for row 0, which has 1 and needs 2", {5, 8}, {}, {});
  refused(ErrorCode::kInvalidArgument, "pages has 1 for row 1, which has 2 and needs 2", {4, 8}, {0, 0, 1}, {3});
  refused(ErrorCode::kOutOfRange, "pages.ids[0] is 100; ids must be in [0, 100)", {5, 8}, {0, 1, 1}, {100});
  refused(ErrorCode::kInvalidArgument, "pages.indptr has 2 entries", {5, 8}, {0, 1}, {3});
  refused(ErrorCode::kInvalidArgument, "pages.indptr[0] is 1", {5, 8}, {1, 1, 1}, {3});
  refused(ErrorCode::kInvalidArgument, "pages.indptr[2] is 0 after 1", {5, 8}, {0, 1, 0}, {});
  refused(ErrorCode::kInvalidArgument, "pages.indptr[2] is 1; there are 2 pages", {5, 8}, {0, 1, 1}, {3, 4});
  refused(ErrorCode::kInvalidArgument, "pages.indptr has no entries, but there are 1", {5, 8}, {}, {3});
}

TEST_F(LiveBatchTest, RequestsAreRefusedThatDoNotFit) {
  const RequestId a = join(6, {1, 2}, 3);
  expect_refused(ErrorCode::kInvalidArgument, "kv_len is -1", [&] { join(-1, {}); });
  expect_refused(ErrorCode::kInvalidArgument, "pages has 1; kv_len 5 needs 2 of 4 tokens", [&] { join(5, {1}); });
  expect_refused(ErrorCode::kOutOfRange, "pages[1] is -3", [&] { join(5, {1, -3}); });
  expect_refused(ErrorCode::kInvalidArgument, "queries is 6", [&] { join(5, {1, 2}, 6); });
  expect_refused(ErrorCode::kInvalidArgument, "queries is 0", [&] { live_.set_queries(a, 0); });
  expect_refused(ErrorCode::kInvalidArgument, "query_parents has 1 entries; queries is 2",
                 [&] { live_.set_queries(a, 2, Ids{-1}); });
  expect_refused(ErrorCode::kInvalidArgument, "query_parents[1] is 1", [&] { live_.set_queries(a, 2, Ids{-1, 1}); });
  expect_refused(ErrorCode::kInvalidArgument, "brings 3 query tokens", [&] { live_.truncate(a, 2); });
  expect_refused(ErrorCode::kInvalidArgument, "kv_len is 7; the request in slot 0 has 6 tokens",
                 [&] { live_.truncate(a, 7); });
  expect_refused(ErrorCode::kOutOfRange, "index is 2; the request in slot 0 has 2 pages",
                 [&] { live_.replace_page(a, 2, 1); });
  expect_refused(ErrorCode::kOutOfRange, "page is 100", [&] { live_.replace_page(a, 1, 100); });
  expect_refused(ErrorCode::kOutOfRange, "request.slot is 1; requests have had slots 0 to 0", [&] {
    live_.fork({1, 0});
  });
  expect_refused(ErrorCode::kStale, "generation 7 of slot 0", [&] { live_.leave({0, 7}); });
  expect_refused(ErrorCode::kInvalidArgument, "rows has 2 entries", [&] { live_.reorder(Ids{0, 0}); });
  join(0, {});
  expect_refused(ErrorCode::kInvalidArgument, "rows[1] is 0 again", [&] { live_.reorder(Ids{0, 0}); });
  expect_refused(ErrorCode::kOutOfRange, "rows[1] is 2", [&] { live_.reorder(Ids{0, 2}); });
}

TEST_F(LiveBatchTest, OptionsAreChecked) {
  expect_error(ErrorCode::kInvalidArgument, "options.page_size is 0", [] { LiveBatch({.page_size = 0}); });
  expect_error(ErrorCode::kInvalidArgument, "options.num_pages is 2147483648",
               [] { LiveBatch({.page_size = 1, .num_pages = std::int64_t{1} << 31}); });
  expect_error(ErrorCode::kOutOfRange, "options.null_page is 9; ids must be in [0, 9)",
               [] { LiveBatch({.page_size = 1, .num_pages = 9, .null_page = 9}); });
  expect_error(ErrorCode::kInvalidArgument, "options expect -1 requests",
               [] { LiveBatch({.page_size = 1, .num_pages = 1, .expected_requests = -1}); });
}

TEST_F(LiveBatchTest, DraftTreesAreListedBesideChains) {
  join(4, {1});
  const RequestId tree = join(8, {2, 3});
  live_.set_queries(tree, 3, Ids{-1, 0, 0});
  const Batch batch = live_.batch();
  EXPECT_EQ(Ids(batch.query_start.begin(), batch.query_start.end()), (Ids{0, 1, 4}));
  EXPECT_EQ(Ids(batch.query_parents.begin(), batch.query_parents.end()), (Ids{-1, -1, 0, 0}));
  live_.set_queries(tree, 3, Ids{-1, 0, 1});  // a chain after all
  EXPECT_TRUE(live_.batch().query_parents.empty());
  live_.set_queries(tree, 1);
  EXPECT_TRUE(live_.batch().query_start.empty());
}

}  // namespace
}  // namespace trunkline::testing
