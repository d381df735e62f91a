// Which tokens each row of a batch shares with earlier rows, found by all rows at once.
//
// RadixBuilder's result without its order of insertion. A group is the rows that have a run of tokens in common, and
// its least row is its head. In each round every other row of a group is compared with the head, and those that part
// from it with the same page at the same token are a group of the next round. So a row is compared with one row at a
// time, each of its pages once; whoever is alone is done, with the head of the group before as its owner. Groups are
// found by a hash table whose keys are compared in full: a collision costs a probe and nothing else.
//
// Where looking at the rows (row_look.hpp) has guessed every owner, that is confirmed by one step and there are no
// rounds; where it has not, owners are repaired first (owner_repair.hpp).
//
// Rounds: one, and one more for each branching at which a row is not on the side of the least row; a batch without
// sharing takes none but the first look at page 0. A round costs the lead block 3 barriers, the team 2, three dependent
// reads of the lead block's memory and two of pages, and the reading of what is compared. A chain of n rows each of
// which goes on from the one before it takes n rounds.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/page_compare.hpp"
#include "plan/team/query_starts.hpp"
#include "plan/team/row_sharing.hpp"
#include "plan/team/team.hpp"
#include "plan/team/team_batch.hpp"
#include "plan/team/team_forest.hpp"

namespace trunkline {

/// Multiplicative hashing (Knuth, 6.4), as IdMap's.
struct SharingHash {
  TRUNKLINE_HOST_DEVICE std::uint32_t operator()(std::int32_t owner, std::int32_t shared, std::int64_t id) const {
    constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15u;
    std::uint64_t mixed = static_cast<std::uint64_t>(id) * kFactor;
    mixed ^= std::uint64_t{static_cast<std::uint32_t>(owner)} << 32 | static_cast<std::uint32_t>(shared);
    return static_cast<std::uint32_t>((mixed ^ (mixed >> 29)) * kFactor >> 32);
  }
};

/// What is in SharingScratch::slots. Rounds count down, so that what an earlier round left in a slot is as good as
/// empty, and a head is the least value.
struct SharingSlots {
  TRUNKLINE_HOST_DEVICE static std::uint32_t slot_of(std::int32_t round, std::int32_t row) {
    return (0xFFFEu - static_cast<std::uint32_t>(round)) << 16 | static_cast<std::uint32_t>(row);
  }
  TRUNKLINE_HOST_DEVICE static std::int32_t row_in(std::uint32_t slot) {
    return static_cast<std::int32_t>(slot & 0xFFFFu);
  }
};

template <class Id, class Hash = SharingHash>
class SharingSearch : private SharingSlots {
 public:
  TRUNKLINE_HOST_DEVICE SharingSearch(const TeamBatch& batch, const RowSharing& result, const SharingScratch& scratch)
      : batch_(batch),
        null_(batch.null_page),
        ids_(static_cast<const Id*>(batch.table.ids)),
        to_(result),
        s_(scratch) {}

  /// To be called, and followed by a barrier, before confirm_seen().
  template <class Block>
  TRUNKLINE_HOST_DEVICE void clear_slots(Block& block) const {
    const SharingScratch scratch = s_;
    block.each_at_last(static_cast<std::int32_t>(s_.slot_count),
                       [scratch](std::int32_t i) { scratch.slots[i] = SharingScratch::kEmptySlot; });
  }
  /// Puts what was seen of rows where searching has it, and fills query_begin.
  /// \param put_query_begin(i, begin) for i up to and with the number of rows
  /// \return whether owners are right: see confirm()
  template <class Block, class Put>
  TRUNKLINE_HOST_DEVICE OwnerGuess confirm_seen(Block& block, const SeenRow* all_seen, Put put_query_begin) {
    block.each_warp(ceil_div(to_.rows + 1, Block::kLanes), [&](std::int32_t run, const auto& lanes) {
      const std::int32_t i = run * Block::kLanes + lanes.index();
      if (i <= to_.rows) put_query_begin(i, batch_.query_start == nullptr ? i : batch_.query_start[i]);
      const bool open = i < to_.rows && take(i, all_seen[i]) == RowSharing::kOpen;
      // What others have seen: their threads may still be putting it here.
      enter_some(block, 0, open ? i : -1, lanes, [all_seen](std::int32_t row) { return key_of(all_seen[row]); });
    });
    const bool changed =
        block.any(to_.rows, [&](std::int32_t row) { return !confirm_row(row) || all_seen[row].reshaped != 0; });
    if (!changed) return OwnerGuess::kSameShape;
    return block.any(to_.rows, [&](std::int32_t row) { return !is_sound(row); }) ? OwnerGuess::kWrong
                                                                                 : OwnerGuess::kRight;
  }
  /// Whether owners are what rounds would find. They are where each row's owner owns the last token that they share,
  /// and where no two rows part from one owner at one token with the same page: then each point of the tree has one way
  /// on for each page, so that there is no other tree of these rows; and owners, which are lesser than the rows that
  /// part from them, are the least that have their tokens. \param turn how often it was asked before, with other owners
  /// (owner_repair.hpp)
  template <class Block>
  TRUNKLINE_HOST_DEVICE OwnerGuess confirm(Block& block, std::int32_t turn) {
    block.each_warp(ceil_div(to_.rows, Block::kLanes), [&](std::int32_t run, const auto& lanes) {
      const std::int32_t i = run * Block::kLanes + lanes.index();
      enter_some(block, turn, is_open(i) ? i : -1, lanes, [this](std::int32_t row) { return key_of(row); });
    });
    const bool wrong = block.any(to_.rows, [&](std::int32_t row) { return !confirm_row(row); });
    return wrong ? OwnerGuess::kWrong : OwnerGuess::kRight;
  }
  /// One round. \param tasks of the last one; \return those of this one, for compare()
  template <class Block>
  TRUNKLINE_HOST_DEVICE std::int32_t next(Block& block, std::int32_t round, std::int32_t tasks,
                                          std::int32_t* query_begin, TeamFaults& faults) {
    if (round == 0) {
      read_rows(block, query_begin, faults);
      tasks = block.select(
          to_.rows, [&](std::int32_t row) { return to_.level(row) == RowSharing::kOpen; },
          [&](std::int32_t k, std::int32_t row) { s_.listed(0, k) = row; });
    }
    return form_groups(block, round, tasks);
  }
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE void compare(const Lanes& lanes, std::int32_t task) {
    compare(lanes, s_.tasks[task]);
  }

