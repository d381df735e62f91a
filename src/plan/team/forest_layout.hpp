// From what each row shares with earlier rows to a forest in pre-order: ForestOrder's result, by all rows at once.
//
// A row owns the tokens from RowSharing::shared to its end. Others part from it or end inside at some of them, its
// marks, which cut what it owns into nodes. Depth-first order then is, for each owner: its nodes, the rows that end in
// them in rising order of mark and row, and after both, those that part from it, from the last mark to the first and at
// a mark in rising order of row, each with all below it. So where things lie follows from sums over the items of an
// owner: the rows that part from it or end inside, sorted by mark and row.
//
// One block does it, as what there is of 1,024 rows fits its shared memory: where nothing is shared in a few barriers,
// else in some twenty, four more to sort as many items where they are in no order yet, and 2 more a level of owners.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/layout_scratch.hpp"
#include "plan/team/row_sharing.hpp"
#include "plan/team/sorted_keys.hpp"
#include "plan/team/team.hpp"
#include "plan/team/team_forest.hpp"
#include "plan/team/team_memory.hpp"
#include "plan/team/team_more.hpp"

namespace trunkline {

/// Counts of a forest whose arrays are filled.
struct LaidOutForest {
  std::int32_t nodes;
  std::int64_t total_tokens;
  std::int64_t distinct_tokens;
  std::int64_t hot_tokens;  ///< ForestPhaseResult's, as what follows
  std::int32_t unlike;
};

class ForestLayout {
 public:
  TRUNKLINE_HOST_DEVICE ForestLayout(const RowSharing& from, const LayoutScratch& scratch, const TeamForest& forest)
      : from_(from), s_(scratch), forest_(forest) {}

  /// Fills the forest's nodes, order, kv_len and node, and of alike rows tokens and shared.
  /// \param keep(row, alone) as find_forest's
  template <class Block, class Keep>
  TRUNKLINE_HOST_DEVICE LaidOutForest run(Block& block, Keep keep) {
    list_roots(block);
    std::int32_t nodes = roots_;
    if (roots_ < from_.rows) list_attached(block);
    if (items_ > roots_) {
      place_all(block);
      nodes = TeamSizes::nodes(s_.before(roots_));  // of all roots with all below them
    }
    const TeamWords<kSums> sums = write_rows(block, keep);
    if (items_ < from_.rows) write_empty_rows(block);
    const std::int64_t alone = sums.at[kAlone] & ((std::int64_t{1} << kUnlikeBits) - 1);
    const bool told = forest_.tokens != nullptr && sums.at[kAlone] >> kUnlikeBits == 0;
    return {nodes, sums.at[kTotal], sums.at[kDistinct], sums.at[kDistinct] - alone, told ? 0 : 1};
  }

 private:
  // A row is an item of its owner; roots are items of nobody, and lie before all others, at one mark.
  static constexpr int kMarkBits = 31;
  static constexpr int kRowBits = 16;
  TRUNKLINE_HOST_DEVICE std::uint64_t key_of(std::int32_t row) const {
    return (std::uint64_t{static_cast<std::uint32_t>(from_.owner(row))} << kMarkBits |
            static_cast<std::uint32_t>(from_.shared(row)))
               << kRowBits |
           static_cast<std::uint32_t>(row);
  }
  TRUNKLINE_HOST_DEVICE std::int32_t row_at(std::int32_t i) const {
    return static_cast<std::int32_t>(s_.keys()[i] & ((1u << kRowBits) - 1));
  }
  TRUNKLINE_HOST_DEVICE bool owns(std::int32_t row) const { return from_.owns_tokens(row); }

  /// Places them too, as they are where nothing is shared.
  template <class Block>
  TRUNKLINE_HOST_DEVICE void list_roots(Block& block) {
    const auto is_root = [&](std::int32_t row) {
      s_.items_begin(row) = 0;
      s_.items_end(row) = 0;
      return owns(row) && from_.owner(row) < 0;
    };
    roots_ = block.select(from_.rows, is_root, [&](std::int32_t k, std::int32_t row) {
      s_.keys()[k] = static_cast<std::uint32_t>(row);
      s_.start(row) = TeamSizes::of(k, k);
      s_.depth(row) = 0;
    });
    items_ = roots_;
  }
  template <class Block>
  TRUNKLINE_HOST_DEVICE void list_attached(Block& block) {
    const auto is_attached = [&](std::int32_t row) { return from_.owner(row) >= 0; };
    std::uint64_t* const found = s_.spare_keys();
    const std::int32_t attached =
        block.select(from_.rows, is_attached, [&](std::int32_t k, std::int32_t row) { found[k] = key_of(row); });
    items_ = roots_ + attached;
    sort_keys(block, found, s_.keys() + roots_, attached);
  }

