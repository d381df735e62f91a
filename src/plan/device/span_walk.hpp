// The spans of a plan: the tokens that each part of a pack reads of each of its KV segments. Equal to the spans of the
// host's PlanEmitter.
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

/// The cuts of a pack. Tokens are counted as cuts count them.
struct PackCuts {
  std::int64_t tokens = 0;
  std::int32_t parts = 1;

  TRUNKLINE_HOST_DEVICE std::int64_t begin(std::int32_t part) const {
    return part_begin(tokens, CutChoice::kGranule, parts, part);
  }
  /// Returns the part that reads a token.
  TRUNKLINE_HOST_DEVICE std::int32_t part_of(std::int64_t token) const {
    if (parts == 1) return 0;
    // The last part whose begin, granules * part / parts rounded down, is at most the token's granule.
    const std::int64_t granules = tokens / CutChoice::kGranule;
    const std::int64_t granule = token / CutChoice::kGranule;
    const std::int64_t part = ((granule + 1) * parts - 1) / granules;
    return static_cast<std::int32_t>(min<std::int64_t>(part, parts - 1));
  }
};

/// A span before it has an index in the plan.
struct WalkedSpan {
  std::int32_t part = 0;
  std::int32_t row = 0;
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::uint32_t flags = 0;
  Range readers = {};  ///< range of query positions
  Range drafts = {0,
                  0};   ///< drafts of the row, each with a mask in the plan; empty: `readers` attend to the whole span
  bool masked = false;  ///< some of it is not visible to some query of the pack
};

/// Visits the spans of a pack's KV segments.
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
  /// Whether other packs have the same group: then each reads only KV that is visible to one of its queries.
  TRUNKLINE_HOST_DEVICE bool shares_group() const { return shares_group_; }
  /// Whether some query of the pack is not a reader.
  TRUNKLINE_HOST_DEVICE bool is_masked(Range readers) const {
    return readers.begin > pack_.positions.begin || readers.end < pack_.positions.end;
  }

  /// Calls visit(span) for each span of a KV segment, by ascending part, and begin_part(part) before the spans of a
  /// part whose first token is in the KV segment.
  template <class Visit, class BeginPart>
  TRUNKLINE_HOST_DEVICE void walk(const KvSegment& kv_segment, Visit visit, BeginPart begin_part) const {
    const std::int64_t begin = kv_segment.first_token;
    const std::int64_t end = begin + kv_segment.length;
    if (kv_segment.length == 0 && !kv_segment.open_ended) return;
    if (shares_group_ && !touches(kv_segment.readers)) return;
    // An empty open end belongs to the part that holds the token before it.
    const std::int32_t last = end == 0 ? 0 : cuts_.part_of(end - 1);
    std::int32_t part = kv_segment.length == 0 ? last : cuts_.part_of(begin);
    TRUNKLINE_ROLLED
    for (; part <= last; ++part) {
      const std::int64_t from = max(begin, cuts_.begin(part));
      const std::int64_t to = min(end, cuts_.begin(part + 1));
      if (kv_segment.length > 0 && from == cuts_.begin(part)) begin_part(part);
      PartTokens tokens;
      tokens.holds_begin = kv_segment.length == 0 || from == begin;
      tokens.begin = tokens.holds_begin ? kv_segment.begin : slices_.place(kv_segment.begin, from - begin);
      const bool ends = kv_segment.length == 0 || to == end;
      tokens.end = ends ? kv_segment.end : slices_.place(kv_segment.begin, to - begin);
      tokens.open = kv_segment.open_ended && ends;
      if (forest_.drafts(kv_segment.row) > 0) {
        walk_drafts(kv_segment, part, tokens, visit);
      } else {
        visit(span_of(kv_segment, part, tokens.begin, tokens.open ? 0 : tokens.end, tokens.open));
      }
    }
  }

 private:
  /// The tokens that a part reads of a KV segment, as positions in the row at planning time.
  struct PartTokens {
    std::int32_t begin = 0;
    std::int32_t end = 0;
    bool open = false;
    bool holds_begin = false;  // the KV segment begins in this part
  };

  /// Whether readers overlap with the pack. True for a request without queries between those of the pack.
  TRUNKLINE_HOST_DEVICE bool touches(Range readers) const {
    return readers.begin < pack_.positions.end && pack_.positions.begin < readers.end;
  }
  /// Whether both halves of the pack have queries among the readers.
  TRUNKLINE_HOST_DEVICE bool in_both_halves(Range readers) const {
    const std::int32_t middle = pack_.positions.begin + pack_.first_half;
    return pack_.first_half > 0 && max(readers.begin, pack_.positions.begin) < min(readers.end, middle) &&
           max(readers.begin, middle) < min(readers.end, pack_.positions.end);
  }

  TRUNKLINE_HOST_DEVICE WalkedSpan span_of(const KvSegment& kv_segment, std::int32_t part, std::int32_t begin,
                                           std::int32_t end, bool open) const {
    WalkedSpan span;
    span.part = part;
    span.row = kv_segment.row;
    span.begin = begin;
    span.end = end;
    span.flags = open ? kSpanEndFromEnd : kSpanAbsolute;
    if (in_both_halves(kv_segment.readers)) span.flags |= kSpanBothHalves;
    span.readers = kv_segment.readers;
    span.masked = is_masked(kv_segment.readers);
    return span;
  }

  // Visits the spans of a row with a draft tree. The past ends where the drafts begin, wherever a policy has cut: if
  // drafts were read by position, a reused plan would treat them as the past of a later step, visible to all queries.
  template <class Visit>
  TRUNKLINE_HOST_DEVICE void walk_drafts(const KvSegment& kv_segment, std::int32_t part, const PartTokens& tokens,
                                         Visit visit) const {
    const std::int32_t queries = forest_.queries(kv_segment.row);
    const std::int32_t past = forest_.kv_len[kv_segment.row] - queries;  // negative in an empty request
    const std::int32_t kv_segment_begin = kv_segment.open_ended ? min(kv_segment.begin, past) : kv_segment.begin;
    const std::int32_t begin = tokens.holds_begin ? min(tokens.begin, kv_segment_begin) : tokens.begin;
    // The part that reads the last token before the drafts grows with the past.
    const std::int32_t last_of_past = max(past - 1, kv_segment_begin);
    if (kv_segment.open_ended && begin <= last_of_past && last_of_past < tokens.end) {
      visit(span_of(kv_segment, part, max(begin, 0), -queries, true));
    } else if (begin < min(tokens.end, past)) {
      visit(span_of(kv_segment, part, begin, min(tokens.end, past), false));
    }
    if (!kv_segment.open_ended || tokens.end <= past) return;
    const DraftMasks masks(forest_, requests_, kv_segment.row, intersect(kv_segment.readers, pack_.positions),
                           pack_.positions.begin);
    const Range visible = masks.visible_range({max(begin, past) - past, tokens.end - past});
    if (visible.begin >= visible.end) return;
    WalkedSpan span;
    span.part = part;
    span.row = kv_segment.row;
    span.begin = visible.begin - queries;
    span.end = visible.end - queries;
    span.flags = kSpanBeginFromEnd | kSpanEndFromEnd | kSpanTokenMask;
    span.readers = intersect(kv_segment.readers, pack_.positions);
    span.drafts = visible;
    span.masked = true;
    if (pack_.first_half > 0 && masks.visible_to_both(visible, pack_.first_half)) span.flags |= kSpanBothHalves;
    visit(span);
  }
  TRUNKLINE_HOST_DEVICE static Range intersect(Range a, Range b) {
    const std::int32_t begin = max(a.begin, b.begin);
    return {begin, max(begin, min(a.end, b.end))};
  }

  const DeviceForest& forest_;
  const DeviceRequests& requests_;
  const Slices slices_;
  const PlannedPack& pack_;
  const PackCuts cuts_;
  const bool shares_group_;
};

