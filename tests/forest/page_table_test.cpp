#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "support/expect_error.hpp"
#include "trunkline/batch.hpp"

namespace trunkline {
namespace {

using testing::expect_error;
using Ids = std::vector<std::int32_t>;
using WideIds = std::vector<std::int64_t>;

PageIds view(const Ids& ids) {
  return std::span<const std::int32_t>(ids);
}
PageIds view(const WideIds& ids) {
  return std::span<const std::int64_t>(ids);
}

TEST(PageTable, DenseRowsFollowEachOther) {
  const Ids ids = {1, 2, 3, 4, 5, 6, 7};
  const PageTable table = PageTable::dense(view(ids), 2, 3, 16);
  EXPECT_EQ(table.rows(), 2);
  EXPECT_EQ(table.page_size(), 16);
  EXPECT_EQ(table.row_capacity(1), 3);
  EXPECT_EQ(table.id(0, 2), 3);
  EXPECT_EQ(table.id(1, 0), 4);
}

TEST(PageTable, CsrRowsLieWhereIndptrSays) {
  const WideIds ids = {std::int64_t{1} << 40, 2, 3};
  const Ids indptr = {0, 1, 1, 3};
  const PageTable table = PageTable::csr(indptr, view(ids), 24);
  EXPECT_EQ(table.rows(), 3);
  EXPECT_EQ(table.row_capacity(0), 1);
  EXPECT_EQ(table.row_capacity(1), 0);
  EXPECT_EQ(table.id(0, 0), std::int64_t{1} << 40);
  EXPECT_EQ(table.id(2, 1), 3);
}

TEST(PageTable, TokenLevelRowsAreLookedUp) {
  const Ids ids = {1, 2, 3, 4, 5, 6};
  const Ids rows = {2, 0, 2};
  const PageTable table = PageTable::token_level(view(ids), 2, rows);
  EXPECT_EQ(table.rows(), 3);
  EXPECT_EQ(table.page_size(), 1);
  EXPECT_EQ(table.id(0, 1), 6);
  EXPECT_EQ(table.id(1, 0), 1);
  EXPECT_EQ(table.id(2, 0), 5);
}

TEST(PageTable, PooledRowsAreLookedUpAndHavePages) {
  const Ids ids = {1, 2, 3, 4, 5, 6};
  const Ids rows = {2, 0};
  const PageTable table = PageTable::pooled(view(ids), 2, rows, 16);
  EXPECT_EQ(table.rows(), 2);
  EXPECT_EQ(table.page_size(), 16);
  EXPECT_EQ(table.row_capacity(0), 2);
  EXPECT_EQ(table.id(0, 1), 6);
  EXPECT_EQ(table.id(1, 0), 1);
  expect_error(ErrorCode::kInvalidArgument, "page_size is 0", [&] { PageTable::pooled(view(ids), 2, rows, 0); });
  expect_error(ErrorCode::kInvalidArgument, "ids has 6 entries; not a whole number of rows of width 4",
               [&] { PageTable::pooled(view(ids), 4, rows, 16); });
  const Ids outside = {0, 3};
  expect_error(ErrorCode::kOutOfRange, "rows[1] is 3; ids has 3 rows",
               [&] { PageTable::pooled(view(ids), 2, outside, 16); });
}

TEST(PageTable, RefusesBadDenseTables) {
  const Ids ids(10);
  const auto code = ErrorCode::kInvalidArgument;
  expect_error(code, "page_size is 0; it must be >= 1", [&] { PageTable::dense(view(ids), 2, 5, 0); });
  expect_error(code, "page_size is -16", [&] { PageTable::dense(view(ids), 2, 5, -16); });
  expect_error(code, "rows is -2; it must be >= 0", [&] { PageTable::dense(view(ids), -2, 5, 1); });
  expect_error(code, "width is -5; it must be >= 0", [&] { PageTable::dense(view(ids), 2, -5, 1); });
  expect_error(code, "ids is null but has 10 entries", [] {
    PageTable::dense(std::span<const std::int32_t>(static_cast<const std::int32_t*>(nullptr), 10), 2, 5, 1);
  });
  expect_error(ErrorCode::kOutOfRange, "ids has 10 entries; fewer than 2 rows of width 6",
               [&] { PageTable::dense(view(ids), 2, 6, 1); });
  // 4 x 2^62 wraps to zero in 64 bits.
  expect_error(ErrorCode::kOutOfRange, "fewer than 4 rows of width 4611686018427387904",
               [&] { PageTable::dense(view(ids), 4, std::int64_t{1} << 62, 1); });
}

TEST(PageTable, RefusesBadCsrTables) {
  const Ids ids(4);
  const auto code = ErrorCode::kInvalidArgument;
  const auto make = [&](const Ids& indptr, std::int32_t page_size = 16) {
    return [&ids, indptr, page_size] { PageTable::csr(indptr, view(ids), page_size); };
  };
  expect_error(code, "page_size is -1", make({0, 1}, -1));
  expect_error(code, "indptr has no entries; it must have rows + 1", make({}));
  expect_error(code, "indptr[0] is 1; it must be 0", make({1, 2}));
  expect_error(code, "indptr[0] is -1; it must be 0", make({-1, 2}));
  expect_error(code, "indptr[2] is 1 after 3; it must not decrease", make({0, 3, 1, 4}));
  expect_error(ErrorCode::kOutOfRange, "indptr[2] is 5; indices has 4 entries", make({0, 3, 5}));
  const Ids indptr = {0, 1};
  expect_error(code, "indices is null but has 4 entries", [&] {
    PageTable::csr(indptr, std::span<const std::int64_t>(static_cast<const std::int64_t*>(nullptr), 4), 16);
  });
}

TEST(PageTable, RefusesBadTokenLevelTables) {
  const Ids ids(12);
  const Ids rows = {0, 2};
  const auto code = ErrorCode::kInvalidArgument;
  expect_error(code, "req_to_token has 12 entries; not a whole number of rows of width 5",
               [&] { PageTable::token_level(view(ids), 5, rows); });
  expect_error(code, "width is -1", [&] { PageTable::token_level(view(ids), -1, rows); });
  expect_error(code, "not a whole number of rows of width 0", [&] { PageTable::token_level(view(ids), 0, rows); });
  expect_error(ErrorCode::kOutOfRange, "rows[1] is 2; req_to_token has 2 rows",
               [&] { PageTable::token_level(view(ids), 6, rows); });
  const Ids negative = {-1};
  expect_error(ErrorCode::kOutOfRange, "rows[0] is -1; req_to_token has 3 rows",
               [&] { PageTable::token_level(view(ids), 4, negative); });
  expect_error(code, "rows is null but has 2 entries", [&] {
    PageTable::token_level(view(ids), 4, {static_cast<const std::int32_t*>(nullptr), 2});
  });
}

// Values in device memory cannot be read, so sizes alone are checked; rows that lead out of the ids pass.
TEST(PageTable, OnDeviceChecksSizesAlone) {
  const std::vector<std::int32_t> ids(12);
  const std::vector<std::int32_t> values = {0, 99, -1};
  const PageTable csr = PageTable::csr_on_device(values, std::span<const std::int32_t>(ids), 16);
  EXPECT_EQ(csr.rows(), 2);
  EXPECT_EQ(csr.indptr(), values.data());
  EXPECT_EQ(csr.row_map(), nullptr);
  const PageTable tokens = PageTable::token_level_on_device(std::span<const std::int32_t>(ids), 4, values);
  EXPECT_EQ(tokens.rows(), 3);
  EXPECT_EQ(tokens.row_map(), values.data());
  EXPECT_EQ(tokens.width(), 4);
  expect_error(ErrorCode::kInvalidArgument, "not a whole number of rows of width 5",
               [&] { PageTable::token_level_on_device(std::span<const std::int32_t>(ids), 5, values); });
  expect_error(ErrorCode::kInvalidArgument, "indptr has no entries",
               [&] { PageTable::csr_on_device({}, std::span<const std::int32_t>(ids), 16); });
}

TEST(LengthsFromCsr, CountsFullPagesAndTheLastOne) {
  const Ids indptr = {0, 3, 3, 4};
  const Ids last = {5, -99, 16};
  EXPECT_THAT(lengths_from_csr(indptr, last, 16), ::testing::ElementsAre(37, 0, 16));
}

TEST(LengthsFromCsr, RefusesBadLengths) {
  const Ids indptr = {0, 1, 3};
  const auto code = ErrorCode::kInvalidArgument;
  const auto lengths = [&](const Ids& last, std::int32_t page_size) {
    return [indptr, last, page_size] { lengths_from_csr(indptr, last, page_size); };
  };
  expect_error(code, "last_page_len[1] is 0; it must be in [1, 16]", lengths({1, 0}, 16));
  expect_error(code, "last_page_len[0] is 17; it must be in [1, 16]", lengths({17, 1}, 16));
  expect_error(code, "last_page_len has 1 entries; indptr has 2 rows", lengths({1}, 16));
  expect_error(code, "page_size is 0", lengths({1, 1}, 0));
  expect_error(code, "row 1 has 2147483648 tokens by indptr",
               lengths({1, 1}, std::numeric_limits<std::int32_t>::max()));
  const Ids decreasing = {0, 2, 1};
  const Ids last = {1, 1};
  expect_error(code, "indptr[2] is 1 after 2", [&] { lengths_from_csr(decreasing, last, 16); });
}

}  // namespace
}  // namespace trunkline
