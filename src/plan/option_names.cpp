// Names of the options that are enumerations, and back.
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline {
namespace {

// By number.
constexpr const char* kSplits[] = {"own", "balance", "none", "mean", "long"};
constexpr const char* kProfitCosts[] = {"memory", "compute"};
constexpr const char* kTrunkHoists[] = {"device", "cost", "never"};

template <class Option, std::size_t kCount>
const char* name_in(const char* const (&names)[kCount], Option option) {
  const auto index = static_cast<std::size_t>(option);
  return index < kCount ? names[index] : "unknown";
}

template <class Option, std::size_t kCount>
Option option_in(const char* const (&names)[kCount], const char* what, std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (name == names[i]) return static_cast<Option>(i);
    known += known.empty() ? names[i] : std::string(", ") + names[i];
  }
  fail(ErrorCode::kInvalidArgument, what, " is '", name, "'; known are ", known);
}

}  // namespace

const char* name_of(KvSplit split) {
  return name_in(kSplits, split);
}

KvSplit split_from_name(std::string_view name) {
  return option_in<KvSplit>(kSplits, "split", name);
}

namespace experimental {

const char* name_of(ProfitCost cost) {
  return name_in(kProfitCosts, cost);
}

const char* name_of(TrunkHoist hoist) {
  return name_in(kTrunkHoists, hoist);
}

ProfitCost profit_cost_from_name(std::string_view name) {
  return option_in<ProfitCost>(kProfitCosts, "profit cost", name);
}

TrunkHoist trunk_hoist_from_name(std::string_view name) {
  return option_in<TrunkHoist>(kTrunkHoists, "trunk hoist", name);
}

}  // namespace experimental

}  // namespace trunkline