  /// Where the rows and nodes of all owners begin.
  template <class Block>
  TRUNKLINE_HOST_DEVICE void place_all(Block& block) {
    find_marks(block);
    const std::int32_t deepest = add_up_sizes(block);
    sum_sizes(block);
    place_owners(block, deepest);
  }

  /// Numbers the marks and counts the rows that end inside, and finds each owner's items.
  template <class Block>
  TRUNKLINE_HOST_DEVICE void find_marks(Block& block) {
    const auto counted = [&](std::int32_t i) { return TeamSizes::of(begins_mark(i) ? 1 : 0, owns(row_at(i)) ? 0 : 1); };
    block.template scan<std::uint64_t>(items_, counted, [&](std::int32_t i, std::uint64_t before) {
      const std::int32_t marks = TeamSizes::rows(before);
      s_.ends_before(i) = TeamSizes::nodes(before);
      if (i == items_) {
        s_.mark_begin(marks) = items_;
        return;
      }
      const std::int32_t row = row_at(i);
      const bool first = begins_mark(i);
      s_.item(row) = i;
      s_.mark(i) = first ? marks : marks - 1;
      if (first) s_.mark_begin(marks) = i;
      const std::int32_t owner = from_.owner(row);
      if (owner < 0) return;
      if (i == 0 || from_.owner(row_at(i - 1)) != owner) s_.items_begin(owner) = i;
      if (i + 1 == items_ || from_.owner(row_at(i + 1)) != owner) s_.items_end(owner) = i + 1;
    });
  }
  TRUNKLINE_HOST_DEVICE bool begins_mark(std::int32_t i) const {
    return i == 0 || s_.keys()[i - 1] >> kRowBits != s_.keys()[i] >> kRowBits;
  }

  // Of an owner: its first mark, and how many marks are before its end; there may be one more at its end.
  TRUNKLINE_HOST_DEVICE bool has_items(std::int32_t owner) const { return s_.items_end(owner) > 0; }
  TRUNKLINE_HOST_DEVICE std::int32_t first_mark(std::int32_t owner) const { return s_.mark(s_.items_begin(owner)); }
  TRUNKLINE_HOST_DEVICE std::int32_t token_of(std::int32_t mark) const {
    return from_.shared(row_at(s_.mark_begin(mark)));
  }
  TRUNKLINE_HOST_DEVICE bool has_mark_at_end(std::int32_t owner) const {
    return has_items(owner) && from_.shared(row_at(s_.items_end(owner) - 1)) == from_.kv_len(owner);
  }
  TRUNKLINE_HOST_DEVICE std::int32_t cuts(std::int32_t owner) const {
    if (!has_items(owner)) return 0;
    const std::int32_t marks = s_.mark(s_.items_end(owner) - 1) + 1 - first_mark(owner);
    return marks - (has_mark_at_end(owner) ? 1 : 0);
  }
  /// Rows that end in an owner's nodes, itself included.
  TRUNKLINE_HOST_DEVICE std::int32_t ends(std::int32_t owner) const {
    return 1 + s_.ends_before(s_.items_end(owner)) - s_.ends_before(s_.items_begin(owner));
  }

  /// Sizes of owners with all below them, from the deepest up. \return the level of that
  template <class Block>
  TRUNKLINE_HOST_DEVICE std::int32_t add_up_sizes(Block& block) {
    const std::int32_t deepest = block.greatest(from_.rows, std::int32_t{0}, [&](std::int32_t row) {
      if (owns(row)) s_.size(row) = TeamSizes::of(ends(row), cuts(row) + 1);
      return from_.level(row);
    });
    for (std::int32_t level = deepest; level > 0; --level) {
      block.each_warp(ceil_div(items_, Block::kLanes), [&](std::int32_t run, const auto& lanes) {
        add_to_owners<Block>(level, run * Block::kLanes, lanes);
      });
    }
    return deepest;
  }

