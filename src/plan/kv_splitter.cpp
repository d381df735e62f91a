#include "plan/kv_splitter.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "machine/profile_check.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline {
namespace {

// FastTree, section 4.3, gives no lengths; these are its code's: for groups, and for those of too few tasks.
constexpr std::int64_t kLongPart = 1024;
constexpr std::int64_t kShortPart = 128;
static_assert(CutChoice::kGranule % kMaxSliceTokens == 0, "cuts are at the ends of slices");

}  // namespace

void KvSplitter::divide(const Packs& packs, const CostModel& costs, KvSplit split, bool few_partials) {
  granule_ = split == experimental::kSplitMean ? 1 : CutChoice::kGranule;
  parts_.assign(packs.packs().size(), 1);
  load_packs(packs, costs);
  decide_parts(packs, costs, split, few_partials);
  count_cut_lists(packs);
  cost_items(packs, costs);
  if (!classes_hold_items_) classify_items();
  const Nanoseconds makespan = classes_.makespan(costs.workers(), costs.kv_heads(), worker_loads_);
  predicted_ =
      costs.tasks().finish(makespan, classes_.ideal_of_busy(costs.workers(), costs.kv_heads())) + costs.launch();
}

// Every query is in some pack, so as many entries as queries means one pack each, and none to merge.
void KvSplitter::load_packs(const Packs& packs, const CostModel& costs) {
  const bool merges = packs.total_queries() > packs.order().size();
  if (merges) count_merged_queries(packs);
  loads_.resize(parts_.size());
  TaskLoad* load = loads_.data();
  for (const Pack& pack : packs.packs()) {
    std::int32_t merged = 0;
    if (merges) {
      for (const Range run : packs.runs(pack)) {
        merged +=
            merged_before_[static_cast<std::size_t>(run.end)] - merged_before_[static_cast<std::size_t>(run.begin)];
      }
    }
    const bool halves = pack.first_half > 0 && pack.first_half < pack.queries;
    const std::int32_t changes = halves ? costs.tasks().half_changes(pack.tokens, pack.matrix_tokens, pack.queries) : 0;
    *load++ = {pack.tokens, pack.matrix_tokens, costs.rows(pack), pack.queries, merged, changes};
  }
}

// In time linear in runs and positions: a query's packs are counted by where runs begin and end.
void KvSplitter::count_merged_queries(const Packs& packs) {
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

void KvSplitter::decide_parts(const Packs& packs, const CostModel& costs, KvSplit split, bool few_partials) {
  classes_hold_items_ = false;
  if (split == KvSplit::kBalance) return cut_for_balance(costs, few_partials);
  for (TaskLoad& load : loads_) load.price(costs.tasks());
  if (split == KvSplit::kOwn) return cut_as_asked(packs);
  if (split == experimental::kSplitMean) return cut_to_mean(packs);
  if (split == experimental::kSplitLong) return cut_long(packs, costs);
}

// A cut falls in one segment, which then gives one span more. A segment that ends in a draft tree gives one more too,
// whose every token has a mask, in whichever part it is.
void KvSplitter::count_cut_lists(const Packs& packs) {
  lengths_ = {};
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    lengths_.items += parts_[i];
    lengths_.entries += std::int64_t{parts_[i]} * packs.packs()[i].queries;
  }
  lengths_.spans = packs.total_segments() + lengths_.items - static_cast<std::int64_t>(parts_.size());
  lengths_.masks = lengths_.spans;
  if (!packs.order().has_trees()) return;
  for (const Pack& pack : packs.packs()) {
    for (const PackSegment& segment : packs.segments(pack)) {
      const std::int32_t drafts = segment.open_ended ? packs.order().drafts(segment.row) : 0;
      lengths_.spans += drafts > 0 ? 1 : 0;
      lengths_.masks += drafts > 0 ? drafts + 1 : 0;
    }
  }
}

// PAT, section 6: what is longer than the mean is cut into equal parts that are not. Packs without tokens, which read
// nothing, do not count in the mean: so it is at least one token, and no pack has more parts than tokens.
void KvSplitter::cut_to_mean(const Packs& packs) {
  const std::int64_t total = packs.total_tokens();
  if (total == 0) return;
  const std::int64_t count =
      std::count_if(packs.packs().begin(), packs.packs().end(), [](const Pack& pack) { return pack.tokens > 0; });
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::int64_t parts = ceil_div(packs.packs()[i].tokens * count, total);
    parts_[i] = static_cast<std::int32_t>(std::max<std::int64_t>(parts, 1));
  }
}

void KvSplitter::cut_to_length(const Packs& packs, std::int64_t tokens) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::int64_t parts = ceil_div(packs.packs()[i].tokens, tokens);
    parts_[i] = static_cast<std::int32_t>(std::max<std::int64_t>(parts, 1));
  }
}

// FastTree, section 4.3: long contexts are cut to end the tail, and all of them shorter where workers would idle.
void KvSplitter::cut_long(const Packs& packs, const CostModel& costs) {
  cut_to_length(packs, kLongPart);
  std::int64_t items = 0;
  for (const std::int32_t parts : parts_) items += parts;
  if (items * costs.kv_heads() < costs.workers()) cut_to_length(packs, kShortPart);
}

void KvSplitter::cut_as_asked(const Packs& packs) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Pack& pack = packs.packs()[i];
    const std::int64_t max_parts = std::max<std::int64_t>(pack.tokens / granule_, 1);
    parts_[i] = static_cast<std::int32_t>(std::clamp<std::int64_t>(pack.parts, 1, max_parts));
  }
}

void KvSplitter::cut_for_balance(const CostModel& costs, bool few_partials) {
  CutChoice cut(costs.tasks(), classes_, few_partials);
  cut.choose(static_cast<std::int32_t>(loads_.size()),
             [this](std::int32_t i) -> TaskLoad& { return loads_[static_cast<std::size_t>(i)]; });
  classes_hold_items_ = cut.classes_are_uncut();
  if (classes_hold_items_) return;
  for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i] = cut.parts(loads_[i]);
}

void KvSplitter::cost_items(const Packs& packs, const CostModel& costs) {
  item_costs_.resize(static_cast<std::size_t>(lengths_.items));
  Nanoseconds* cost = item_costs_.data();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const TaskLoad& whole = loads_[i];
    if (parts_[i] == 1) {
      *cost++ = whole.whole;
      continue;
    }
    const Pack& pack = packs.packs()[i];
    for (std::int32_t part = 0; part < parts_[i]; ++part) {
      const std::int64_t tokens = part_begin(pack, parts_[i], part + 1) - part_begin(pack, parts_[i], part);
      *cost++ = cut_cost(whole, costs.tasks(), parts_[i], tokens);
    }
  }
}

void KvSplitter::classify_items() {
  classes_.clear();
  for (const Nanoseconds cost : item_costs_) classes_.add(cost);
}

}  // namespace trunkline
