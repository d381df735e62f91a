// Searches how finely items are cut along KV: the rounds of CutChoice, a warp for each.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/cost_classes.hpp"
#include "plan/cut_choice.hpp"
#include "plan/device/arena.hpp"
#include "plan/device/thread_group.hpp"
#include "plan/task_costs.hpp"

namespace trunkline {

/// Counts tasks and adds up their costs by the size classes of CostClasses. All entries are 0 between uses.
struct CostHistogram {
  static constexpr auto kClasses = static_cast<std::int32_t>(CostClasses::kClasses);

  std::uint64_t* sums = nullptr;   // [kClasses]
  std::uint32_t* tasks = nullptr;  // [kClasses]

  TRUNKLINE_HOST_DEVICE void lay_out(Arena& arena) {
    arena.take(sums, kClasses);
    arena.take(tasks, kClasses);
  }
  template <class Group>
  TRUNKLINE_HOST_DEVICE void clear(Group& group, std::int32_t begin, std::int32_t end) const {
    group.for_each(end - begin, [&](std::int32_t i) {
      sums[begin + i] = 0;
      tasks[begin + i] = 0;
    });
  }
  /// Sums fit into 64 bits: CutChoice makes at most four parts for each worker beside one for each item, and no task
  /// costs more than 2^46 ns. \return the class
  template <class Group>
  TRUNKLINE_HOST_DEVICE std::int32_t add(Nanoseconds cost, std::int32_t times) const {
    const auto index = static_cast<std::int32_t>(CostClasses::class_of(cost));
    Group::fetch_add(sums[index], static_cast<std::uint64_t>(CostClasses::product(cost, times)));
    Group::fetch_add(tasks[index], static_cast<std::uint32_t>(times));
    return index;
  }
  TRUNKLINE_HOST_DEVICE Nanoseconds sum(std::int32_t index) const {
    return static_cast<Nanoseconds>(min(sums[index], static_cast<std::uint64_t>(CostClasses::kMaxSum)));
  }
};

/// The time of all items under one choice of cuts.
struct CutTime {
  Nanoseconds time = 0;   ///< without the launch; CutChoice::kNever if the cuts make too many partials
  Nanoseconds work = 0;   ///< of all tasks of one KV head
  Nanoseconds ideal = 0;  ///< if all workers were busy to the end
};

/// The best choice of cuts.
struct ChosenCut {
  CutChoice::CostCap cap;
  Nanoseconds time = 0;
  Nanoseconds work = 0;
  Nanoseconds ideal = 0;  ///< of all items uncut, or the time of the memory's reads if that is longer
};

class CutSearch {
 public:
  static constexpr std::int32_t kRounds = CutChoice::kRounds;

  struct Scratch {
    CostHistogram histograms[kRounds];
    CutTime* times = nullptr;  // [kRounds]

    TRUNKLINE_HOST_DEVICE void lay_out(Arena& arena) {
      for (CostHistogram& histogram : histograms) histogram.lay_out(arena);
      arena.take(times, kRounds);
    }
    template <class Group>
    TRUNKLINE_HOST_DEVICE void clear(Group& group) const {
      group.for_each(kRounds * CostHistogram::kClasses, [&](std::int32_t i) {
        const CostHistogram& histogram = histograms[i / CostHistogram::kClasses];
        histogram.sums[i % CostHistogram::kClasses] = 0;
        histogram.tasks[i % CostHistogram::kClasses] = 0;
      });
    }
  };

  /// \param few_partials no choice makes CutChoice::too_many()
  TRUNKLINE_HOST_DEVICE CutSearch(const TaskCosts& costs, bool few_partials, const Scratch& scratch)
      : costs_(costs), few_partials_(few_partials), s_(scratch) {}

  /// Prices the loads and tries ever smaller parts, as CutChoice::choose does.
  template <class Group>
  TRUNKLINE_HOST_DEVICE ChosenCut choose(Group& group, TaskLoad* loads, std::int32_t count) const {
    group.for_each(count, [&](std::int32_t i) { loads[i].price(costs_); });
    const CutTime uncut = time_of(group, s_.histograms[0], loads, count, nullptr);
    ChosenCut best{{}, uncut.time, uncut.work, max(uncut.ideal, costs_.memory_time)};
    if (!CutChoice::may_gain(best.time, best.ideal)) return best;
    group.for_each_warp(kRounds, [&](std::int32_t round, auto& warp) {
      const CutChoice::CostCap cap = CutChoice::cost_cap_of(round, best.ideal);
      const CutTime time = time_of(warp, s_.histograms[round], loads, count, &cap);
      warp.once([&] { s_.times[round] = time; });
    });
    for (std::int32_t round = 0; round < kRounds && CutChoice::may_gain(best.time, best.ideal); ++round) {
      if (s_.times[round].time >= best.time) continue;
      best.cap = CutChoice::cost_cap_of(round, best.ideal);
      best.time = s_.times[round].time;
      best.work = s_.times[round].work;
    }
    group.sync();  // before the next search writes `times`
    return best;
  }

