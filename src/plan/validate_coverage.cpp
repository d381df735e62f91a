#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "base/check.hpp"
#include "plan/validate.hpp"

namespace trunkline {
namespace {

/// A span as one query reads it.
struct Reading {
  const KvSpan* span;
  std::int32_t bit;  // the query's place in the item
};

bool moves(const KvSpan& span) {
  return (span.flags & (kSpanBeginFromEnd | kSpanEndFromEnd)) != 0;
}

/// The one kind of span that grows with its request.
bool stretches(const KvSpan& span) {
  return (span.flags & (kSpanBeginFromEnd | kSpanEndFromEnd)) == kSpanEndFromEnd;
}

bool slides(const KvSpan& span) {
  return (span.flags & kSpanBeginFromEnd) != 0;
}

bool has_token_mask(const KvSpan& span) {
  return (span.flags & kSpanTokenMask) != 0;
}

class CoverageCheck {
 public:
  CoverageCheck(const Plan& plan, const Forest& forest, const RowOfSlot& row_of_slot)
      : plan_(plan), forest_(forest), row_of_slot_(row_of_slot), place_(forest.order.size()) {
    for (std::size_t i = 0; i < forest.order.size(); ++i) {
      place_[static_cast<std::size_t>(forest.order[i])] = static_cast<std::int32_t>(i);
    }
  }

  Violation find();

 private:
  const ForestRequest& request_of(std::int32_t slot) const {
    return forest_.requests[static_cast<std::size_t>(row_of_slot_.at(slot))];
  }
  const QueryMask& mask(std::int32_t index) const { return plan_.masks[static_cast<std::size_t>(index)]; }

  bool attends_to(const KvSpan& span, std::int32_t bit) const;
  Range sharers(const KvSpan& span) const;
  Violation check_readers(std::size_t item, const KvSpan& span);
  Violation check_query(std::size_t query);
  void find_ancestors(const Query& query, const ForestRequest& request);
  void collect_growths(const std::vector<Reading>& readings, const ForestRequest& request);
  void add_draft_passages(std::int64_t position, const ForestRequest& request);
  void collect_intervals(const std::vector<Reading>& readings, std::int32_t kv_len);
  Violation check_intervals(const Query& query, const ForestRequest& request, std::int32_t kv_len) const;

