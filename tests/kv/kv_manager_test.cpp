#include "trunkline/kv/kv_manager.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "support/expect_error.hpp"
#include "trunkline/live.hpp"

namespace trunkline::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

std::vector<std::int32_t> counted_tokens(std::int32_t count, std::int32_t first = 100) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// 8 pages of 4 tokens.
class KvManagerTest : public ::testing::Test {
 protected:
  SequenceId sequence_of(std::int32_t tokens) {
    const SequenceId sequence = kv_.create();
    kv_.append(sequence, tokens);
    return sequence;
  }

  KvManager kv_{{.page_size = 4, .num_pages = 8}};
};

TEST_F(KvManagerTest, AppendTellsWhereTokensAreWritten) {
  const SequenceId sequence = kv_.create();
  const AppendResult& added = kv_.append(sequence, 6);
  const auto pages = kv_.pages(sequence);
  ASSERT_EQ(pages.size(), 2u);
  EXPECT_THAT(added.new_pages, ElementsAreArray(pages));
  EXPECT_THAT(added.new_page_indptr, ElementsAre(0, 2));
  const std::int64_t a = 4 * pages[0], b = 4 * pages[1];
  EXPECT_THAT(added.slot_mapping, ElementsAre(a, a + 1, a + 2, a + 3, b, b + 1));
  EXPECT_THAT(kv_.append(sequence, 2).slot_mapping, ElementsAre(b + 2, b + 3));
  EXPECT_EQ(kv_.tokens(sequence), 8);
  EXPECT_EQ(kv_.free_pages(), 6);
}

TEST_F(KvManagerTest, ForksShareFullPagesAndCopyAPartFilledOneWhenTheyWrite) {
  const SequenceId parent = sequence_of(6);
  const SequenceId first = kv_.fork(parent);
  const SequenceId second = kv_.fork(parent);
  kv_.free(parent);
  EXPECT_EQ(kv_.free_pages(), 6) << "a fork takes no page";
  const std::int32_t full = kv_.pages(first)[0], part = kv_.pages(first)[1];
  EXPECT_EQ(kv_.references(full), 2);

  const AppendResult& added = kv_.append(std::vector<SequenceAppend>{{first, 1}, {second, 3}});
  ASSERT_EQ(added.copies.size(), 1u) << "the last that holds the page goes on in it";
  EXPECT_EQ(added.copies[0].from, part);
  EXPECT_EQ(added.copies[0].to, kv_.pages(first)[1]);
  EXPECT_EQ(added.copies[0].tokens, 2);
  EXPECT_EQ(added.copies[0].append, 0);
  EXPECT_EQ(added.copies[0].page_index, 1);
  EXPECT_THAT(kv_.pages(second), ElementsAre(full, part, added.new_pages[0]));
  EXPECT_THAT(added.new_page_indptr, ElementsAre(0, 0, 1));
  EXPECT_EQ(added.slot_mapping.size(), 4u);
}

TEST_F(KvManagerTest, AFullPoolChangesNothing) {
  const SequenceId parent = sequence_of(26);
  const SequenceId child = kv_.fork(parent);
  const std::vector<SequenceAppend> appends = {{parent, 2}, {child, 3}};
  EXPECT_EQ(kv_.pages_needed(appends), 2);  // a copy for the parent, and a new page for the child
  expect_error(ErrorCode::kOutOfRange, "appends need 2 pages; of the pool's 8, 1 are free and 0 can be evicted",
               [&] { kv_.append(appends); });
  EXPECT_EQ(kv_.tokens(parent), 26);
  EXPECT_THAT(kv_.pages(child), ElementsAreArray(kv_.pages(parent)));
  EXPECT_EQ(kv_.free_pages(), 1);
  EXPECT_EQ(kv_.append(std::vector<SequenceAppend>{{parent, 2}, {child, 2}}).copies.size(), 1u);
}

TEST_F(KvManagerTest, MatchFindsTheLongestPrefixOfFullPages) {
  const SequenceId sequence = sequence_of(11);
  kv_.insert(sequence, counted_tokens(11));
  std::vector<std::int32_t> prompt = counted_tokens(12);
  const SequenceId all = kv_.match(prompt);
  EXPECT_EQ(kv_.tokens(all), 8);
  EXPECT_THAT(kv_.pages(all), ElementsAreArray(kv_.pages(sequence).first(2)));
  EXPECT_EQ(kv_.references(kv_.pages(all)[0]), 3) << "two sequences and the cache";
  prompt[5] = 0;
  EXPECT_EQ(kv_.tokens(kv_.match(prompt)), 4);
  prompt[0] = 0;
  EXPECT_EQ(kv_.tokens(kv_.match(prompt)), 0);
}