  /// Adds the sizes of those of a warp's items that are of a level to their owners'. As items lie by owner, each owner
  /// is added to once.
  template <class Block, class Lanes>
  TRUNKLINE_HOST_DEVICE void add_to_owners(std::int32_t level, std::int32_t begin, const Lanes& lanes) {
    const std::int32_t i = begin + lanes.index();
    const std::int32_t row = i < items_ ? row_at(i) : -1;
    const bool counts = row >= 0 && from_.level(row) == level;
    if (!lanes.any(counts)) return;
    const std::uint64_t size = counts ? s_.size(row) : 0;
    std::uint64_t total = 0;
    const std::uint64_t before = sum_before(lanes, size, total);
    const std::int32_t owner = row < 0 ? -1 : from_.owner(row);
    const std::int32_t first = owner < 0 ? 0 : most(s_.items_begin(owner) - begin, 0);
    const std::uint64_t of_owner = before + size - lanes.from(before, first);
    const bool is_last = owner >= 0 && (lanes.index() + 1 == lanes.count() || i + 1 == s_.items_end(owner));
    if (is_last && of_owner != 0) Block::fetch_add(s_.size(owner), of_owner);
  }

  /// Prefix sums over the items that own tokens, in s_.before.
  template <class Block>
  TRUNKLINE_HOST_DEVICE void sum_sizes(Block& block) {
    const auto size = [&](std::int32_t i) {
      const std::int32_t row = row_at(i);
      return owns(row) ? s_.size(row) : 0;
    };
    block.template scan<std::uint64_t>(items_, size,
                                       [&](std::int32_t i, std::uint64_t before) { s_.before(i) = before; });
  }

  /// Where each owner's rows and nodes begin, and its depth, from the roots down.
  template <class Block>
  TRUNKLINE_HOST_DEVICE void place_owners(Block& block, std::int32_t deepest) {
    block.each(from_.rows, [&](std::int32_t row) {
      if (!owns(row)) return;
      const std::int32_t i = s_.item(row);
      const std::int32_t owner = from_.owner(row);
      const std::int32_t mark = s_.mark(i);
      const std::int32_t marks_begin = s_.mark_begin(mark);
      const std::uint64_t at_mark = s_.before(i) - s_.before(marks_begin);
      s_.depth(row) = owner < 0 ? 0 : mark - first_mark(owner) + 1;
      if (owner < 0) {
        s_.start(row) = at_mark;
        return;
      }
      const std::uint64_t at_later_marks = s_.before(s_.items_end(owner)) - s_.before(s_.mark_begin(mark + 1));
      s_.start(row) = TeamSizes::of(ends(owner), cuts(owner) + 1) + at_later_marks + at_mark;
    });
    for (std::int32_t level = 1; level <= deepest; ++level) {
      block.each(from_.rows, [&](std::int32_t row) {
        if (from_.level(row) != level) return;
        s_.start(row) += s_.start(from_.owner(row));
        s_.depth(row) += s_.depth(from_.owner(row));
      });
    }
  }

  /// An owner, read once whatever is written.
  struct Owned {
    std::int32_t row;
    std::int32_t items_begin;
    std::int32_t items_end;
    std::int32_t first_mark;
    std::int32_t cuts;
    std::int32_t ends;
    bool mark_at_end;
    std::uint64_t start;
  };
  TRUNKLINE_HOST_DEVICE Owned owned_by(std::int32_t row) const {
    Owned owned{row, 0, 0, 0, 0, 1, false, s_.start(row)};
    if (!has_items(row)) return owned;
    owned.items_begin = s_.items_begin(row);
    owned.items_end = s_.items_end(row);
    owned.first_mark = s_.mark(owned.items_begin);
    owned.mark_at_end = has_mark_at_end(row);
    owned.cuts = s_.mark(owned.items_end - 1) + 1 - owned.first_mark - (owned.mark_at_end ? 1 : 0);
    owned.ends = 1 + s_.ends_before(owned.items_end) - s_.ends_before(owned.items_begin);
    return owned;
  }

  TRUNKLINE_HOST_DEVICE std::int32_t node_of(const Owned& owner, std::int32_t cut) const {
    return TeamSizes::nodes(owner.start) + cut;
  }
  TRUNKLINE_HOST_DEVICE std::int32_t parent_of_first_node(std::int32_t owner) const {
    const std::int32_t above = from_.owner(owner);
    if (above < 0) return -1;
    return TeamSizes::nodes(s_.start(above)) + s_.mark(s_.item(owner)) - first_mark(above);
  }
  /// Of the owner's items, those that end inside before this one.
  TRUNKLINE_HOST_DEVICE std::int32_t ends_before(const Owned& owner, std::int32_t item) const {
    return item == owner.items_begin ? 0 : s_.ends_before(item) - s_.ends_before(owner.items_begin);
  }

