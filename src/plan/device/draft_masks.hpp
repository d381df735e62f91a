// The attention masks of a draft tree: which of a request's queries attend to which drafts. Equal to the host's
// DraftWindows.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/forest_layout.hpp"
#include "plan/device/requests.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// The queries of a pack that attend to a draft: bit i of the words is the pack's i-th query.
struct DraftMask {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  TRUNKLINE_HOST_DEVICE bool operator==(const DraftMask& other) const { return low == other.low && high == other.high; }
};

class DraftMasks {
 public:
  /// \param queries positions of the request's queries that the pack holds \param first position of the pack
  TRUNKLINE_HOST_DEVICE DraftMasks(const DeviceForest& forest, const DeviceRequests& requests, std::int32_t row,
                                   Range queries, std::int32_t first)
      : parents_(forest.query_parents + forest.query_begin[row]),
        query_at_(requests.query_at),
        first_query_(forest.query_begin[row]),
        queries_(queries),
        first_(first) {}

  /// Returns the range from the first to the last of `drafts` that is visible to a query of the pack.
  TRUNKLINE_HOST_DEVICE Range visible_range(Range drafts) const {
    Range found = {drafts.end, drafts.begin};
    TRUNKLINE_ROLLED
    for (std::int32_t p = queries_.begin; p < queries_.end; ++p) {
      TRUNKLINE_ROLLED
      for (std::int32_t token = token_at(p); token >= drafts.begin; token = parents_[token]) {
        if (token >= drafts.end) continue;
        found.begin = min(found.begin, token);
        found.end = max(found.end, token + 1);
      }
    }
    return found.begin < found.end ? found : Range{0, 0};
  }

  /// Returns the mask of a draft: a query attends to it if it descends from the draft or is the draft.
  TRUNKLINE_HOST_DEVICE DraftMask mask_of(std::int32_t draft) const {
    DraftMask mask;
    TRUNKLINE_ROLLED
    for (std::int32_t p = queries_.begin; p < queries_.end; ++p) {
      std::int32_t token = token_at(p);
      TRUNKLINE_ROLLED
      while (token > draft) token = parents_[token];
      if (token != draft) continue;
      const std::int32_t query = p - first_;
      const std::uint64_t bit = std::uint64_t{1} << (query % 64);
      (query < 64 ? mask.low : mask.high) |= bit;
    }
    return mask;
  }

  /// Whether both halves of a tile, the first with `first_half` queries, attend to some of `drafts`.
  TRUNKLINE_HOST_DEVICE bool visible_to_both(Range drafts, std::int32_t first_half) const {
    bool first = false;
    bool second = false;
    TRUNKLINE_ROLLED
    for (std::int32_t p = queries_.begin; p < queries_.end; ++p) {
      std::int32_t token = token_at(p);
      TRUNKLINE_ROLLED
      while (token >= drafts.end) token = parents_[token];
      if (token < drafts.begin) continue;
      (p - first_ < first_half ? first : second) = true;
    }
    return first && second;
  }

 private:
  TRUNKLINE_HOST_DEVICE std::int32_t token_at(std::int32_t position) const {
    return query_at_[position] - first_query_;
  }

  const std::int32_t* parents_;
  const std::int32_t* query_at_;
  std::int32_t first_query_;
  Range queries_;
  std::int32_t first_;
};

}  // namespace trunkline