 private:
  /// \return its level
  TRUNKLINE_HOST_DEVICE std::int32_t take(std::int32_t row, const SeenRow& in_list) const {
    const SeenRow seen = in_list;
    const bool fits = batch_.query_start == nullptr || has_sound_queries(batch_, row);
    const std::int32_t level = fits ? seen.level : RowSharing::kUnfit;
    to_.kv_len(row) = seen.kv_len;
    to_.shared(row) = seen.shared;
    to_.owner(row) = seen.owner;
    to_.level(row) = level;
    to_.next_id(row) = seen.next_id;
    return level;
  }
  TRUNKLINE_HOST_DEVICE bool is_open(std::int32_t row) const {
    return row < to_.rows && to_.level(row) == RowSharing::kOpen;
  }
  /// \return whether its owner is right
  TRUNKLINE_HOST_DEVICE bool confirm_row(std::int32_t row) const {
    const bool sound = is_sound(row);
    if (sound) set_level(row);
    return sound;
  }
  TRUNKLINE_HOST_DEVICE bool is_sound(std::int32_t row) const {
    const std::int32_t level = to_.level(row);
    const std::int32_t owner = to_.owner(row);
    if (level == RowSharing::kUnfit || (owner >= 0 && to_.shared(row) <= to_.shared(owner))) return false;
    return level != RowSharing::kOpen || row_in(s_.slots[s_.place(row)]) == row;
  }
  TRUNKLINE_HOST_DEVICE void set_level(std::int32_t row) const {
    if (to_.level(row) == RowSharing::kInside) return;
    std::int32_t level = 0;
    TRUNKLINE_ROLLED
    for (std::int32_t above = to_.owner(row); above >= 0; above = to_.owner(above)) ++level;
    to_.level(row) = level;
  }

  /// Each row's length, first page and queries.
  template <class Block>
  TRUNKLINE_HOST_DEVICE void read_rows(Block& block, std::int32_t* query_begin, TeamFaults& faults) {
    const auto slots = static_cast<std::int32_t>(s_.slot_count);
    block.each(most(slots, to_.rows + 1), [&](std::int32_t i) {
      if (i < slots) s_.slots[i] = SharingScratch::kEmptySlot;
      if (i <= to_.rows) copy_query_start<Block>(batch_, i, query_begin, faults);
      if (i < to_.rows) read_row<Block>(i, faults);
    });
    drop_faulty_queries(block, batch_, query_begin, faults);
  }
  template <class Block>
  TRUNKLINE_HOST_DEVICE void read_row(std::int32_t row, TeamFaults& faults) {
    const TeamRow live = team_row(batch_, row);
    if (!live.fits) count_fault<Block>(faults.lengths, faults.first_length, row);
    s_.begin(row) = live.begin;
    to_.kv_len(row) = live.kv_len;
    to_.shared(row) = 0;
    to_.owner(row) = -1;
    to_.level(row) = RowSharing::kInside;
    if (live.kv_len > 0) open(row, 0, ids_[live.begin]);
  }

  /// A row looks for others with the page that it goes on with; with a null page there are none.
  TRUNKLINE_HOST_DEVICE void open(std::int32_t row, std::int32_t level, Id id) {
    to_.next_id(row) = id;
    to_.level(row) = null_.is(id) ? level : RowSharing::kOpen;
  }

