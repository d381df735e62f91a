// The spans of a plan: what each part of a pack reads of each of its fragments. Equal to what PlanEmitter makes.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/cut_choice.hpp"
#include "plan/device/draft_masks.hpp"
#include "plan/device/forest_layout.hpp"
#include "plan/device/packs.hpp"
#include "plan/device/requests.hpp"
#include "plan/slices.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// Where a pack is cut. Tokens are counted as cuts count them.
struct PackCuts {
  std::int64_t tokens = 0;
  std::int32_t parts = 1;

  TRUNKLINE_HOST_DEVICE std::int64_t begin(std::int32_t part) const {
    return part_begin(tokens, CutChoice::kGranule, parts, part);
  }
  /// The part that reads a token.
  TRUNKLINE_HOST_DEVICE std::int32_t part_of(std::int64_t token) const {
    if (parts == 1) return 0;
    // The last part whose begin, granules * part / parts rounded down, is at most the token's granule.
    const std::int64_t granules = tokens / CutChoice::kGranule;
    const std::int64_t granule = token / CutChoice::kGranule;
    const std::int64_t part = ((granule + 1) * parts - 1) / granules;
    return static_cast<std::int32_t>(least<std::int64_t>(part, parts - 1));
  }
};

/// A span before it has a place in the plan.
struct WalkedSpan {
  std::int32_t part = 0;
  std::int32_t row = 0;
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::uint32_t flags = 0;
  Range readers = {};     ///< positions
  Range drafts = {0, 0};  ///< of its row, each of whose masks is a mask of the plan; empty: `readers` see it all
  bool masked = false;    ///< not all queries of the pack see all of it
};

/// Visits the spans of a pack's fragments.
class SpanWalk {
 public:
  TRUNKLINE_HOST_DEVICE SpanWalk(const DeviceForest& forest, const DeviceRequests& requests, const Slices& slices,
                                 const PlannedPack& pack, const PackGroup& group)
      : forest_(forest),
        requests_(requests),
        slices_(group.sliced ? slices : Slices{}),
        pack_(pack),
        cuts_{group.cut_tokens, pack.parts},
        shares_group_(group.positions.end - group.positions.begin > pack.queries()) {}

  TRUNKLINE_HOST_DEVICE const PackCuts& cuts() const { return cuts_; }
  /// Whether other packs have the same group: then each reads only what some of its queries see.
  TRUNKLINE_HOST_DEVICE bool shares_group() const { return shares_group_; }
  /// Whether not all queries of the pack are readers.
  TRUNKLINE_HOST_DEVICE bool is_masked(Range readers) const {
    return readers.begin > pack_.positions.begin || readers.end < pack_.positions.end;
  }

  /// visit(span) for each span of a fragment, by rising part; and begin_part(part) before those of a part whose first
  /// token the fragment has.
  template <class Visit, class BeginPart>
  TRUNKLINE_HOST_DEVICE void walk(const Fragment& fragment, Visit visit, BeginPart begin_part) const {
    const std::int64_t begin = fragment.first_token;
    const std::int64_t end = begin + fragment.length;
    if (fragment.length == 0 && !fragment.open_ended) return;
    if (shares_group_ && !touches(fragment.readers)) return;
    // An empty end belongs to the part that holds the token before it.
    const std::int32_t last = end == 0 ? 0 : cuts_.part_of(end - 1);
    std::int32_t part = fragment.length == 0 ? last : cuts_.part_of(begin);
    TRUNKLINE_ROLLED
    for (; part <= last; ++part) {
      const std::int64_t from = most(begin, cuts_.begin(part));
      const std::int64_t to = least(end, cuts_.begin(part + 1));
      if (fragment.length > 0 && from == cuts_.begin(part)) begin_part(part);
      Piece piece;
      piece.holds_begin = fragment.length == 0 || from == begin;
      piece.begin = piece.holds_begin ? fragment.begin : slices_.place(fragment.begin, from - begin);
      const bool ends = fragment.length == 0 || to == end;
      piece.end = ends ? fragment.end : slices_.place(fragment.begin, to - begin);
      piece.open = fragment.open_ended && ends;
      if (forest_.drafts(fragment.row) > 0) {
        walk_drafts(fragment, part, piece, visit);
      } else {
        visit(span_of(fragment, part, piece.begin, piece.open ? 0 : piece.end, piece.open));
      }
    }
  }

 private:
  /// What a part reads of a fragment, in token positions at planning time.
  struct Piece {
    std::int32_t begin = 0;
    std::int32_t end = 0;
    bool open = false;
    bool holds_begin = false;  // of the fragment
  };

  /// Also of a request without queries, between those of the pack.
  TRUNKLINE_HOST_DEVICE bool touches(Range readers) const {
    return readers.begin < pack_.positions.end && pack_.positions.begin < readers.end;
  }
  /// Queries of the pack's two halves that are among some positions.
  TRUNKLINE_HOST_DEVICE bool in_both_halves(Range readers) const {
    const std::int32_t middle = pack_.positions.begin + pack_.first_half;
    return pack_.first_half > 0 && most(readers.begin, pack_.positions.begin) < least(readers.end, middle) &&
           most(readers.begin, middle) < least(readers.end, pack_.positions.end);
  }

