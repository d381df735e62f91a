// How finely items are cut along KV, on host and device.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "base/quotient.hpp"
#include "plan/cost_classes.hpp"
#include "plan/task_costs.hpp"

namespace trunkline {

/// An item's load: the figures that its cost depends on, and the cost.
struct TaskLoad {
  std::int64_t tokens = 0;
  std::int64_t matrix_tokens = 0;
  std::int32_t rows = 0;  ///< computed for each matrix token
  std::int32_t queries = 0;
  std::int32_t merged = 0;   ///< queries that have partials in other items too
  std::int32_t changes = 0;  ///< TaskCosts::half_changes
  Nanoseconds whole = 0;     ///< cost uncut, once priced

  TRUNKLINE_HOST_DEVICE Nanoseconds uncut_cost(const TaskCosts& costs) const {
    return uncut_cost(costs, costs.memory_per_token);
  }
  /// \param read_per_token TaskCosts::memory_per_token, as what follows
  TRUNKLINE_HOST_DEVICE Nanoseconds uncut_cost(const TaskCosts& costs, std::int64_t read_per_token) const {
    return costs.task(tokens, matrix_tokens, rows, merged, read_per_token) + changes * costs.half_change;
  }
  /// Whether another load has the same cost, because all figures that it depends on are equal.
  TRUNKLINE_HOST_DEVICE bool costs_as(const TaskLoad& other) const {
    return tokens == other.tokens && matrix_tokens == other.matrix_tokens && rows == other.rows &&
           queries == other.queries && merged == other.merged && changes == other.changes;
  }
  TRUNKLINE_HOST_DEVICE void price(const TaskCosts& costs) { whole = uncut_cost(costs); }
  /// The cost of one of `parts` equal parts. Tokens that both halves of a tile need are assumed to lie evenly in the
  /// item.
  TRUNKLINE_HOST_DEVICE Nanoseconds part_cost(const TaskCosts& costs, std::int32_t parts) const {
    return part_cost(costs, parts, costs.memory_per_token);
  }
  TRUNKLINE_HOST_DEVICE Nanoseconds part_cost(const TaskCosts& costs, std::int32_t parts,
                                              std::int64_t read_per_token) const {
    const std::int64_t share = quotient_up(tokens, parts);
    const std::int64_t matrix = matrix_tokens == tokens ? share : quotient_up(matrix_tokens, parts);
    const std::int32_t turns = changes == 0 ? 0 : changes / parts;  // most have none, and divisions are slow
    return costs.task(share, matrix, rows, queries, read_per_token) + turns * costs.half_change;
  }
};

/// Tokens of a pack before one of its parts: whole granules are distributed evenly; the remainder of the last granule
/// goes to the last part.
TRUNKLINE_HOST_DEVICE inline std::int64_t part_begin(std::int64_t tokens, std::int64_t granule, std::int32_t parts,
                                                     std::int32_t part) {
  if (part == 0) return 0;  // most packs are whole, and divisions are slow
  return part == parts ? tokens : quotient(quotient_by_constant(tokens, granule) * part, parts) * granule;
}

/// The matrix tokens of a part with `tokens` tokens. Tokens that both halves of a tile need are assumed to lie evenly
/// in the item.
TRUNKLINE_HOST_DEVICE inline std::int64_t matrix_share(const TaskLoad& whole, std::int64_t tokens) {
  const int shift = whole.tokens > INT32_MAX ? 16 : 0;  // the product would overflow
  return quotient(tokens * (whole.matrix_tokens >> shift), whole.tokens >> shift);
}

/// The cost of one of several parts. All queries of the part need a merge.
/// \param tokens of the part, as cuts count them
TRUNKLINE_HOST_DEVICE inline Nanoseconds cut_cost(const TaskLoad& whole, const TaskCosts& costs, std::int32_t parts,
                                                  std::int64_t tokens) {
  const std::int64_t matrix_tokens = whole.matrix_tokens == whole.tokens ? tokens : matrix_share(whole, tokens);
  return costs.task(tokens, matrix_tokens, whole.rows, whole.queries) + whole.changes / parts * costs.half_change;
}

/// Cuts items so that all workers end together, as far as that gains more than the partials cost.
class CutChoice {
 public:
  /// Cuts are at multiples of 64 tokens from an item's start, a KV tile of most kernels, where segments count as much
  /// as their slices have room for.
  static constexpr std::int64_t kGranule = 64;
  /// A cut that gains less than 1/32 of the time is not worth partials or more planning.
  static constexpr Nanoseconds kWorthwhileShare = 32;
  // Rounds try parts that cost one worker's share, a half or a quarter of it; first at most that, then at least that.
  static constexpr std::int32_t kRounds = 6;
  /// A time that no choice has.
  static constexpr Nanoseconds kNever = Nanoseconds{1} << 62;

