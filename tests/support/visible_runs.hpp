// The runs of tokens that a query reads by a plan, in the order in which they are added up.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "trunkline/plan.hpp"

namespace trunkline::testing {

/// By (slot, token) of each query: of each of its items, the runs of token positions that it sees, at live lengths by
/// slot. Tokens of a draft tree are runs as others are, whoever sees them.
using VisibleRuns = std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::vector<Range>>>;

inline VisibleRuns visible_runs(const Plan& plan, const std::map<std::int32_t, std::int32_t>& lengths) {
  VisibleRuns result;
  for (const WorkItem& item : plan.items) {
    for (std::int32_t i = item.queries.begin; i < item.queries.end; ++i) {
      const Query& query = plan.queries[static_cast<std::size_t>(plan.item_queries[static_cast<std::size_t>(i)])];
      std::vector<Range> runs;
      for (std::int32_t s = item.spans.begin; s < item.spans.end; ++s) {
        const KvSpan& span = plan.spans[static_cast<std::size_t>(s)];
        const Range tokens = span.at(lengths.at(span.slot));
        const bool by_token = (span.flags & kSpanTokenMask) != 0;
        const bool sees =
            span.mask < 0 || by_token || plan.masks[static_cast<std::size_t>(span.mask)].test(i - item.queries.begin);
        if (sees && tokens.size() > 0) runs.push_back(tokens);
      }
      result[{query.slot, query.token}].push_back(std::move(runs));
    }
  }
  return result;
}

}  // namespace trunkline::testing
