#include "plan/policies/policy_table.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "base/check.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline {
namespace {

// `trunk` is chosen on GPUs alone: on CPUs, whose kernels compute masked rows too, it was at best 5 % faster than
// `node` or `profit`, and up to 1.7 times as slow (bench/results/cpu/policies.jsonl). Policies without an estimate are
// left out to keep planning short: they group much as those that have one, with other weights or more partials.
constexpr std::array kPolicies = {
    PolicyInfo{.policy = Policy::kFlat,
               .name = "flat",
               .pack = pack_flat,
               .auto_choice = AutoChoice::kAlways,
               .estimate = estimate_flat,
               .min_time = min_time_of_flat},
    PolicyInfo{.policy = Policy::kCascade, .name = "cascade", .pack = pack_cascade},
    PolicyInfo{.policy = Policy::kNode,
               .name = "node",
               .pack = pack_node,
               .auto_choice = AutoChoice::kAlways,
               .estimate = estimate_node,
               .min_time = min_time_of_node},
    PolicyInfo{.policy = Policy::kProfit,
               .name = "profit",
               .pack = pack_profit,
               .auto_choice = AutoChoice::kAlways,
               .estimate = estimate_profit,
               .min_time = min_time_of_profit,
               .is_redundant = profit_is_node},
    PolicyInfo{.policy = Policy::kGreedy, .name = "greedy", .pack = pack_greedy, .split = experimental::kSplitLong},
    PolicyInfo{.policy = Policy::kFlatten, .name = "flatten", .pack = pack_flatten, .split = KvSplit::kNone},
    PolicyInfo{.policy = Policy::kBalanced, .name = "balanced", .pack = pack_balanced, .split = KvSplit::kOwn},
    PolicyInfo{.policy = Policy::kTrunk,
               .name = "trunk",
               .pack = pack_trunk,
               .few_partials = true,
               .groups_unshared = true,
               .auto_choice = AutoChoice::kOnGpus,
               .estimate = estimate_trunk},
    PolicyInfo{.policy = Policy::kInvariant,
               .name = "invariant",
               .pack = pack_invariant,
               .split = KvSplit::kNone,
               .batch_invariant = true},
};
constexpr const char* kAutoName = "auto";

constexpr std::size_t number_of(Policy policy) {
  return static_cast<std::size_t>(policy);
}

constexpr bool is_candidate(const PolicyInfo& info, Device device) {
  return info.auto_choice == AutoChoice::kAlways ||
         (info.auto_choice == AutoChoice::kOnGpus && device == Device::kCuda);
}

template <Device kDevice>
constexpr auto list_candidates() {
  constexpr auto kIsOne = [](const PolicyInfo& info) { return is_candidate(info, kDevice); };
  std::array<Policy, static_cast<std::size_t>(std::count_if(kPolicies.begin(), kPolicies.end(), kIsOne))> result{};
  std::size_t count = 0;
  for (const PolicyInfo& info : kPolicies) {
    if (kIsOne(info)) result[count++] = info.policy;
  }
  return result;
}
constexpr auto kCpuCandidates = list_candidates<Device::kCpu>();
constexpr auto kGpuCandidates = list_candidates<Device::kCuda>();

constexpr bool rows_are_by_number() {
  for (std::size_t i = 0; i < kPolicies.size(); ++i) {
    if (number_of(kPolicies[i].policy) != i + 1) return false;
  }
  return true;
}
static_assert(number_of(Policy::kAuto) == 0 && rows_are_by_number(), "policy_info() finds a row by its number");
static_assert(std::all_of(kPolicies.begin(), kPolicies.end(),
                          [](const PolicyInfo& info) { return info.name != nullptr && info.pack != nullptr; }),
              "every policy has a name and makes packs");
static_assert(std::all_of(kPolicies.begin(), kPolicies.end(),
                          [](const PolicyInfo& info) {
                            return (info.auto_choice == AutoChoice::kNever) == (info.estimate == nullptr);
                          }),
              "auto compares estimates, and nothing else does");
static_assert(kCpuCandidates.front() == Policy::kFlat && kGpuCandidates.front() == Policy::kFlat, "ties go to flat");

}  // namespace

std::span<const PolicyInfo> policy_table() {
  return kPolicies;
}

void check_policy(Policy policy) {
  if (number_of(policy) <= kPolicies.size()) return;
  fail(ErrorCode::kInvalidArgument, "policy is ", number_of(policy), "; known are 0 to ", kPolicies.size());
}

const PolicyInfo& policy_info(Policy policy) {
  check_policy(policy);
  if (policy == Policy::kAuto) fail(ErrorCode::kInternal, "policy auto has no row; the policy that it chose has");
  return kPolicies[number_of(policy) - 1];
}

bool is_batch_invariant(Policy policy) {
  return policy != Policy::kAuto && policy_info(policy).batch_invariant;
}

std::span<const Policy> auto_candidates(Device device) {
  if (device == Device::kCuda) return kGpuCandidates;
  return kCpuCandidates;
}

const char* name_of(Policy policy) {
  return policy == Policy::kAuto ? kAutoName : policy_info(policy).name;
}

Policy policy_from_name(std::string_view name) {
  if (name == kAutoName) return Policy::kAuto;
  std::string known;
  for (const PolicyInfo& info : kPolicies) {
    if (name == info.name) return info.policy;
    known += std::string(info.name) + ", ";
  }
  fail(ErrorCode::kInvalidArgument, "policy is '", name, "'; known are ", known, kAutoName);
}

}  // namespace trunkline