  // The cost limit of a part: an item is cut into parts that cost at most `cost`. With `longer`, parts cost at least
  // `cost`, which may make one part fewer, as where 8 heads of 17 parts would be a round and a bit on 132 workers.
  struct CostCap {
    Nanoseconds cost = TaskCosts::kMaxTask;  // no task costs more: no cut
    bool longer = false;

    bool operator==(const CostCap&) const = default;
  };
  TRUNKLINE_HOST_DEVICE static CostCap cost_cap_of(std::int32_t round, Nanoseconds ideal) {
    return {max<Nanoseconds>(ideal >> (round / 2), 1), round % 2 != 0};
  }
  TRUNKLINE_HOST_DEVICE static std::int32_t parts(const TaskLoad& load, const CostCap& cap) {
    return parts<std::int64_t>(load.whole, load.tokens, cap.cost, cap.longer);
  }
  /// The same, from a load's cost and tokens. \tparam Number type that holds their sums
  template <class Number>
  TRUNKLINE_HOST_DEVICE static std::int32_t parts(Number whole, Number tokens, Number cost, bool longer) {
    if (whole <= cost) return 1;
    const Number limit = min<Number>(max<Number>(tokens / Number{kMinTokens}, 1), Number{kMaxParts});
    const Number wanted = longer ? whole / cost : ceil_div(whole, cost);
    return static_cast<std::int32_t>(min(wanted, limit));
  }
  /// Whether another round may gain something.
  TRUNKLINE_HOST_DEVICE static bool may_gain(Nanoseconds best, Nanoseconds ideal) {
    return best - ideal > ideal / kWorthwhileShare;
  }
  /// Whether partials take more than a fifth of the KV bytes of all while there are more tasks than workers. One for
  /// each worker at most is never too many: 16 requests with 2,032 tokens in common and 17 of their own take an H200
  /// 39 us in 8 tasks, 19 in 128 of which partials take half as much as KV.
  /// \param partials of all queries in all items that are cut \param tasks of one KV head, but for those without
  /// tokens: rows that pad a batch take no worker's time to speak of \param tokens that all items read
  TRUNKLINE_HOST_DEVICE static bool too_many(std::int64_t partials, std::int64_t tasks, std::int64_t tokens,
                                             const TaskCosts& costs) {
    return tasks * costs.kv_heads > costs.workers &&
           partials * costs.partial_bytes > tokens * costs.token_bytes / kPartialShare;
  }

  /// \param few_partials no choice has too_many() partials
  TRUNKLINE_HOST_DEVICE CutChoice(const TaskCosts& costs, CostClasses& classes, bool few_partials)
      : costs_(costs), classes_(classes), few_partials_(few_partials) {}

