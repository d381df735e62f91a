// Plans of every step of a replayed decoding, and what they read, summed up.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "synthetic/decoding_tree.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::traffic {

/// Sums over steps, in tokens; bytes are of one layer, all heads.
struct PolicyTotals {
  std::int64_t read = 0;     ///< KV tokens
  std::int64_t grouped = 0;  ///< without re-reads by tiles that are too narrow for a group
  std::int64_t partial_bytes = 0;
  std::int64_t mask_bytes = 0;  ///< of masks, read once by each item and KV head
};

/// DeFT's names in the comments are those of its table 3.
struct ReplayTotals {
  static constexpr std::array kPolicies = {Policy::kFlat, Policy::kNode, Policy::kFlatten};

  std::int64_t steps = 0;
  std::int64_t paths = 0;     ///< sum of N_i: what one query at a time reads
  std::int64_t distinct = 0;  ///< N_tree
  std::int64_t pairs = 0;     ///< l_n x N_tree: (query, token of the tree) pairs, seen or not
  std::array<PolicyTotals, kPolicies.size()> by_policy{};

  const PolicyTotals& of(Policy policy) const;
};

/// Plans steps as they come.
class ReplayCounter {
 public:
  ReplayCounter(MachineProfile profile, const AttentionShape& shape);
  /// One step: one request for each query of the decoding tree.
  void add(const PrefixTree& step);
  void add(const DecodingTree& tree);
  const ReplayTotals& totals() const { return totals_; }

 private:
  Planner planner_;
  AttentionShape shape_;
  ReplayTotals totals_;
};

}  // namespace trunkline::traffic
