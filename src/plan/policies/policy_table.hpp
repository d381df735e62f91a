// The table of policies. A policy is a file of this folder with its functions, and a row of the table.
#pragma once

#include <cstdint>
#include <span>

#include "plan/estimates.hpp"
#include "plan/packs.hpp"
#include "plan/policies/policy_input.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// Fills empty packs, by the rules that Packs states, in time linear in what it makes and in the nodes and requests of
/// the forest.
using PackFunction = void(const PolicyInput& input, Packs& packs);
/// Predicts the time of the policy's plan without making its packs, in time linear in nodes and requests.
using EstimateFunction = Estimate(const PolicyInput& input, EstimateScratch& scratch);
/// A lower bound of that estimate, from counts alone. It takes a fraction of an estimate.
using MinTimeFunction = Nanoseconds(const PolicyInput& input);
/// Whether the policy's packs are those of an earlier row, so that `auto` need not estimate both.
using RedundancyFunction = bool(const PolicyInput& input);

/// The devices on which `auto` may choose a policy.
enum class AutoChoice : std::uint8_t { kNever, kOnGpus, kAlways };

struct PolicyInfo {
  Policy policy;
  const char* name;
  PackFunction* pack;
  KvSplit split = KvSplit::kBalance;  ///< how kOwn cuts the packs along KV; kOwn: the policy cuts them itself
  bool few_partials = false;          ///< balance cuts avoid CutChoice::too_many() partials
  bool groups_unshared = false;       ///< requests that share nothing share packs all the same
  /// A request's results have the same bits whatever else is in the batch. So plans have the policy's own cuts,
  /// whatever PlanOptions::split says, tiles of one height, and executors use one arithmetic for all items; and no plan
  /// falls back to `flat`, which gives other bits.
  bool batch_invariant = false;
  AutoChoice auto_choice = AutoChoice::kNever;
  EstimateFunction* estimate = nullptr;        ///< not null if `auto` may choose the policy
  MinTimeFunction* min_time = nullptr;         ///< null: no bound but the launch
  RedundancyFunction* is_redundant = nullptr;  ///< null: never
};

/// All but `auto`, which chooses among them; by rising number.
std::span<const PolicyInfo> policy_table();
/// \throws Error(kInvalidArgument) if there is no such policy.
void check_policy(Policy policy);
/// \param policy other than kAuto \throws Error(kInvalidArgument) if there is no such policy.
const PolicyInfo& policy_info(Policy policy);
/// PolicyInfo::batch_invariant; false for kAuto, which never chooses such a policy.
bool is_batch_invariant(Policy policy);

/// The policies among which `auto` chooses on a device, in the table's order; ties go to the earlier, so to `flat`.
std::span<const Policy> auto_candidates(Device device);

// The functions of the rows, each in its policy's file.
PackFunction pack_flat, pack_cascade, pack_node, pack_profit, pack_greedy, pack_flatten, pack_balanced, pack_trunk,
    pack_invariant;
EstimateFunction estimate_flat, estimate_node, estimate_profit, estimate_trunk;
MinTimeFunction min_time_of_flat, min_time_of_node, min_time_of_profit;
RedundancyFunction profit_is_node;

}  // namespace trunkline