  /// Prices the loads, and tries ever smaller parts. \param load_at gives item i's load, to be changed. \return the
  /// plan's time without launch: the bound of CostClasses, or what memory takes.
  template <class LoadAt>
  TRUNKLINE_HOST_DEVICE Nanoseconds choose(std::int32_t count, const LoadAt& load_at) {
    chosen_ = {};
    Nanoseconds best = uncut_time(count, load_at);
    work_ = classes_.total();
    ideal_ = max(classes_.ideal(costs_.workers, costs_.kv_heads), costs_.memory_time);
    for (rounds_ = 0; rounds_ < kRounds && may_gain(best, ideal_); ++rounds_) {
      const CostCap cap = cost_cap_of(rounds_, ideal_);
      const Nanoseconds time = time_of(count, load_at, cap);
      if (time >= best) continue;
      best = time;
      chosen_ = cap;
      work_ = classes_.total();
    }
    return best;
  }

  /// Puts the tasks of the last choice into the classes. \return how many there are for each KV head
  template <class LoadAt>
  TRUNKLINE_HOST_DEVICE std::int64_t classify(std::int32_t count, const LoadAt& load_at) {
    classes_.clear();
    std::int64_t tasks = 0;
    for (std::int32_t i = 0; i < count; ++i) {
      const TaskLoad& load = load_at(i);
      tasks += classify(load, parts(load));
    }
    return tasks;
  }

  /// The plan's time without cuts, were all workers busy to the end.
  TRUNKLINE_HOST_DEVICE Nanoseconds ideal() const { return ideal_; }
  /// Whether the last choice is no cut, and the classes still hold what all items cost.
  TRUNKLINE_HOST_DEVICE bool classes_are_uncut() const { return rounds_ == 0; }
  /// The cost of all tasks of one KV head, by the last choice.
  TRUNKLINE_HOST_DEVICE Nanoseconds work() const { return work_; }
  /// Parts of an item by the last choice.
  TRUNKLINE_HOST_DEVICE std::int32_t parts(const TaskLoad& load) const { return parts(load, chosen_); }

 private:
  // Parts have at least 128 tokens, below which an item's fixed cost outweighs what it streams.
  static constexpr std::int64_t kMinTokens = 128;
  static constexpr std::int64_t kMaxParts = std::int64_t{1} << 20;
  static constexpr std::int64_t kPartialShare = 5;

  TRUNKLINE_HOST_DEVICE std::int32_t classify(const TaskLoad& load, std::int32_t parts) {
    classes_.add(parts == 1 ? load.whole : load.part_cost(costs_, parts), parts);
    return parts;
  }

  template <class LoadAt>
  TRUNKLINE_HOST_DEVICE Nanoseconds uncut_time(std::int32_t count, const LoadAt& load_at) {
    classes_.clear();
    const TaskCosts costs = costs_;  // a copy: no store to the loads can change it
    for (std::int32_t i = 0; i < count; ++i) {
      TaskLoad& load = load_at(i);
      load.price(costs);
      classes_.add(load.whole);
    }
    return time_of_classes();
  }
  template <class LoadAt>
  TRUNKLINE_HOST_DEVICE Nanoseconds time_of(std::int32_t count, const LoadAt& load_at, const CostCap& cap) {
    classes_.clear();
    std::int64_t tokens = 0;
    std::int64_t tasks = 0;
    std::int64_t partials = 0;
    for (std::int32_t i = 0; i < count; ++i) {
      const TaskLoad& load = load_at(i);
      const std::int32_t count_of = classify(load, parts(load, cap));
      tokens += load.tokens;
      tasks += load.tokens > 0 ? count_of : 0;
      partials += count_of > 1 ? std::int64_t{count_of} * load.queries : 0;
    }
    return few_partials_ && too_many(partials, tasks, tokens, costs_) ? kNever : time_of_classes();
  }
  TRUNKLINE_HOST_DEVICE Nanoseconds time_of_classes() const {
    return costs_.finish(classes_.bound(costs_.workers, costs_.kv_heads),
                         classes_.ideal_of_busy(costs_.workers, costs_.kv_heads));
  }

  const TaskCosts& costs_;
  CostClasses& classes_;
  bool few_partials_;
  CostCap chosen_;
  std::int32_t rounds_ = 0;  // tried
  Nanoseconds work_ = 0;
  Nanoseconds ideal_ = 0;
};

}  // namespace trunkline
