#include "kv/page_pool.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace trunkline::testing {
namespace {

TEST(PagePool, CountsReferencesAndReusesWhatWasFreedLast) {
  PagePool pool(3);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 1);
  pool.share(1);
  EXPECT_EQ(pool.references(1), 2);
  pool.release(1);
  EXPECT_EQ(pool.references(1), 1);
  EXPECT_EQ(pool.free_pages(), 1);
  pool.release(1);
  EXPECT_EQ(pool.free_pages(), 2);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.take(), 2);
  EXPECT_EQ(pool.take(), std::nullopt);
  EXPECT_EQ(pool.free_pages(), 0);
}

TEST(PagePool, RefusesPagesThatNobodyHolds) {
  PagePool pool(2);
  expect_error(ErrorCode::kInvalidArgument, "page is 0, which nobody holds", [&] { pool.release(0); });
  expect_error(ErrorCode::kInvalidArgument, "page is 2", [&] { pool.share(2); });
  expect_error(ErrorCode::kInvalidArgument, "page is -1", [&] { pool.share(-1); });
  expect_error(ErrorCode::kInvalidArgument, "num_pages is 0", [] { PagePool none(0); });
}

}  // namespace
}  // namespace trunkline::testing
