// What is seen of rows, whatever the form of their table: of a dense one that WholeRows are of, the same by AnyRows.
#include "plan/team/row_look.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "support/random_batch.hpp"
#include "support/test_scale.hpp"

namespace trunkline {
namespace {

using testing::uniform;

constexpr std::int32_t kLongest = std::numeric_limits<std::int32_t>::max();

/// A dense table, lengths, and what may have been planned of such rows: all that can be, right or wrong.
template <class Id>
struct LookCase {
  explicit LookCase(std::uint64_t seed) : random(seed) {
    const std::int32_t rows = any(1, 12);
    const std::int32_t width = any(0, 3) == 0 ? any(0, 2) * kUnit : any(0, 300) * kUnit;
    page_size = any(0, 2) == 0 ? 1 : any(2, 20);
    units.resize(static_cast<std::size_t>(rows * width / kUnit + 1));
    std::vector<Id> shared(static_cast<std::size_t>(width));
    for (Id& id : shared) id = any(0, 1000);
    for (std::int32_t row = 0; row < rows; ++row) {
      const std::int32_t end = any(0, 2) == 0 ? width : any(0, width);
      for (std::int32_t i = 0; i < width; ++i) {
        ids()[row * width + i] = i < end ? shared[static_cast<std::size_t>(i)] : static_cast<Id>(any(0, 1000));
      }
      ends.push_back(end);
      add_row(row, width);
    }
    last.rows = any(0, 3) == 0 ? any(0, rows) : rows;
    batch.table.ids = ids();
    batch.table.width = width;
    batch.table.entries = std::int64_t{rows} * width;
    batch.table.page_size = page_size;
    batch.table.wide = sizeof(Id) == 8;
    batch.kv_lens = kv_lens.data();
    batch.rows = rows;
    batch.null_page = any(0, 1) == 0 ? -1 : any(0, 1000);
  }
  std::int32_t any(std::int32_t low, std::int32_t high) { return uniform(random, low, high); }
  Id* ids() { return units[0].at; }
  void add_row(std::int32_t row, std::int32_t width) {
    const std::int32_t tokens = width * page_size;
    const std::int32_t lengths[] = {0, -3, kLongest, tokens + 1, tokens, tokens, any(0, tokens), any(0, tokens)};
    kv_lens.push_back(lengths[any(0, 7)]);
    SteadyRow planned;
    planned.owner = any(0, 3) == 0 ? any(-2, 13) : any(-1, row - 1);
    planned.shared = any(0, 9) == 0 ? kLongest : any(-1, tokens + 1);
    if (planned.owner >= 0 && planned.owner < row && any(0, 3) > 0) {
      const auto owner = static_cast<std::size_t>(planned.owner);
      planned.shared = least(page_size * least(ends.back(), ends[owner]), least(kv_lens.back(), kv_lens[owner]));
    }
    planned.planned_len = any(0, 1) == 0 ? planned.shared : kv_lens.back();
    planned.most_len = kLongest;
    planned.queries = 1;
    planned.next_id = any(0, 1000);
    const std::int32_t page = planned.shared / page_size;
    if (planned.shared >= 0 && page < width) planned.next_id = ids()[row * width + page];
    steady.push_back(planned);
  }