TEST_F(KvManagerTest, InsertReplacesPagesThatAreCachedAlready) {
  const SequenceId first = sequence_of(8);
  const SequenceId second = sequence_of(8);
  EXPECT_THAT(kv_.insert(first, counted_tokens(8)), IsEmpty());
  std::vector<std::int32_t> tokens = counted_tokens(8);
  tokens[7] = 0;
  EXPECT_THAT(kv_.insert(second, tokens), ElementsAre(0));
  EXPECT_EQ(kv_.pages(second)[0], kv_.pages(first)[0]);
  EXPECT_NE(kv_.pages(second)[1], kv_.pages(first)[1]);
  EXPECT_EQ(kv_.free_pages(), 5);
}

TEST_F(KvManagerTest, AppendDoesNotWriteToACachedPage) {
  const SequenceId sequence = sequence_of(8);
  kv_.insert(sequence, counted_tokens(8));
  kv_.truncate(sequence, 6);
  EXPECT_EQ(kv_.append(sequence, 1).copies.size(), 1u);
  EXPECT_EQ(kv_.tokens(kv_.match(counted_tokens(8))), 8);
}

TEST_F(KvManagerTest, EvictsTheLeastRecentlyUsedWhenNoPageIsFree) {
  const SequenceId older = sequence_of(8);
  kv_.insert(older, counted_tokens(8, 100));
  const SequenceId newer = sequence_of(8);
  kv_.insert(newer, counted_tokens(8, 200));
  kv_.free(older);
  kv_.free(newer);
  EXPECT_EQ(kv_.free_pages(), 4);
  EXPECT_EQ(kv_.available_pages(), 8);
  sequence_of(4 * 5);
  EXPECT_EQ(kv_.evicted_pages(), 1);
  EXPECT_EQ(kv_.tokens(kv_.match(counted_tokens(8, 100))), 4) << "the last page of the prefix went first";
  EXPECT_EQ(kv_.tokens(kv_.match(counted_tokens(8, 200))), 8);
  EXPECT_EQ(kv_.evict(8), 0) << "both matches hold their pages";
}

// A beam search of two beams: the events of a KvManager are those of a LiveBatch.
TEST_F(KvManagerTest, ItsResultsAreEventsOfALiveBatch) {
  LiveBatch live({.page_size = 4, .num_pages = 8});
  const SequenceId parent = sequence_of(6);
  const auto join = [&](SequenceId sequence) {
    return live.join({.kv_len = kv_.tokens(sequence), .pages = kv_.pages(sequence)});
  };
  const SequenceId child = kv_.fork(parent);
  const std::vector<SequenceId> sequences = {parent, child};
  std::vector<RequestId> rows = {join(parent)};
  rows.push_back(live.fork(rows[0]));
  for (int step = 0; step < 4; ++step) {
    const AppendResult& added = kv_.append(std::vector<SequenceAppend>{{parent, 1}, {child, 1}});
    for (const PageCopy& copy : added.copies) {
      live.replace_page(rows[static_cast<std::size_t>(copy.append)], copy.page_index, copy.to);
    }
    live.advance(std::vector<std::int32_t>{7 + step, 7 + step}, {added.new_page_indptr, std::span(added.new_pages)});
    for (std::size_t row = 0; row < rows.size(); ++row) {
      EXPECT_THAT(live.request_pages(rows[row]), ElementsAreArray(kv_.pages(sequences[row])));
    }
  }
  EXPECT_EQ(live.shared_tokens(rows[0]), 4);
}

TEST_F(KvManagerTest, NamesFaults) {
  expect_error(ErrorCode::kInvalidArgument, "page_size is 0", [] { KvManager({.page_size = 0, .num_pages = 1}); });
  expect_error(ErrorCode::kInvalidArgument, "num_pages is 0", [] { KvManager({.page_size = 1, .num_pages = 0}); });
  const SequenceId sequence = sequence_of(5);
  expect_error(ErrorCode::kInvalidArgument, "appends[0].tokens is -1", [&] { kv_.append(sequence, -1); });
  expect_error(ErrorCode::kInvalidArgument, "appends[0].tokens is 2147483647, and its sequence has 5",
               [&] { kv_.append(sequence, INT32_MAX); });
  expect_error(ErrorCode::kInvalidArgument, "appends[1].sequence is in slot 0", [&] {
    kv_.append(std::vector<SequenceAppend>{{sequence, 1}, {sequence, 1}});
  });
  expect_error(ErrorCode::kInvalidArgument, "tokens is 6; the sequence in slot 0 has 5",
               [&] { kv_.truncate(sequence, 6); });
  expect_error(ErrorCode::kInvalidArgument, "token_ids has 6 tokens; the sequence in slot 0 has 5",
               [&] { kv_.insert(sequence, counted_tokens(6)); });
  expect_error(ErrorCode::kOutOfRange, "page is 8; the pool has pages 0 to 7", [&] { kv_.references(8); });
  expect_error(ErrorCode::kOutOfRange, "sequence is in slot 3", [&] { kv_.fork({3, 0}); });
  kv_.free(sequence);
  expect_error(ErrorCode::kStale, "sequence in slot 0 has generation 0", [&] { kv_.free(sequence); });
  EXPECT_EQ(kv_.create().generation, 1u);
}

}  // namespace
}  // namespace trunkline::testing
