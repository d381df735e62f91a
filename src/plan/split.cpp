#include "plan/split.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace trunkline {
namespace {

// Balance cuts are at multiples of 64 tokens from the pack's start, a KV tile of most kernels, and leave at least 256,
// below which an item's fixed cost and its partials outweigh what it streams.
constexpr std::int64_t kBalanceGranule = 64;
constexpr std::int64_t kMinPartGranules = 4;
// Cutting for less than 1/32 of the time is not worth the partials' noise.
constexpr Nanoseconds kWorthwhileShare = 32;
// Pieces tried, as shares of one worker's mean load: the longest that could still end in time, and ever finer ones,
// whose last round leaves workers idle for less.
constexpr Nanoseconds kPiecesPerWorker[] = {1, 2, 4, 8};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

const char* name_of(KvSplit split) {
  switch (split) {
    case KvSplit::kBalance: return "balance";
    case KvSplit::kMean: return "mean";
    case KvSplit::kNone: return "none";
  }
  return "unknown";
}

// Whole granules are dealt out evenly; what is left of the last one goes to the last part.
std::int64_t Division::part_begin(const Pack& pack, std::int32_t parts, std::int32_t part) const {
  if (part == 0) return 0;  // most packs are whole, and divisions are slow
  return part == parts ? pack.tokens : pack.tokens / granule_ * part / parts * granule_;
}

void Division::divide(const Packs& packs, const CostModel& costs, KvSplit split) {
  const std::size_t count = packs.packs().size();
  granule_ = split == KvSplit::kBalance ? kBalanceGranule : 1;
  parts_.assign(count, 1);
  count_merged_queries(packs);
  whole_costs_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Pack& pack = packs.packs()[i];
    whole_costs_[i] = costs.task(pack.tokens, pack.queries, merged_queries_[i]);
  }

  if (split == KvSplit::kBalance) {
    cut_for_balance(packs, costs);
  } else {
    if (split == KvSplit::kMean) cut_to_mean(packs);
    predicted_ = makespan(packs, costs, parts_);
  }
  predicted_ += costs.launch();
}

void Division::item_costs(const Packs& packs, const CostModel& costs, std::vector<Nanoseconds>& result) const {
  result.clear();
  visit_item_costs(packs, costs, parts_, [&result](Nanoseconds cost) { result.push_back(cost); });
}

// In time linear in packs and positions: a query's packs are counted by where runs begin and end.
void Division::count_merged_queries(const Packs& packs) {
  const auto positions = static_cast<std::size_t>(packs.order().size());
  position_counts_.assign(positions + 1, 0);
  for (const Pack& pack : packs.packs()) {
    for (const Range run : packs.runs(pack)) {
      position_counts_[static_cast<std::size_t>(run.begin)] += 1;
      position_counts_[static_cast<std::size_t>(run.end)] -= 1;
    }
  }
  std::int32_t holders = 0;
  std::int32_t merged = 0;
  for (std::int32_t& entry : position_counts_) {
    holders += entry;
    entry = merged;
    merged += holders > 1 ? 1 : 0;
  }
  merged_queries_.resize(packs.packs().size());
  std::int32_t* merged_queries = merged_queries_.data();
  for (const Pack& pack : packs.packs()) {
    std::int32_t queries = 0;
    for (const Range run : packs.runs(pack)) {
      queries +=
          position_counts_[static_cast<std::size_t>(run.end)] - position_counts_[static_cast<std::size_t>(run.begin)];
    }
    *merged_queries++ = queries;
  }
}

// PAT, section 6: what is longer than the mean over all packs is cut into equal parts that are not.
void Division::cut_to_mean(const Packs& packs) {
  std::int64_t total = 0;
  for (const Pack& pack : packs.packs()) total += pack.tokens;
  if (total == 0) return;
  const auto count = static_cast<std::int64_t>(packs.packs().size());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i] = static_cast<std::int32_t>(std::max<std::int64_t>(ceil_div(packs.packs()[i].tokens * count, total), 1));
  }
}

void Division::cut_for_balance(const Packs& packs, const CostModel& costs) {
  predicted_ = makespan(packs, costs, parts_);
  const Nanoseconds work = classes_.total() * costs.kv_heads();
  const Nanoseconds ideal = work / costs.workers();
  for (const Nanoseconds pieces : kPiecesPerWorker) {
    if (predicted_ - ideal <= ideal / kWorthwhileShare) return;
    if (!cap_parts(packs, std::max<Nanoseconds>(ceil_div(work, costs.workers() * pieces), 1))) continue;
    const Nanoseconds predicted = makespan(packs, costs, tried_parts_);
    if (predicted >= predicted_) continue;
    predicted_ = predicted;
    parts_ = tried_parts_;
  }
}

// The fewest parts of each pack that cost at most the cap apiece, as far as parts may be short. False when it cuts
// nothing.
bool Division::cap_parts(const Packs& packs, Nanoseconds cap) {
  tried_parts_.clear();
  bool cuts = false;
  for (std::size_t i = 0; i < whole_costs_.size(); ++i) {
    std::int64_t parts = 1;
    if (whole_costs_[i] > cap) {
      const std::int64_t most = packs.packs()[i].tokens / (kBalanceGranule * kMinPartGranules);
      parts = std::clamp<std::int64_t>(ceil_div(whole_costs_[i], cap), 1, std::max<std::int64_t>(most, 1));
      cuts = cuts || parts > 1;
    }
    tried_parts_.push_back(static_cast<std::int32_t>(parts));
  }
  return cuts;
}

Nanoseconds Division::makespan(const Packs& packs, const CostModel& costs, const std::vector<std::int32_t>& parts) {
  classes_.clear();
  visit_item_costs(packs, costs, parts, [this](Nanoseconds cost) { classes_.add(cost); });
  return classes_.makespan(costs.workers(), costs.kv_heads());
}

// All queries of a pack that is cut need a merge.
template <class Visit>
void Division::visit_item_costs(const Packs& packs, const CostModel& costs, const std::vector<std::int32_t>& parts,
                                Visit visit) const {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == 1) {
      visit(whole_costs_[i]);
      continue;
    }
    const Pack& pack = packs.packs()[i];
    for (std::int32_t part = 0; part < parts[i]; ++part) {
      const std::int64_t tokens = part_begin(pack, parts[i], part + 1) - part_begin(pack, parts[i], part);
      visit(costs.task(tokens, pack.queries, pack.queries));
    }
  }
}

}  // namespace trunkline