  TRUNKLINE_HOST_DEVICE std::int32_t begin_of(const Owned& owner, std::int32_t cut) const {
    return cut == 0 ? from_.shared(owner.row) : token_of(owner.first_mark + cut - 1);
  }
  /// The node that an owner has up to its `cut`-th mark, or to its end. \param item the first item of that mark, or
  /// past the owner's last \return requests that are in it
  TRUNKLINE_HOST_DEVICE std::int32_t write_node(const Owned& owner, std::int32_t cut, std::int32_t end,
                                                std::int32_t item) {
    const std::int32_t begin = begin_of(owner, cut);
    const std::int32_t parent = cut == 0 ? parent_of_first_node(owner.row) : node_of(owner, cut - 1);
    const std::uint64_t below = item == owner.items_end ? 0 : s_.before(owner.items_end) - s_.before(item);
    const std::uint64_t past = owner.start + TeamSizes::of(owner.ends, owner.cuts + 1) + below;
    const Range requests = {TeamSizes::rows(owner.start) + ends_before(owner, item), TeamSizes::rows(past)};
    store_whole(forest_.nodes[node_of(owner, cut)], {.parent = parent,
                                                     .begin = begin,
                                                     .end = end,
                                                     .row = owner.row,
                                                     .requests = requests,
                                                     .last = TeamSizes::nodes(past),
                                                     .depth = s_.depth(owner.row) + cut});
    return requests.end - requests.begin;
  }

  // Tokens of all rows, of all nodes, and of those that one row has alone: above so many bits, rows that are not alike.
  enum : std::size_t { kTotal, kDistinct, kAlone, kSums };
  static constexpr int kUnlikeBits = 47;  // of 2^16 rows with 2^31 tokens

  template <class Block, class Keep>
  TRUNKLINE_HOST_DEVICE TeamWords<kSums> write_rows(Block& block, Keep keep) {
    return block.sum(from_.rows, TeamWords<kSums>{}, [&](std::int32_t row) {
      const std::int32_t queries = forest_.query_begin[row + 1] - forest_.query_begin[row];
      const std::int32_t alone = owns(row) ? write_owner(row) : 0;
      keep(row, alone > 0);
      if (from_.owner(row) >= 0) write_item(s_.item(row), row);
      const std::int32_t kv_len = from_.kv_len(row);
      forest_.kv_len[row] = kv_len;
      const bool alike = alone > 0 && queries == 1;
      return TeamWords<kSums>{
          {kv_len, std::int64_t{kv_len} - from_.shared(row), (std::int64_t{alike ? 0 : 1} << kUnlikeBits) + alone}};
    });
  }

  /// An owner's last node, and the owner itself, which ends in it before all others.
  /// \return the node's tokens, if it is alone there; else 0
  TRUNKLINE_HOST_DEVICE std::int32_t write_owner(std::int32_t row) {
    const Owned owner = owned_by(row);
    const std::int32_t kv_len = from_.kv_len(row);
    const std::int32_t item = owner.mark_at_end ? s_.mark_begin(owner.first_mark + owner.cuts) : owner.items_end;
    const std::int32_t requests = write_node(owner, owner.cuts, kv_len, item);
    const std::int32_t index = TeamSizes::rows(owner.start) + ends_before(owner, item);
    forest_.order[index] = row;
    forest_.node[row] = node_of(owner, owner.cuts);
    if (forest_.tokens != nullptr) {
      forest_.tokens[index] = kv_len;
      forest_.shared[index] = from_.shared(row);
    }
    return requests == 1 ? kv_len - begin_of(owner, owner.cuts) : 0;
  }

  /// The node up to the mark that an item is the first at, and the item's row where it ends inside.
  TRUNKLINE_HOST_DEVICE void write_item(std::int32_t i, std::int32_t row) {
    const Owned owner = owned_by(from_.owner(row));
    const std::int32_t cut = s_.mark(i) - owner.first_mark;
    const std::int32_t token = from_.shared(row);
    const bool at_end = token == from_.kv_len(owner.row);
    if (!at_end && s_.mark_begin(s_.mark(i)) == i) write_node(owner, cut, token, i);
    if (owns(row)) return;
    const std::int32_t rank = ends_before(owner, i) + (at_end ? 1 : 0);
    forest_.order[TeamSizes::rows(owner.start) + rank] = row;
    forest_.node[row] = node_of(owner, cut);
  }

  template <class Block>
  TRUNKLINE_HOST_DEVICE void write_empty_rows(Block& block) {
    const auto is_empty = [&](std::int32_t row) { return from_.kv_len(row) == 0; };
    block.select(from_.rows, is_empty, [&](std::int32_t k, std::int32_t row) {
      forest_.order[items_ + k] = row;
      forest_.node[row] = -1;
    });
  }

  RowSharing from_;
  LayoutScratch s_;
  TeamForest forest_;
  std::int32_t roots_ = 0;
  std::int32_t items_ = 0;
};

}  // namespace trunkline