  static constexpr std::int32_t kUnit = TeamIds<Id>::kCount;
  std::mt19937_64 random;
  std::int32_t page_size = 1;
  std::vector<TeamIds<Id>> units;
  std::vector<std::int32_t> ends;  ///< pages that each row shares with all
  std::vector<std::int32_t> kv_lens;
  std::vector<SteadyRow> steady;
  LastForest last;
  TeamBatch batch;
};

struct Concluded {
  std::int32_t parting = 0;
  bool as_planned = false;
  SeenRow seen;
};

template <class Look>
Concluded concluded(const Look& look, std::int32_t row, std::int32_t log_parts) {
  auto read = look.read(row);
  Concluded result{Look::kNone, false, {}};
  for (std::int32_t part = 0; part < 1 << log_parts; ++part) {
    result.parting = least(result.parting, look.first_parting_in(HostLanes(), read, part, log_parts));
  }
  result.as_planned = look.conclude(read, result.parting, result.seen);
  return result;
}

struct Counts {
  int as_planned = 0;  ///< rows
  int parted = 0;      ///< rows that part from their owner
};

template <class Id>
void expect_same_by_all(std::uint64_t seed, Counts& counts) {
  LookCase<Id> drawn(seed);
  SteadyRows planned;
  planned.rows = drawn.steady.data();
  planned.last = &drawn.last;
  EXPECT_TRUE(WholeRows<Id>::are_of(drawn.batch));
  const RowLook<Id, AnyRows<Id>> any(drawn.batch, planned);
  const RowLook<Id, WholeRows<Id>> whole(drawn.batch, planned);
  for (std::int32_t row = 0; row < drawn.batch.rows; ++row) {
    for (std::int32_t log_parts = 0; log_parts <= 4; ++log_parts) {
      const Concluded a = concluded(any, row, log_parts);
      const Concluded b = concluded(whole, row, log_parts);
      EXPECT_EQ(a.parting, b.parting);
      EXPECT_EQ(a.as_planned, b.as_planned);
      EXPECT_EQ(a.seen.next_id, b.seen.next_id);
      EXPECT_EQ(a.seen.kv_len, b.seen.kv_len);
      EXPECT_EQ(a.seen.shared, b.seen.shared);
      EXPECT_EQ(a.seen.owner, b.seen.owner);
      EXPECT_EQ(a.seen.level, b.seen.level);
      EXPECT_EQ(a.seen.reshaped, b.seen.reshaped);
      counts.as_planned += a.as_planned ? 1 : 0;
      counts.parted += a.parting < kLongest ? 1 : 0;
    }
  }
}

TEST(RowLook, SeesTheSameOfADenseTableByEitherWay) {
  Counts counts;
  for (int seed = 1; seed <= testing::scaled(2000); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    expect_same_by_all<std::int32_t>(static_cast<std::uint64_t>(seed), counts);
    expect_same_by_all<std::int64_t>(static_cast<std::uint64_t>(seed), counts);
    if (HasFailure()) return;
  }
  EXPECT_GT(counts.as_planned, testing::scaled(2000));
  EXPECT_GT(counts.parted, testing::scaled(2000));
}

TEST(RowLook, RowsAreWholeWhereAllBeginAtAUnitInsideOfADenseTable) {
  alignas(16) std::int32_t ids[48] = {};
  std::int32_t row_places[4] = {};
  TeamBatch batch;
  batch.rows = 3;
  batch.table.ids = ids;
  batch.table.width = 8;
  batch.table.entries = 24;
  batch.table.page_size = 16;
  const auto whole = [](const TeamBatch& of) { return WholeRows<std::int32_t>::are_of(of); };
  const auto with = [&](auto change) {
    TeamBatch changed = batch;
    change(changed.table);
    return changed;
  };
  EXPECT_TRUE(whole(batch));
  EXPECT_TRUE(whole(with([](TeamTable& table) { table.width = 0; })));
  EXPECT_FALSE(whole(with([](TeamTable& table) { table.width = 6; })));
  EXPECT_TRUE(WholeRows<std::int64_t>::are_of(with([](TeamTable& table) { table.width = 6; })));
  EXPECT_FALSE(whole(with([](TeamTable& table) { table.width = -8; })));
  EXPECT_FALSE(whole(with([](TeamTable& table) { table.entries = 23; })));
  EXPECT_FALSE(whole(with([&](TeamTable& table) { table.ids = ids + 1; })));
  EXPECT_FALSE(whole(with([&](TeamTable& table) { table.indptr = row_places; })));
  EXPECT_FALSE(whole(with([&](TeamTable& table) { table.row_map = row_places; })));
}

TEST(RowLook, WholeRowsHave32BitsForPlacesAndTokens) {
  alignas(16) std::int32_t ids[4] = {};
  constexpr std::int64_t kHalf = std::int64_t{1} << 30;
  TeamBatch batch;
  batch.rows = 2;
  batch.table.ids = ids;
  batch.table.width = kHalf;
  batch.table.entries = 2 * kHalf;
  batch.table.page_size = 16;
  EXPECT_FALSE(WholeRows<std::int32_t>::are_of(batch)) << "one id too many";
  batch.table.width = kHalf - 4;
  EXPECT_TRUE(WholeRows<std::int32_t>::are_of(batch));
  const WholeRows<std::int32_t> rows(batch);
  EXPECT_EQ(rows.of(1).begin, kHalf - 4);
  EXPECT_TRUE(rows.fits(rows.of(1), kLongest)) << "there is room for more tokens";
  EXPECT_FALSE(rows.fits(rows.of(1), -1));
}

}  // namespace
}  // namespace trunkline