  TRUNKLINE_HOST_DEVICE WalkedSpan span_of(const Fragment& fragment, std::int32_t part, std::int32_t begin,
                                           std::int32_t end, bool open) const {
    WalkedSpan span;
    span.part = part;
    span.row = fragment.row;
    span.begin = begin;
    span.end = end;
    span.flags = open ? kSpanEndFromEnd : kSpanAbsolute;
    if (in_both_halves(fragment.readers)) span.flags |= kSpanBothHalves;
    span.readers = fragment.readers;
    span.masked = is_masked(fragment.readers);
    return span;
  }

  // Of a row with a draft tree the past ends where the drafts begin, wherever a policy has cut: read by position, a
  // draft would stay in a plan as the past of a later step, and be seen by all.
  template <class Visit>
  TRUNKLINE_HOST_DEVICE void walk_drafts(const Fragment& fragment, std::int32_t part, const Piece& piece,
                                         Visit visit) const {
    const std::int32_t queries = forest_.queries(fragment.row);
    const std::int32_t past = forest_.kv_len[fragment.row] - queries;  // negative in an empty request
    const std::int32_t fragment_begin = fragment.open_ended ? least(fragment.begin, past) : fragment.begin;
    const std::int32_t begin = piece.holds_begin ? least(piece.begin, fragment_begin) : piece.begin;
    // The piece that reads the last token before the drafts stretches with the past.
    const std::int32_t last_of_past = most(past - 1, fragment_begin);
    if (fragment.open_ended && begin <= last_of_past && last_of_past < piece.end) {
      visit(span_of(fragment, part, most(begin, 0), -queries, true));
    } else if (begin < least(piece.end, past)) {
      visit(span_of(fragment, part, begin, least(piece.end, past), false));
    }
    if (!fragment.open_ended || piece.end <= past) return;
    const DraftMasks masks(forest_, requests_, fragment.row, meet(fragment.readers, pack_.positions),
                           pack_.positions.begin);
    const Range seen = masks.seen({most(begin, past) - past, piece.end - past});
    if (seen.begin >= seen.end) return;
    WalkedSpan span;
    span.part = part;
    span.row = fragment.row;
    span.begin = seen.begin - queries;
    span.end = seen.end - queries;
    span.flags = kSpanBeginFromEnd | kSpanEndFromEnd | kSpanTokenMask;
    span.readers = meet(fragment.readers, pack_.positions);
    span.drafts = seen;
    span.masked = true;
    if (pack_.first_half > 0 && masks.seen_by_both(seen, pack_.first_half)) span.flags |= kSpanBothHalves;
    visit(span);
  }
  TRUNKLINE_HOST_DEVICE static Range meet(Range a, Range b) {
    const std::int32_t begin = most(a.begin, b.begin);
    return {begin, most(begin, least(a.end, b.end))};
  }

  const DeviceForest& forest_;
  const DeviceRequests& requests_;
  const Slices slices_;
  const PlannedPack& pack_;
  const PackCuts cuts_;
  const bool shares_group_;
};

/// What spans add to the lists of a plan.
struct SpanCounts {
  std::int32_t spans = 0;
  std::int32_t masks = 0;    ///< but for those of drafts
  std::int32_t windows = 0;  ///< spans of drafts

  TRUNKLINE_HOST_DEVICE static SpanCounts of(const WalkedSpan& span) {
    const bool window = span.drafts.begin < span.drafts.end;
    return {1, span.masked && !window ? 1 : 0, window ? 1 : 0};
  }
  TRUNKLINE_HOST_DEVICE friend SpanCounts operator+(const SpanCounts& a, const SpanCounts& b) {
    return {a.spans + b.spans, a.masks + b.masks, a.windows + b.windows};
  }
};

/// Of one fragment.
TRUNKLINE_HOST_DEVICE inline SpanCounts count_spans(const SpanWalk& walk, const Fragment& fragment) {
  SpanCounts counts;
  walk.walk(
      fragment, [&](const WalkedSpan& span) { counts = counts + SpanCounts::of(span); }, [](std::int32_t) {});
  return counts;
}

/// visit(span, counts of those before it in the pack) for each span of a pack; begin_part(part, spans before it) for
/// each part that has tokens.
template <class Group, class Visit, class BeginPart>
TRUNKLINE_HOST_DEVICE SpanCounts visit_spans(Group& group, const SpanWalk& walk, const Fragment* fragments,
                                             std::int32_t count, Visit visit, BeginPart begin_part) {
  return group.exclusive_scan(
      count, [&](std::int32_t i) { return count_spans(walk, fragments[i]); },
      [&](std::int32_t i, SpanCounts before) {
        walk.walk(
            fragments[i],
            [&](const WalkedSpan& span) {
              visit(span, before);
              before = before + SpanCounts::of(span);
            },
            [&](std::int32_t part) { begin_part(part, before.spans); });
      });
}

}  // namespace trunkline
