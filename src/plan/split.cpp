#include "plan/split.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace trunkline {
namespace {

// Balance cuts are at multiples of 64 tokens from the pack's start, a KV tile of most kernels, and leave at least 256,
// below which an item's fixed cost and its partials outweigh what it streams.
constexpr std::int64_t kBalanceGranule = 64;
constexpr std::int64_t kMinPartGranules = 4;
// FastTree, section 4.3, gives no lengths; these are its code's: for groups, and for those of too few tasks.
constexpr std::int64_t kLongPiece = 1024;
constexpr std::int64_t kShortPiece = 128;
// Cutting for less than 1/32 of the time is not worth the partials' noise.
constexpr Nanoseconds kWorthwhileShare = 32;
// Pieces tried, as shares of one worker's mean load: the longest that could still end in time, and ever finer ones,
// whose last round leaves workers idle for less.
constexpr Nanoseconds kPiecesPerWorker[] = {1, 2, 4, 8};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

void Division::divide(const Packs& packs, const CostModel& costs, KvSplit split) {
  granule_ = split == KvSplit::kMean ? 1 : kBalanceGranule;
  parts_.assign(packs.packs().size(), 1);
  lengths_ = {static_cast<std::int64_t>(parts_.size()), packs.total_queries(), packs.total_segments()};
  cost_whole_packs(packs, costs);
  predicted_ = classes_.makespan(costs.workers(), costs.kv_heads());
  switch (split) {
    case KvSplit::kOwn: cut_as_asked(packs, costs); break;
    case KvSplit::kBalance: cut_for_balance(packs, costs); break;
    case KvSplit::kMean: cut_to_mean(packs, costs); break;
    case KvSplit::kLong: cut_long(packs, costs); break;
    case KvSplit::kNone: break;
  }
  predicted_ += costs.launch();
}

void Division::item_costs(const Packs& packs, const CostModel& costs, std::vector<Nanoseconds>& result) const {
  result.clear();
  visit_item_costs(packs, costs, parts_, [&result](Nanoseconds cost) { result.push_back(cost); });
}

// Every query is in some pack, so as many entries as queries means one pack each, and none to merge.
void Division::cost_whole_packs(const Packs& packs, const CostModel& costs) {
  const bool merges = packs.total_queries() > packs.order().size();
  if (merges) count_merged_queries(packs);
  whole_costs_.resize(packs.packs().size());
  classes_.clear();
  Nanoseconds* cost = whole_costs_.data();
  for (const Pack& pack : packs.packs()) {
    std::int32_t merged = 0;
    if (merges) {
      for (const Range run : packs.runs(pack)) {
        merged +=
            merged_before_[static_cast<std::size_t>(run.end)] - merged_before_[static_cast<std::size_t>(run.begin)];
      }
    }
    *cost = costs.task(pack, merged);
    classes_.add(*cost++);
  }
}

// In time linear in runs and positions: a query's packs are counted by where runs begin and end.
void Division::count_merged_queries(const Packs& packs) {
  merged_before_.assign(static_cast<std::size_t>(packs.order().size()) + 1, 0);
  std::int32_t* const counts = merged_before_.data();
  for (const Range run : packs.all_runs()) {
    counts[run.begin] += 1;
    counts[run.end] -= 1;
  }
  std::int32_t holders = 0;
  std::int32_t merged = 0;
  for (std::int32_t& entry : merged_before_) {
    holders += entry;
    entry = merged;
    merged += holders > 1 ? 1 : 0;
  }
}

// A cut falls in one segment, which then gives one span more.
void Division::count_cut_lists(const Packs& packs) {
  lengths_ = {};
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    lengths_.items += parts_[i];
    lengths_.entries += std::int64_t{parts_[i]} * packs.packs()[i].queries;
  }
  lengths_.spans = packs.total_segments() + lengths_.items - static_cast<std::int64_t>(parts_.size());
}

// PAT, section 6: what is longer than the mean is cut into equal parts that are not. Packs without tokens, which read
// nothing, do not count in the mean: so it is at least one token, and no pack has more parts than tokens.
void Division::cut_to_mean(const Packs& packs, const CostModel& costs) {
  const std::int64_t total = packs.total_tokens();
  if (total == 0) return;
  const std::int64_t count =
      std::count_if(packs.packs().begin(), packs.packs().end(), [](const Pack& pack) { return pack.tokens > 0; });
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i] = static_cast<std::int32_t>(std::max<std::int64_t>(ceil_div(packs.packs()[i].tokens * count, total), 1));
  }
  count_cut_lists(packs);
  predicted_ = makespan(packs, costs, parts_);
}

void Division::cut_to_length(const Packs& packs, std::int64_t tokens) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i] = static_cast<std::int32_t>(std::max<std::int64_t>(ceil_div(packs.packs()[i].tokens, tokens), 1));
  }
  count_cut_lists(packs);
}

// FastTree, section 4.3: long contexts are cut to end the tail, and all of them shorter where workers would idle.
void Division::cut_long(const Packs& packs, const CostModel& costs) {
  cut_to_length(packs, kLongPiece);
  if (lengths_.items * costs.kv_heads() < costs.workers()) cut_to_length(packs, kShortPiece);
  predicted_ = makespan(packs, costs, parts_);
}

void Division::cut_as_asked(const Packs& packs, const CostModel& costs) {
  for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i] = packs.packs()[i].parts;
  count_cut_lists(packs);
  predicted_ = makespan(packs, costs, parts_);
}

void Division::cut_for_balance(const Packs& packs, const CostModel& costs) {
  const Nanoseconds work = classes_.total() * costs.kv_heads();
  const Nanoseconds ideal = work / costs.workers();
  for (const Nanoseconds pieces : kPiecesPerWorker) {
    if (predicted_ - ideal <= ideal / kWorthwhileShare) return;
    if (!cap_parts(packs, std::max<Nanoseconds>(ceil_div(work, costs.workers() * pieces), 1))) continue;
    const Nanoseconds predicted = makespan(packs, costs, tried_parts_);
    if (predicted >= predicted_) continue;
    predicted_ = predicted;
    parts_ = tried_parts_;
    count_cut_lists(packs);
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
      visit(part_cost(pack, tokens, costs));
    }
  }
}

// What the halves of a tile have in common is taken to lie evenly in the pack.
Nanoseconds Division::part_cost(const Pack& pack, std::int64_t tokens, const CostModel& costs) const {
  const std::int64_t matrix_tokens =
      pack.matrix_tokens == pack.tokens ? tokens : tokens * pack.matrix_tokens / pack.tokens;
  return costs.task(tokens, matrix_tokens, costs.rows(pack), pack.queries);
}

}  // namespace trunkline
