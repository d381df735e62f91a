// The queries of a forest in depth-first order, so that the queries of any subtree are one range.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trunkline/forest.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

/// Numbers a forest's queries by *position*: request by request as in Forest::order, tokens of a request in order. And
/// says which rows bring a draft tree.
class QueryOrder {
 public:
  void reset(const Forest& forest);

  std::int32_t size() const { return static_cast<std::int32_t>(query_at_.size()); }
  /// Query ids at some positions.
  std::span<const std::int32_t> queries_at(Range positions) const {
    return {query_at_.data() + positions.begin, static_cast<std::size_t>(positions.size())};
  }
  /// Positions of a range of Forest::order, such as a node's members.
  Range positions(Range requests) const { return {begin(requests.begin), begin(requests.end)}; }
  /// Positions of the request at an index of Forest::order.
  Range positions_of(std::int32_t index) const { return {begin(index), begin(index + 1)}; }
  /// First position of the request that holds a position, and one past its last.
  std::int32_t request_begin(std::int32_t position) const;
  std::int32_t request_end(std::int32_t position) const;
  /// Tokens of the nodes that some query reads: requests may bring none.
  std::int64_t needed_tokens() const { return needed_tokens_; }
  /// Whether any row has a draft tree.
  bool has_trees() const { return !drafts_.empty(); }
  /// Tokens of a row's draft tree; 0 where it has none.
  std::int32_t drafts(std::int32_t row) const { return has_trees() ? drafts_[static_cast<std::size_t>(row)] : 0; }

 private:
  std::int64_t count_needed_tokens(const Forest& forest) const;
  std::int32_t begin(std::int32_t index) const { return begin_[static_cast<std::size_t>(index)]; }

  std::vector<std::int32_t> begin_;     // [B + 1] first position of each request of Forest::order
  std::vector<std::int32_t> query_at_;  // [T]
  std::vector<std::int32_t> drafts_;    // [B] by row; empty without trees
  std::int64_t needed_tokens_ = 0;
};

}  // namespace trunkline
