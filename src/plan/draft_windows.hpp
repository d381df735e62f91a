// The last tokens of requests with draft trees, as spans that move with the live end.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "forest/id_map.hpp"
#include "plan/packs.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// Emits windows: runs of a request's drafts whose bounds are relative to its live length, so that accepting or
/// rejecting drafts moves them without a new plan. Each token has a mask of the queries that descend from it or are it.
class DraftWindows {
 public:
  /// \param windows that the next plan has at most
  void reset(std::int64_t windows) { lists_.reset(static_cast<std::size_t>(windows)); }

  /// The window of a segment's row, cut down to the tokens that are visible to a query of the pack; nothing where no
  /// token is.
  /// Adds its masks to the plan.
  /// \param drafts tokens, counted from the tree's root
  std::optional<KvSpan> window(const Forest& forest, const Packs& packs, const Pack& pack, const PackSegment& segment,
                               Range drafts, Plan& plan);

 private:
  Range fill_masks(const Forest& forest, const Packs& packs, const Pack& pack, const PackSegment& segment,
                   Range drafts);
  std::int32_t emit_masks(Range tokens, Plan& plan);

  std::vector<QueryMask> masks_;  // of one window
  IdMap lists_;                   // (length, hash) of a list of masks -> where it begins in Plan::masks
};

}  // namespace trunkline
