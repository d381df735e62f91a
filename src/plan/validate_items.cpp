#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "base/check.hpp"
#include "plan/validate.hpp"

namespace trunkline {
namespace {

bool in_range(Range range, std::size_t size) {
  return range.begin >= 0 && range.begin <= range.end && static_cast<std::size_t>(range.end) <= size;
}

/// One past the highest bit that is set.
std::int32_t mask_width(const QueryMask& mask) {
  return mask.words[1] != 0 ? 64 + static_cast<std::int32_t>(std::bit_width(mask.words[1]))
                            : static_cast<std::int32_t>(std::bit_width(mask.words[0]));
}

/// Queries of an item are known, few enough, and each there once. `last_item` holds the last item that listed each
/// query.
Violation check_item_queries(const Plan& plan, std::int32_t index, std::vector<std::int32_t>& last_item) {
  const WorkItem& item = plan.items[static_cast<std::size_t>(index)];
  if (!in_range(item.queries, plan.item_queries.size())) return concat("items[", index, "].queries is out of range");
  if (item.queries.size() == 0 || item.queries.size() > kMaxItemQueries) {
    return concat("items[", index, "] has ", item.queries.size(), " queries; 1 to ", kMaxItemQueries, " are allowed");
  }
  const std::int64_t rows = std::int64_t{item.queries.size()} * plan.shape.group_size();
  if (rows > item.tile.m) return concat("items[", index, "] has ", rows, " rows in a tile of ", item.tile.m);
  const std::int32_t larger_half = std::max(item.first_half, item.queries.size() - item.first_half);
  if (item.first_half < 0 || item.first_half > item.queries.size() ||
      (item.first_half > 0 && std::int64_t{larger_half} * plan.shape.group_size() > item.tile.m / 2)) {
    return concat("items[", index, "] has a first half of ", item.first_half, " of ", item.queries.size(),
                  " queries in a tile of ", item.tile.m, " rows");
  }
  for (std::int32_t i = item.queries.begin; i < item.queries.end; ++i) {
    const std::int32_t query = plan.item_queries[static_cast<std::size_t>(i)];
    if (query < 0 || static_cast<std::size_t>(query) >= plan.queries.size()) {
      return concat("items[", index, "] lists query ", query, "; there are ", plan.queries.size());
    }
    if (last_item[static_cast<std::size_t>(query)] == index)
      return concat("items[", index, "] lists query ", query, " twice");
    last_item[static_cast<std::size_t>(query)] = index;
  }
  return std::nullopt;
}

Violation check_span_slot(const KvSpan& span, const Forest& forest, const RowOfSlot& row_of_slot) {
  const auto found = row_of_slot.find(span.slot);
  if (found == row_of_slot.end()) return concat("names slot ", span.slot, ", which no request has");
  const ForestRequest& request = forest.requests[static_cast<std::size_t>(found->second)];
  if (span.generation != request.generation) {
    return concat("names generation ", span.generation, " of slot ", span.slot, ", which is at ", request.generation);
  }
  return std::nullopt;
}

/// Bounds make sense by themselves, and so they do at every greater length. An empty request that gets tokens has one
/// for each of its query tokens at least.
Violation check_span_bounds(const KvSpan& span, const ForestRequest& request) {
  const std::int32_t kv_len = request.kv_len == 0 && span.open_ended() ? request.queries : request.kv_len;
  if ((span.flags & ~std::uint32_t{kSpanBeginFromEnd | kSpanEndFromEnd | kSpanTokenMask | kSpanBothHalves}) != 0) {
    return concat("has unknown flags ", span.flags);
  }
  const bool begin_moves = (span.flags & kSpanBeginFromEnd) != 0;
  const bool end_moves = (span.flags & kSpanEndFromEnd) != 0;
  if (begin_moves && !end_moves) return "has a begin that moves and an end that does not";
  if ((begin_moves && span.begin > 0) || (end_moves && span.end > 0)) return "reaches past the live end";
  const std::int64_t begin = std::int64_t{begin_moves ? kv_len : 0} + span.begin;
  const std::int64_t end = std::int64_t{end_moves ? kv_len : 0} + span.end;
  if (begin < 0) return concat("begins at ", begin, " at the present length");
  if (end < begin) return concat("is inverted at the present length: [", begin, ", ", end, ")");
  if (end > kv_len) return concat("ends at ", end, ", past the ", kv_len, " tokens of its slot");
  return std::nullopt;
}

Violation check_span_masks(const Plan& plan, const KvSpan& span, std::int32_t item_queries) {
  std::int64_t masks = span.mask < 0 ? 0 : 1;
  if ((span.flags & kSpanTokenMask) != 0) {
    const bool begin_moves = (span.flags & kSpanBeginFromEnd) != 0;
    if (begin_moves != span.open_ended()) return "has a mask for each token, but no fixed number of tokens";
    if (span.mask < 0) return "has token masks, but no first one";
    masks = std::int64_t{span.end} - span.begin;
  }
  if (span.mask < -1 || span.mask + masks > static_cast<std::int64_t>(plan.masks.size())) {
    return concat("has mask ", span.mask, " and needs ", masks, "; there are ", plan.masks.size());
  }
  for (std::int64_t i = 0; i < masks; ++i) {
    if (mask_width(plan.masks[static_cast<std::size_t>(span.mask + i)]) > item_queries) {
      return concat("has mask ", span.mask + i, " with bits beyond the item's ", item_queries, " queries");
    }
  }
  return std::nullopt;
}

/// A kernel passes over, in each half, the tokens that it takes to be the other's own.
Violation check_halves(const Plan& plan, const KvSpan& span, const WorkItem& item) {
  bool first = false;
  bool second = false;
  const bool token_masks = (span.flags & kSpanTokenMask) != 0;
  const std::int32_t masks = span.mask < 0 ? 0 : token_masks ? span.end - span.begin : 1;
  for (std::int32_t query = 0; query < item.queries.size(); ++query) {
    bool attends = masks == 0;
    for (std::int32_t i = 0; i < masks; ++i)
      attends = attends || plan.masks[static_cast<std::size_t>(span.mask + i)].test(query);
    if (attends) (query < item.first_half ? first : second) = true;
  }
  const bool both = item.first_half > 0 && first && second;
  if (both == ((span.flags & kSpanBothHalves) != 0)) return std::nullopt;
  return concat(both ? "is not marked" : "is marked", " as seen by both halves");
}

}  // namespace

Violation find_item_violation(const Plan& plan, const Forest& forest, const RowOfSlot& row_of_slot) {
  std::vector<std::int32_t> last_item(plan.queries.size(), -1);
  for (std::size_t index = 0; index < plan.items.size(); ++index) {
    const WorkItem& item = plan.items[index];
    if (Violation violation = check_item_queries(plan, static_cast<std::int32_t>(index), last_item)) return violation;
    if (!in_range(item.spans, plan.spans.size())) return concat("items[", index, "].spans is out of range");
    for (std::int32_t s = item.spans.begin; s < item.spans.end; ++s) {
      const KvSpan& span = plan.spans[static_cast<std::size_t>(s)];
      Violation violation = check_span_slot(span, forest, row_of_slot);
      if (!violation) {
        const std::int32_t row = row_of_slot.at(span.slot);
        violation = check_span_bounds(span, forest.requests[static_cast<std::size_t>(row)]);
      }
      if (!violation) violation = check_span_masks(plan, span, item.queries.size());
      if (!violation) violation = check_halves(plan, span, item);
      if (violation) return concat("spans[", s, "] of item ", index, " ", *violation);
    }
  }
  return std::nullopt;
}

}  // namespace trunkline