 private:
  struct Sums {
    std::int64_t tokens = 0;
    std::int64_t tasks = 0;
    std::int64_t tasks_with_tokens = 0;
    std::int64_t partials = 0;
    std::int32_t first_class = CostHistogram::kClasses;
    std::int32_t last_class = -1;

    TRUNKLINE_HOST_DEVICE friend Sums operator+(const Sums& a, const Sums& b) {
      return {a.tokens + b.tokens,
              a.tasks + b.tasks,
              a.tasks_with_tokens + b.tasks_with_tokens,
              a.partials + b.partials,
              min(a.first_class, b.first_class),
              max(a.last_class, b.last_class)};
    }
  };

  TRUNKLINE_HOST_DEVICE static Nanoseconds capped(Nanoseconds sum) { return min(sum, CostClasses::kMaxSum); }

  /// \param cap null: no item is cut
  template <class Group>
  TRUNKLINE_HOST_DEVICE CutTime time_of(Group& group, const CostHistogram& histogram, const TaskLoad* loads,
                                        std::int32_t count, const CutChoice::CostCap* cap) const {
    const Sums sums = group.reduce(
        count, Sums{},
        [&](std::int32_t i) {
          const TaskLoad& load = loads[i];
          const std::int32_t parts = cap == nullptr ? 1 : CutChoice::parts(load, *cap);
          const Nanoseconds cost = parts == 1 ? load.whole : load.part_cost(costs_, parts);
          const std::int32_t index = histogram.template add<Group>(cost, parts);
          const std::int64_t partials = parts > 1 ? std::int64_t{parts} * load.queries : 0;
          return Sums{load.tokens, parts, load.tokens > 0 ? parts : 0, partials, index, index};
        },
        [](const Sums& a, const Sums& b) { return a + b; });
    const std::int32_t first = sums.first_class;
    const std::int32_t classes = max(sums.last_class + 1 - first, 0);
    CutTime result;
    result.work = group.reduce(
        classes, Nanoseconds{0}, [&](std::int32_t i) { return histogram.sum(first + i); },
        [](Nanoseconds a, Nanoseconds b) { return capped(a + b); });
    const Nanoseconds of_all_heads = CostClasses::product(result.work, costs_.kv_heads);
    const Nanoseconds bound =
        max(find_bound(group, histogram, first, classes), ceil_div<Nanoseconds>(of_all_heads, costs_.workers));
    const std::int64_t busy = min<std::int64_t>(costs_.workers, sums.tasks * costs_.kv_heads);
    result.ideal = of_all_heads / costs_.workers;
    const Nanoseconds of_busy = of_all_heads / max<std::int64_t>(busy, 1);
    const bool refused = few_partials_ && cap != nullptr &&
                         CutChoice::too_many(sums.partials, sums.tasks_with_tokens, sums.tokens, costs_);
    result.time = refused ? CutChoice::kNever : costs_.finish(bound, of_busy);
    histogram.clear(group, first, first + classes);
    return result;
  }

  /// Computes CostClasses::bound without its mean: if there are k * workers + 1 tasks, some worker has k + 1 of them.
  template <class Group>
  TRUNKLINE_HOST_DEVICE Nanoseconds find_bound(Group& group, const CostHistogram& histogram, std::int32_t first,
                                               std::int32_t classes) const {
    const auto class_at = [&](std::int32_t i) { return first + classes - 1 - i; };  // from the longest tasks on
    group.exclusive_scan(
        classes, [&](std::int32_t i) { return std::int64_t{histogram.tasks[class_at(i)]} * costs_.kv_heads; },
        [&](std::int32_t i, std::int64_t longer) {
          const std::int32_t index = class_at(i);
          const std::int64_t tasks = histogram.tasks[index];
          if (tasks == 0) return;
          const std::int64_t all = longer + tasks * costs_.kv_heads;
          const Nanoseconds mean = histogram.sum(index) / tasks;
          // The sum of this class is not read again.
          histogram.sums[index] =
              static_cast<std::uint64_t>(CostClasses::product((all - 1) / costs_.workers + 1, mean));
        });
    return group.reduce(
        classes, Nanoseconds{0}, [&](std::int32_t i) { return static_cast<Nanoseconds>(histogram.sums[first + i]); },
        [](Nanoseconds a, Nanoseconds b) { return max(a, b); });
  }

  const TaskCosts& costs_;
  bool few_partials_;
  const Scratch& s_;
};

}  // namespace trunkline