  const Plan& plan_;
  const Forest& forest_;
  const RowOfSlot& row_of_slot_;
  std::vector<std::int32_t> place_;             // by row: its index in Forest::order
  std::vector<std::vector<Reading>> readings_;  // by query
  std::vector<std::int32_t> growths_;           // of one query
  std::vector<Range> intervals_;                // that one query reads at one length
  std::vector<bool> ancestor_;                  // of one query: by query token, whether it is an ancestor or itself
};

bool CoverageCheck::attends_to(const KvSpan& span, std::int32_t bit) const {
  if (span.mask < 0) return true;
  if (!has_token_mask(span)) return mask(span.mask).test(bit);
  for (std::int32_t token = 0; token < span.end - span.begin; ++token) {
    if (mask(span.mask + token).test(bit)) return true;
  }
  return false;
}

/// Requests, as a range of Forest::order, that may read a span: for moving ones its own; for others the members of the
/// node that holds its last token, since they share all tokens up to there.
Range CoverageCheck::sharers(const KvSpan& span) const {
  const std::int32_t row = row_of_slot_.at(span.slot);
  const std::int32_t place = place_[static_cast<std::size_t>(row)];
  if (moves(span)) return {place, place + 1};
  if (span.begin == span.end) return {0, static_cast<std::int32_t>(forest_.order.size())};
  std::int32_t node = forest_.requests[static_cast<std::size_t>(row)].node;
  while (forest_.nodes[static_cast<std::size_t>(node)].begin >= span.end) {
    node = forest_.nodes[static_cast<std::size_t>(node)].parent;
  }
  return forest_.nodes[static_cast<std::size_t>(node)].requests;
}

Violation CoverageCheck::check_readers(std::size_t item, const KvSpan& span) {
  const Range allowed = sharers(span);
  const Range queries = plan_.items[item].queries;
  for (std::int32_t i = queries.begin; i < queries.end; ++i) {
    if (!attends_to(span, i - queries.begin)) continue;
    const auto query = static_cast<std::size_t>(plan_.item_queries[static_cast<std::size_t>(i)]);
    const std::int32_t place = place_[static_cast<std::size_t>(row_of_slot_.at(plan_.queries[query].slot))];
    if (place < allowed.begin || place >= allowed.end) {
      return concat("query ", query, " of slot ", plan_.queries[query].slot, " reads tokens of slot ", span.slot,
                    " in item ", item, " that the two do not share");
    }
    readings_[query].push_back({&span, i - queries.begin});
  }
  return std::nullopt;
}

/// Collects the growths of a request that are checked. All bounds are constants or the length plus a constant, and no
/// span is inverted now, so neither gap nor overlap of two spans that do not slide can come and go between no growth
/// and very much of it. A sliding span passes the constant bounds of other spans: each passage is checked, and the
/// growths on either side.
void CoverageCheck::collect_growths(const std::vector<Reading>& readings, const ForestRequest& request) {
  const std::int32_t kv_len = request.kv_len;
  const std::int32_t max_growth = std::numeric_limits<std::int32_t>::max() - kv_len;
  // An empty request that gets tokens has one for each of its query tokens at least.
  const std::int32_t min_growth = std::min(max_growth, kv_len == 0 ? std::max(request.queries, 1) : 1);
  growths_.assign({0, min_growth, max_growth});
  const auto add_passage = [&](std::int64_t growth) {
    for (std::int64_t g = growth - 1; g <= growth + 1; ++g) {
      if (g > min_growth && g < max_growth) growths_.push_back(static_cast<std::int32_t>(g));
    }
  };
  for (const Reading& window : readings) {
    if (!slides(*window.span)) continue;
    for (const Reading& other : readings) {
      if (slides(*other.span)) continue;
      for (const std::int32_t bound : {window.span->begin, window.span->end}) {
        add_passage(std::int64_t{other.span->begin} - bound - kv_len);
        if (!stretches(*other.span)) add_passage(std::int64_t{other.span->end} - bound - kv_len);
      }
    }
  }
  for (const Reading& reading : readings) {
    if (slides(*reading.span)) continue;
    add_draft_passages(reading.span->begin, request);
    if (!stretches(*reading.span)) add_draft_passages(reading.span->end, request);
  }
  std::sort(growths_.begin(), growths_.end());
  growths_.erase(std::unique(growths_.begin(), growths_.end()), growths_.end());
}

/// The drafts of a tree move as well: those that lie before a constant bound now pass it one by one.
void CoverageCheck::add_draft_passages(std::int64_t position, const ForestRequest& request) {
  if (!request.tree || request.kv_len == 0) return;
  const std::int64_t passed = position - (request.kv_len - request.queries);
  for (std::int64_t growth = 1; growth <= passed + 1; ++growth) growths_.push_back(static_cast<std::int32_t>(growth));
}

/// `kv_len` is the live length of the query's own request: spans of other slots do not move.
void CoverageCheck::collect_intervals(const std::vector<Reading>& readings, std::int32_t kv_len) {
  intervals_.clear();
  for (const Reading& reading : readings) {
    const KvSpan& span = *reading.span;
    const Range tokens = span.at(kv_len);
    if (!has_token_mask(span)) {
      if (tokens.size() > 0) intervals_.push_back(tokens);
      continue;
    }
    for (std::int32_t token = tokens.begin; token < tokens.end; ++token) {
      if (mask(span.mask + (token - tokens.begin)).test(reading.bit)) intervals_.push_back({token, token + 1});
    }
  }
  std::sort(intervals_.begin(), intervals_.end(), [](Range a, Range b) { return a.begin < b.begin; });
}

void CoverageCheck::find_ancestors(const Query& query, const ForestRequest& request) {
  ancestor_.assign(static_cast<std::size_t>(request.queries), false);
  for (std::int32_t i = query.token; i >= 0; i = forest_.query_parent(request, i)) {
    ancestor_[static_cast<std::size_t>(i)] = true;
  }
}

/// A query must attend to the past, its ancestors and itself, each once. Executors show it no token after its own,
/// whatever the masks say.
Violation CoverageCheck::check_intervals(const Query& query, const ForestRequest& request, std::int32_t kv_len) const {
  const std::int32_t own = kv_len - 1 - query.from_end;
  const std::int32_t past = kv_len - request.queries;
  const auto wanted = [&](std::int32_t token) {
    return token < past || ancestor_[static_cast<std::size_t>(token - past)];
  };
  const auto missed = [&](std::int32_t begin, std::int32_t end) -> Violation {
    for (std::int32_t token = begin; token < std::min(end, own + 1); ++token) {
      if (wanted(token)) return concat("does not see ", token == own ? "its own token " : "token ", token);
    }
    return std::nullopt;
  };
  std::int32_t covered = 0;
  for (const Range interval : intervals_) {
    if (interval.begin < covered) return concat("sees token ", interval.begin, " twice");
    if (Violation violation = missed(covered, interval.begin)) return violation;
    for (std::int32_t token = std::max(interval.begin, past); token < std::min(interval.end, own + 1); ++token) {
      if (!wanted(token)) return concat("sees token ", token, ", a draft that is not its ancestor");
    }
    covered = interval.end;
  }
  return missed(covered, kv_len);
}

Violation CoverageCheck::check_query(std::size_t index) {
  const Query& query = plan_.queries[index];
  const ForestRequest& request = request_of(query.slot);
  const std::vector<Reading>& readings = readings_[index];
  const auto open =
      std::count_if(readings.begin(), readings.end(), [](const Reading& r) { return stretches(*r.span); });
  if (open != 1) return concat("query ", index, " sees ", open, " open-ended spans; it must see one");
  find_ancestors(query, request);
  collect_growths(readings, request);
  for (const std::int32_t growth : growths_) {
    const std::int32_t kv_len = request.kv_len + growth;
    collect_intervals(readings, kv_len);
    if (Violation violation = check_intervals(query, request, kv_len)) {
      return concat("query ", index, " of slot ", query.slot, " ", *violation, " at length ", kv_len, " (now ",
                    request.kv_len, ")");
    }
  }
  return std::nullopt;
}

Violation CoverageCheck::find() {
  readings_.resize(plan_.queries.size());
  for (std::size_t item = 0; item < plan_.items.size(); ++item) {
    const Range spans = plan_.items[item].spans;
    for (std::int32_t s = spans.begin; s < spans.end; ++s) {
      if (Violation violation = check_readers(item, plan_.spans[static_cast<std::size_t>(s)])) return violation;
    }
  }
  for (std::size_t query = 0; query < plan_.queries.size(); ++query) {
    if (Violation violation = check_query(query)) return violation;
  }
  return std::nullopt;
}

}  // namespace

Violation find_coverage_violation(const Plan& plan, const Forest& forest, const RowOfSlot& row_of_slot) {
  return CoverageCheck(plan, forest, row_of_slot).find();
}

}  // namespace trunkline
