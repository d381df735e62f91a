#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "support/expect_error.hpp"
#include "trunkline/batch.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {
namespace {

using testing::expect_error;
using Numbers = std::vector<std::int32_t>;

constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr auto kRange = ErrorCode::kOutOfRange;

/// Three rows of two pages of 16 tokens; what a test changes is what is wrong.
struct Example {
  Numbers ids = {0, 1, 2, 3, 4, 5};
  Numbers kv_lens = {20, 0, 32};
  Numbers query_start = {0, 2, 3, 4};
  Numbers query_parents = {};
  Numbers slots = {7, 5, 6};
  std::vector<std::uint32_t> generations = {1, 2, 3};
  std::int64_t num_pages = 6;

  Batch view() const {
    Batch batch;
    batch.pages = PageTable::dense(std::span<const std::int32_t>(ids), 3, 2, 16);
    batch.kv_lens = kv_lens;
    batch.query_start = query_start;
    batch.query_parents = query_parents;
    batch.slots = slots;
    batch.generations = generations;
    batch.num_pages = num_pages;
    return batch;
  }
};

void expect_refused(const Example& example, ErrorCode code, const char* message, IdCheck ids = IdCheck::kNone) {
  expect_error(code, message, [&] { check_batch(example.view(), ids); });
  expect_error(code, message, [&] { build_forest(example.view(), ids); });
}

TEST(CheckBatch, AcceptsAGoodBatch) {
  const Example example;
  EXPECT_NO_THROW(check_batch(example.view(), IdCheck::kAllPages));
  Batch plain = example.view();
  plain.query_start = {};
  plain.slots = {};
  plain.generations = {};
  EXPECT_NO_THROW(check_batch(plain, IdCheck::kAllPages));
}

TEST(CheckBatch, AcceptsNoRows) {
  Batch batch;
  batch.pages = PageTable::dense(std::span<const std::int32_t>(), 0, 4, 16);
  EXPECT_NO_THROW(check_batch(batch, IdCheck::kAllPages));
  EXPECT_TRUE(build_forest(batch).nodes.empty());
}

TEST(CheckBatch, RefusesAMissingTable) {
  expect_error(kInvalid, "pages has page_size 0", [] { check_batch(Batch(), IdCheck::kNone); });
}

TEST(CheckBatch, RefusesWrongSizes) {
  Example example;
  example.kv_lens = {20, 0};
  expect_refused(example, kInvalid, "kv_lens has 2 entries; it must have pages.rows() = 3");
  example = {};
  example.query_start = {0, 1, 2};
  expect_refused(example, kInvalid, "query_start has 3 entries; it must have rows + 1 = 4");
  example = {};
  example.slots = {1, 2, 3, 4};
  expect_refused(example, kInvalid, "slots has 4 entries; it must have rows = 3");
  example = {};
  example.generations = {1};
  expect_refused(example, kInvalid, "generations has 1 entries; it must have rows = 3");
}

TEST(CheckBatch, RefusesNullArrays) {
  const Example example;
  Batch batch = example.view();
  batch.kv_lens = {static_cast<const std::int32_t*>(nullptr), 3};
  expect_error(kInvalid, "kv_lens is null but has 3 entries", [&] { check_batch(batch, IdCheck::kNone); });
  batch = example.view();
  batch.slots = {static_cast<const std::int32_t*>(nullptr), 3};
  expect_error(kInvalid, "slots is null but has 3 entries", [&] { check_batch(batch, IdCheck::kNone); });
}

TEST(CheckBatch, RefusesBadLengths) {
  Example example;
  example.kv_lens[1] = -7;
  expect_refused(example, kInvalid, "kv_lens[1] is -7; lengths must be >= 0");
  example.kv_lens[1] = 33;
  expect_refused(example, kRange, "kv_lens[1] is 33; row 1 of the page table has room for 2 pages of 16 tokens");
  example.kv_lens[1] = std::numeric_limits<std::int32_t>::max();
  expect_refused(example, kRange, "kv_lens[1] is 2147483647");
}

TEST(CheckBatch, RefusesBadQueryStarts) {
  Example example;
  example.query_start = {1, 2, 3, 4};
  expect_refused(example, kInvalid, "query_start[0] is 1; it must be 0");
  example.query_start = {0, 2, 1, 4};
  expect_refused(example, kInvalid, "query_start[2] is 1 after 2; it must not decrease");
  example.query_start = {0, 21, 22, 23};
  expect_refused(example, kInvalid, "query_start gives row 0 21 query tokens; kv_lens[0] is 20");
  // An empty request may ask: its output is zero.
  example.query_start = {0, 20, 25, 26};
  EXPECT_NO_THROW(check_batch(example.view(), IdCheck::kNone));
}

TEST(CheckBatch, RefusesBadDraftTrees) {
  Example example;
  example.query_start = {0, 4, 5, 7};
  example.query_parents = {-1, 0, 0, 2, -1, -1, 0};
  EXPECT_NO_THROW(check_batch(example.view(), IdCheck::kNone));
  const auto expect_parent_refused = [&](std::size_t index, std::int32_t parent, const char* message) {
    Example bad = example;
    bad.query_parents[index] = parent;
    expect_refused(bad, kInvalid, message);
  };
  expect_parent_refused(2, -1,
                        "query_parents[2] is -1, which is a root too many at query token 2 of row 0; token 0 of a "
                        "row must have -1, and each other an earlier token of its row");
  expect_parent_refused(6, 1, "query_parents[6] is 1, which is a cycle at query token 1 of row 2; ");
  expect_parent_refused(0, 0, "query_parents[0] is 0, which is a cycle at query token 0 of row 0; ");
  expect_parent_refused(1, 3, "query_parents[1] is 3, which is a forward parent at query token 1 of row 0; ");
  expect_parent_refused(3, 4, "query_parents[3] is 4, which is a forward parent ");
  expect_parent_refused(4, 1, "query_parents[4] is 1, which is no root at query token 0 of row 1; ");
  expect_parent_refused(3, -2, "query_parents[3] is -2, which is below -1 at query token 3 of row 0; ");
  expect_parent_refused(5, -2, "query_parents[5] is -2, which is below -1 at query token 0 of row 2; ");
  expect_parent_refused(1, std::numeric_limits<std::int32_t>::max(),
                        "query_parents[1] is 2147483647, which is a forward");
  expect_parent_refused(1, std::numeric_limits<std::int32_t>::min(), "query_parents[1] is -2147483648, which is below");
  example.query_parents.pop_back();
  expect_refused(example, kInvalid, "query_parents has 6 entries; it must have query tokens = 7");
}

TEST(CheckBatch, RefusesBadSlots) {
  Example example;
  example.slots[2] = -1;
  expect_refused(example, kInvalid, "slots[2] is -1; slots must be >= 0");
  example.slots[2] = 7;
  expect_refused(example, kInvalid, "slots[2] is 7, which is also slots[0]; slots must differ");
  example.slots = {2'000'000'000, 5, 2'000'000'000};
  expect_refused(example, kInvalid, "slots[2] is 2000000000, which is also slots[0]; slots must differ");
  example.slots[2] = 1'999'999'999;
  EXPECT_NO_THROW(check_batch(example.view(), IdCheck::kNone));
}

TEST(CheckBatch, ChecksUsedIdsWhenAsked) {
  Example example;
  example.ids[1] = 6;
  EXPECT_NO_THROW(check_batch(example.view(), IdCheck::kNone));
  expect_refused(example, kRange, "page table row 0 entry 1 is 6; ids must be in [0, 6)", IdCheck::kAllPages);
  example.ids[1] = -3;
  expect_refused(example, kRange, "page table row 0 entry 1 is -3; ids must be in [0, 6)", IdCheck::kAllPages);
  example.ids[1] = std::numeric_limits<std::int32_t>::min();
  expect_refused(example, kRange, "page table row 0 entry 1 is -2147483648", IdCheck::kAllPages);
  // Row 1 is empty: its entries are garbage.
  example = {};
  example.ids[2] = example.ids[3] = std::numeric_limits<std::int32_t>::max();
  EXPECT_NO_THROW(check_batch(example.view(), IdCheck::kAllPages));
  example.num_pages = 0;
  expect_refused(example, kRange, "page table row 0 entry 0 is 0; ids must be in [0, 0)", IdCheck::kAllPages);
}

TEST(CheckBatch, NullPageIsOfThePool) {
  const Example example;
  Batch batch = example.view();
  for (const std::int64_t outside : {std::int64_t{6}, std::int64_t{1} << 40}) {
    batch.null_page = outside;
    const std::string message = "null_page is " + std::to_string(outside) + "; ids must be in [0, 6)";
    expect_error(kRange, message, [&] { check_batch(batch, IdCheck::kNone); });
    expect_error(kRange, message, [&] { build_forest(batch); });
    EXPECT_EQ(pages_used(batch), 6);  // for which the pool is not known yet
  }
  for (const std::int64_t inside : {-1, 0, 5}) {
    batch.null_page = inside;
    EXPECT_NO_THROW(check_batch(batch, IdCheck::kNone));
  }
}

TEST(CheckBatch, ChecksWideIdsPast32Bits) {
  const Numbers kv_lens = {40};
  for (const std::int64_t bad : {std::int64_t{1} << 32, std::numeric_limits<std::int64_t>::min(), std::int64_t{-1}}) {
    const std::vector<std::int64_t> ids = {0, 1, bad};
    Batch batch;
    batch.pages = PageTable::dense(std::span<const std::int64_t>(ids), 1, 3, 16);
    batch.kv_lens = kv_lens;
    batch.num_pages = 2;
    expect_error(kRange, "page table row 0 entry 2 is " + std::to_string(bad),
                 [&] { check_batch(batch, IdCheck::kAllPages); });
    batch.num_pages = std::numeric_limits<std::int64_t>::max();
    if (bad > 0) {
      EXPECT_NO_THROW(check_batch(batch, IdCheck::kAllPages));
    }
  }
}

}  // namespace
}  // namespace trunkline
