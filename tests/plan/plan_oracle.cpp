#include "plan/plan_oracle.hpp"

#include <algorithm>
#include <map>

#include "base/check.hpp"

namespace trunkline::testing {
namespace {

/// A forest node and a position, or a row's own new token as node -2 - row.
using Token = std::pair<std::int32_t, std::int32_t>;

std::vector<Token> tokens_of(const Forest& forest, std::int32_t row, std::int32_t growth) {
  const ForestRequest& request = forest.requests[static_cast<std::size_t>(row)];
  std::vector<Token> tokens(static_cast<std::size_t>(request.kv_len + growth), {-2 - row, 0});
  for (std::int32_t n = request.node; n >= 0; n = forest.nodes[static_cast<std::size_t>(n)].parent) {
    const ForestNode& node = forest.nodes[static_cast<std::size_t>(n)];
    for (std::int32_t t = node.begin; t < node.end; ++t) tokens[static_cast<std::size_t>(t)] = {n, t};
  }
  for (std::int32_t t = request.kv_len; t < request.kv_len + growth; ++t)
    tokens[static_cast<std::size_t>(t)].second = t;
  return tokens;
}

/// For each token up to a query's own, whether the query must attend to it: to all tokens before the request's query
/// tokens, and among these to its ancestors and itself.
std::vector<bool> wanted_by(const Forest& forest, const ForestRequest& request, std::int32_t token,
                            std::size_t kv_len) {
  std::vector<bool> wanted;
  if (kv_len == 0) return wanted;
  const std::size_t past = kv_len - static_cast<std::size_t>(request.queries);
  wanted.assign(past + static_cast<std::size_t>(token) + 1, false);
  std::fill_n(wanted.begin(), past, true);
  for (; token >= 0; token = forest.query_parent(request, token)) wanted[past + static_cast<std::size_t>(token)] = true;
  return wanted;
}

}  // namespace

std::optional<std::string> play_plan(const Plan& plan, const Forest& forest, const std::vector<std::int32_t>& growth) {
  std::map<std::int32_t, std::size_t> row_of;
  std::vector<std::vector<Token>> tokens;
  for (std::size_t row = 0; row < forest.requests.size(); ++row) {
    row_of[forest.requests[row].slot] = row;
    tokens.push_back(tokens_of(forest, static_cast<std::int32_t>(row), growth[row]));
  }
  std::vector<std::vector<std::int32_t>> met(plan.queries.size());
  for (std::size_t q = 0; q < met.size(); ++q) met[q].resize(tokens[row_of.at(plan.queries[q].slot)].size());

  for (const WorkItem& item : plan.items) {
    for (std::int32_t s = item.spans.begin; s < item.spans.end; ++s) {
      const KvSpan& span = plan.spans[static_cast<std::size_t>(s)];
      const std::vector<Token>& read = tokens[row_of.at(span.slot)];
      const Range range = span.at(static_cast<std::int32_t>(read.size()));
      for (std::int32_t i = 0; i < item.queries.size(); ++i) {
        const auto q = static_cast<std::size_t>(plan.item_queries[static_cast<std::size_t>(item.queries.begin + i)]);
        const std::vector<Token>& wanted = tokens[row_of.at(plan.queries[q].slot)];
        for (std::int32_t t = range.begin; t < range.end; ++t) {
          const auto at = static_cast<std::size_t>(t);
          if (span.mask >= 0) {
            const std::int32_t mask = span.mask + ((span.flags & kSpanTokenMask) != 0 ? t - range.begin : 0);
            if (mask >= static_cast<std::int32_t>(plan.masks.size())) return concat("token ", t, " has no mask");
            if (!plan.masks[static_cast<std::size_t>(mask)].test(i)) continue;
          }
          if (at >= read.size() || at >= wanted.size() || read[at] != wanted[at]) {
            return concat("query ", q, " meets a wrong token at ", t);
          }
          if (++met[q][at] > 1) return concat("query ", q, " meets token ", t, " twice");
        }
      }
    }
  }
  for (std::size_t q = 0; q < met.size(); ++q) {
    const ForestRequest& request = forest.requests[row_of.at(plan.queries[q].slot)];
    const std::vector<bool> wanted = wanted_by(forest, request, plan.queries[q].token, met[q].size());
    for (std::size_t t = 0; t < wanted.size(); ++t) {
      if (wanted[t] && met[q][t] == 0) return concat("query ", q, " misses token ", t);
      if (!wanted[t] && met[q][t] == 1) return concat("query ", q, " meets token ", t, ", which is no ancestor's");
    }
  }
  return std::nullopt;
}

}  // namespace trunkline::testing