/// Entries that spans add to the lists of a plan.
struct SpanCounts {
  std::int32_t spans = 0;
  std::int32_t masks = 0;    ///< without the masks of drafts
  std::int32_t windows = 0;  ///< spans of drafts

  TRUNKLINE_HOST_DEVICE static SpanCounts of(const WalkedSpan& span) {
    const bool window = span.drafts.begin < span.drafts.end;
    return {1, span.masked && !window ? 1 : 0, window ? 1 : 0};
  }
  TRUNKLINE_HOST_DEVICE friend SpanCounts operator+(const SpanCounts& a, const SpanCounts& b) {
    return {a.spans + b.spans, a.masks + b.masks, a.windows + b.windows};
  }
};

/// Counts the spans of one KV segment.
TRUNKLINE_HOST_DEVICE inline SpanCounts count_spans(const SpanWalk& walk, const KvSegment& kv_segment) {
  SpanCounts counts;
  walk.walk(
      kv_segment, [&](const WalkedSpan& span) { counts = counts + SpanCounts::of(span); }, [](std::int32_t) {});
  return counts;
}

/// Calls visit(span, counts of the spans before it in the pack) for each span of a pack, and begin_part(part, spans
/// before it) for each part that has tokens.
template <class Group, class Visit, class BeginPart>
TRUNKLINE_HOST_DEVICE SpanCounts visit_spans(Group& group, const SpanWalk& walk, const KvSegment* kv_segments,
                                             std::int32_t count, Visit visit, BeginPart begin_part) {
  return group.exclusive_scan(
      count, [&](std::int32_t i) { return count_spans(walk, kv_segments[i]); },
      [&](std::int32_t i, SpanCounts before) {
        walk.walk(
            kv_segments[i],
            [&](const WalkedSpan& span) {
              visit(span, before);
              before = before + SpanCounts::of(span);
            },
            [&](std::int32_t part) { begin_part(part, before.spans); });
      });
}

}  // namespace trunkline