  /// Puts the listed rows that are open into groups, and makes tasks of those that are no head. \return how many
  template <class Block>
  TRUNKLINE_HOST_DEVICE std::int32_t form_groups(Block& block, std::int32_t round, std::int32_t count) {
    block.each_warp(ceil_div(count, Block::kLanes), [&](std::int32_t run, const auto& lanes) {
      const std::int32_t i = run * Block::kLanes + lanes.index();
      const std::int32_t row = i < count ? s_.listed(round, i) : to_.rows;
      enter_some(block, round, is_open(row) ? row : -1, lanes, [this](std::int32_t k) { return key_of(k); });
    });
    const auto is_member = [&](std::int32_t i) {
      const std::int32_t row = s_.listed(round, i);
      if (to_.level(row) != RowSharing::kOpen) return false;
      if (row_in(s_.slots[s_.place(row)]) != row) return true;
      to_.level(row) = round;
      return false;
    };
    return block.select(count, is_member, [&](std::int32_t k, std::int32_t i) {
      const std::int32_t row = s_.listed(round, i);
      const std::int32_t head = row_in(s_.slots[s_.place(row)]);
      s_.listed(round + 1, k) = row;
      // They have the page of the token at which they are a group.
      s_.tasks[k] = {s_.begin(row),
                     s_.begin(head),
                     row,
                     head,
                     to_.kv_len(row),
                     to_.kv_len(head),
                     to_.shared(row) / batch_.table.page_size + 1,
                     round};
    });
  }

  /// Rows of one key are a group.
  struct Key {
    std::int32_t owner;
    std::int32_t shared;
    std::int64_t next_id;
    TRUNKLINE_HOST_DEVICE bool operator==(const Key& other) const {
      const std::int32_t places = (owner ^ other.owner) | (shared ^ other.shared);
      return (places | (next_id ^ other.next_id)) == 0;  // all is read at once
    }
  };
  TRUNKLINE_HOST_DEVICE Key key_of(std::int32_t row) const {
    return {to_.owner(row), to_.shared(row), to_.next_id(row)};
  }
  TRUNKLINE_HOST_DEVICE static Key key_of(const SeenRow& row) { return {row.owner, row.shared, row.next_id}; }

  /// Open rows of a warp in rising order, -1 for none. The first enters for those of its group: 1,024 rows at one
  /// address would take 2 us. \param its_key(row)
  template <class Block, class Lanes, class ItsKey>
  TRUNKLINE_HOST_DEVICE void enter_some(Block& block, std::int32_t round, std::int32_t row, const Lanes& lanes,
                                        ItsKey its_key) {
    const bool open = row >= 0;
    const std::int32_t first = lanes.least(open ? row : std::int32_t{kMaxTeamRows});
    const bool follows = open && first < row && its_key(first) == its_key(row);
    if (open && !follows) enter(block, round, row, its_key);
    lanes.wait();
    if (follows) s_.place(row) = s_.place(first);
  }
  template <class Block, class ItsKey>
  TRUNKLINE_HOST_DEVICE void enter(Block& block, std::int32_t round, std::int32_t row, ItsKey its_key) {
    const std::uint32_t mine = slot_of(round, row);
    const std::uint32_t mask = s_.slot_count - 1;
    const Key key = its_key(row);
    std::uint32_t place = Hash()(key.owner, key.shared, key.next_id) & mask;
    for (;; place = (place + 1) & mask) {
      std::uint32_t& slot = s_.slots[place];
      std::uint32_t found = Block::peek(slot);
      if (found >> 16 != mine >> 16) {
        const std::uint32_t was = block.compare_exchange(slot, found, mine);
        if (was == found) break;
        found = was;
      }
      if (!(its_key(row_in(found)) == key)) continue;
      if (mine < found) block.fetch_least(slot, mine);
      break;
    }
    s_.place(row) = static_cast<std::int32_t>(place);
  }

  /// How far a row goes along with its head, and what comes then.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE void compare(const Lanes& lanes, const SharingTask& in_list) {
    const SharingTask task = in_list;
    const PageSize page_size = batch_.table.page_size;
    const std::int32_t tokens = least(task.kv_len, task.head_kv_len);
    const std::int32_t pages = team_pages(tokens, page_size);
    const Id* const ids = ids_ + task.begin;
    const std::int32_t common = first_parting(lanes, ids, ids_ + task.head_begin, task.page, pages, null_);
    if (lanes.index() != 0) return;
    const std::int32_t shared = common == pages ? tokens : common * page_size;
    to_.shared(task.row) = shared;
    to_.owner(task.row) = task.head;
    if (shared == task.kv_len) {
      to_.level(task.row) = RowSharing::kInside;
    } else {
      open(task.row, task.level + 1, ids[shared / page_size]);
    }
  }

  TeamBatch batch_;
  TeamNullId<Id> null_;
  const Id* ids_;
  RowSharing to_;
  SharingScratch s_;
};

}  // namespace trunkline
