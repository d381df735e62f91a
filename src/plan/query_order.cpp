#include "plan/query_order.hpp"

#include <algorithm>

namespace trunkline {

void QueryOrder::reset(const Forest& forest) {
  begin_.resize(forest.order.size() + 1);
  std::int32_t position = 0;
  for (std::size_t i = 0; i < forest.order.size(); ++i) {
    begin_[i] = position;
    position += forest.requests[static_cast<std::size_t>(forest.order[i])].queries;
  }
  begin_.back() = position;
  query_at_.resize(static_cast<std::size_t>(position));
  auto next = query_at_.begin();
  for (const std::int32_t row : forest.order) {
    const ForestRequest& request = forest.requests[static_cast<std::size_t>(row)];
    for (std::int32_t token = 0; token < request.queries; ++token) *next++ = request.query_begin + token;
  }
  needed_tokens_ = count_needed_tokens(forest);
  drafts_.clear();
  if (forest.query_parents.empty()) return;
  for (const ForestRequest& request : forest.requests) drafts_.push_back(request.tree ? request.queries : 0);
}

std::int32_t QueryOrder::request_begin(std::int32_t position) const {
  return *(std::upper_bound(begin_.begin(), begin_.end(), position) - 1);
}

std::int32_t QueryOrder::request_end(std::int32_t position) const {
  return *std::upper_bound(begin_.begin(), begin_.end(), position);
}

std::int64_t QueryOrder::count_needed_tokens(const Forest& forest) const {
  const auto idle = [](const ForestRequest& request) { return request.queries == 0; };
  if (std::none_of(forest.requests.begin(), forest.requests.end(), idle)) return forest.distinct_tokens;
  std::int64_t tokens = 0;
  for (const ForestNode& node : forest.nodes) tokens += positions(node.requests).size() > 0 ? node.tokens() : 0;
  return tokens;
}

}  // namespace trunkline
