#include "plan/team_plan_case.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <numeric>
#include <thread>
#include <type_traits>

#include "base/check.hpp"
#include "plan/team/host_team.hpp"
#include "plan/team/sketch_cuts.hpp"
#include "plan/team/team_plan.hpp"
#include "plan/told_rows.hpp"
#include "support/thread_team.hpp"

namespace trunkline::testing {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

template <class T>
std::optional<std::string> compare(const char* name, const std::vector<T>& expected, const std::vector<T>& actual) {
  for (std::size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
    if (std::memcmp(&expected[i], &actual[i], sizeof(T)) != 0) {
      std::string words;
      for (const T* from : {&expected[i], &actual[i]}) {
        words += from == &expected[i] ? "; expected" : "; found";
        for (std::size_t word = 0; word < sizeof(T) / 4; ++word) {
          std::int32_t value = 0;
          std::memcpy(&value, reinterpret_cast<const char*>(from) + 4 * word, 4);
          words += concat(" ", value);
        }
      }
      return concat(name, "[", i, "] of ", expected.size(), " differs", words);
    }
  }
  if (expected.size() != actual.size()) {
    return concat(name, " has ", actual.size(), " entries instead of ", expected.size());
  }
  return std::nullopt;
}

/// The forest's arrays as a team holds them.
struct ForestArrays {
  explicit ForestArrays(const Forest& forest) : nodes(forest.nodes), order(forest.order) {
    for (const ForestRequest& request : forest.requests) {
      kv_len.push_back(request.kv_len);
      query_begin.push_back(request.query_begin);
      node.push_back(request.node);
    }
    query_begin.push_back(
        forest.requests.empty() ? 0 : forest.requests.back().query_begin + forest.requests.back().queries);
    view = {.nodes = nodes.data(),
            .order = order.data(),
            .kv_len = kv_len.data(),
            .query_begin = query_begin.data(),
            .node = node.data(),
            .rows = static_cast<std::int32_t>(order.size()),
            .node_count = static_cast<std::int32_t>(nodes.size()),
            .total_tokens = forest.total_tokens,
            .distinct_tokens = forest.distinct_tokens};
  }

  std::vector<ForestNode> nodes;
  std::vector<std::int32_t> order;
  std::vector<std::int32_t> kv_len;
  std::vector<std::int32_t> query_begin;
  std::vector<std::int32_t> node;
  TeamForest view;
};

/// What a block has for itself.
struct OwnMemory {
  OwnMemory(std::int32_t rows, std::int32_t histograms) {
    TeamMemory counted_apart(nullptr), counted_over(nullptr);
    memory.lay_out(counted_apart, counted_over, rows, histograms);
    over_bytes = counted_over.bytes();
    bytes.assign(over_bytes + counted_apart.bytes(), std::byte{0xCD});
    TeamMemory apart(bytes.data() + over_bytes), over(bytes.data());
    memory.lay_out(apart, over, rows, histograms);
  }
  /// As finding a forest leaves what need not be apart.
  void overwrite() { std::fill_n(bytes.begin(), over_bytes, std::byte{0xCD}); }
  /// What an earlier plan, or memory that nobody has written, leaves of tiles and items.
  void leave_other_items() {
    std::memset(static_cast<void*>(memory.tile_sums), 0xCD, FewTiles::kMost * sizeof(TileSums));
    std::memset(static_cast<void*>(memory.item_marks), 0xCD, FewItems::kMost * sizeof(ItemMark));
  }

  BlockMemory memory{};
  std::vector<std::byte> bytes;
  std::size_t over_bytes = 0;
};

/// Tells a block of the forest's rows as find_forest() does of one that it has near. \return PlanTask::rows_told
bool tell_rows(const PlanTask& task, std::uint64_t order) {
  const ToldRows told(task.forest);
  HostTeam team(order);
  task.block.state->hot = told.hot;
  const bool alike = std::all_of(told.alike.begin(), told.alike.end(), [](bool each) { return each; });
  if (alike && order % 4 < 2) {  // as of a forest that was laid out anew
    std::vector<std::int32_t> tokens, shared;
    for (const NearRow& row : told.rows) {
      tokens.push_back(row.kv_len);
      shared.push_back(row.shared);
    }
    TeamForest forest = task.forest;
    forest.tokens = tokens.data();
    forest.shared = shared.data();
    AlikeRequests<HostTeam>::copy(team, task, forest);
    return task.forest.rows > 0;
  }
  team.each(task.forest.rows,
            [&](std::int32_t i) { AlikeRequests<HostTeam>::take(task, told.rows[at(i)], told.alike[at(i)]); });
  return task.forest.rows > 0 && task.block.state->unlike == 0;
}

/// Lists with room for a capacity, full of what must not be read.
struct ListRoom {
  explicit ListRoom(const PlanCapacity& capacity) {
    const auto room = [](auto& list, std::int64_t count) {
      list.resize(at(count));
      std::memset(static_cast<void*>(list.data()), 0xAB, list.size() * sizeof(list[0]));
    };
    room(plan.queries, capacity.queries);
    room(plan.items, capacity.items);
    room(plan.item_queries, std::int64_t{capacity.queries} + capacity.partials);
    room(plan.item_outputs, std::int64_t{capacity.queries} + capacity.partials);
    room(plan.spans, capacity.spans);
    room(plan.masks, capacity.spans);
    room(plan.merge_queries, capacity.queries);
    room(plan.merge_begin, std::int64_t{capacity.queries} + 1);
    room(plan.merge_slots, capacity.partials);
    room(plan.partial_merges, capacity.partials);
    room(plan.schedule, capacity.items);
  }

  PlanLists lists() {
    return {&counts,
            plan.queries.data(),
            plan.items.data(),
            plan.item_queries.data(),
            plan.item_outputs.data(),
            plan.spans.data(),
            reinterpret_cast<std::uint64_t*>(plan.masks.data()),
            plan.merge_queries.data(),
            plan.merge_begin.data(),
            plan.merge_slots.data(),
            plan.partial_merges.data(),
            plan.schedule.data()};
  }

  UploadedPlan written(std::int32_t queries, const TeamPlanStatus& status) {
    plan.queries.resize(at(queries));
    plan.items.resize(at(counts.items));
    plan.item_queries.resize(at(counts.item_queries));
    plan.item_outputs.resize(at(counts.item_queries));
    plan.spans.resize(at(counts.spans));
    plan.masks.resize(at(status.masks));
    plan.merge_queries.resize(at(counts.merges));
    plan.merge_begin.resize(at(counts.merges) + 1);
    plan.merge_slots.resize(at(status.partials));
    plan.partial_merges.resize(at(status.partials));
    plan.schedule.resize(at(counts.items));
    return std::move(plan);
  }

  ListCounts counts{};
  UploadedPlan plan;
};

}  // namespace

UploadedPlan uploaded(const Plan& plan, const Forest& forest) {
  std::map<std::int32_t, std::int32_t> rows;
  for (std::size_t row = 0; row < forest.requests.size(); ++row) {
    rows[forest.requests[row].slot] = static_cast<std::int32_t>(row);
  }
  UploadedPlan result;
  for (const Query& query : plan.queries) {
    const std::int32_t row = rows.at(query.slot);
    result.queries.push_back({row, forest.requests[at(row)].query_begin + query.token, query.from_end});
  }
  for (const KvSpan& span : plan.spans) {
    result.spans.push_back({rows.at(span.slot), span.begin, span.end, span.mask, span.flags});
  }
  result.items = plan.items;
  result.item_queries = plan.item_queries;
  result.item_outputs = plan.item_outputs;
  result.masks = plan.masks;
  result.merge_queries = plan.merge_queries;
  result.merge_begin = plan.merge_begin;
  result.merge_slots = plan.merge_slots;
  result.schedule = plan.schedule;
  result.partial_merges.resize(at(plan.partials));
  for (std::size_t merge = 0; merge < plan.merge_queries.size(); ++merge) {
    for (std::int32_t i = plan.merge_begin[merge]; i < plan.merge_begin[merge + 1]; ++i) {
      result.partial_merges[at(plan.merge_slots[at(i)])] = static_cast<std::int32_t>(merge);
    }
  }
  return result;
}

UploadedPlan team_plan(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
                       const PlanCapacity& capacity, const TeamOptions& options, TeamPlanStatus* status) {
  const TeamMachine machine = make_team_machine(profile, shape, capacity);
  ForestArrays arrays(forest);
  std::int32_t rows = arrays.view.rows + options.spare_rows;
  if (options.before != nullptr) rows = std::max(rows, static_cast<std::int32_t>(options.before->requests.size()));
  PlanMemory memory{};
  const std::size_t size = memory.lay_out(nullptr, rows, capacity);
  std::vector<std::byte> bytes(size, std::byte{0xCD});
  memory.lay_out(bytes.data(), rows, capacity);
  std::vector<OwnMemory> blocks;
  for (std::int32_t i = 0; i < std::max(1, options.blocks); ++i) blocks.emplace_back(rows, options.histograms);
  // What is known of requests is by turns of all blocks, or of each.
  std::vector<PlanMemory> memories(blocks.size(), memory);
  std::vector<std::vector<std::byte>> near(blocks.size());
  for (std::size_t i = 0; (options.seed + static_cast<std::uint64_t>(options.blocks)) % 2 == 1 && i < blocks.size();
       ++i) {
    TeamMemory counted(nullptr);
    memories[i].keep_near(counted, rows);
    near[i].assign(counted.bytes(), std::byte{0xCD});
    TeamMemory own(near[i].data());
    memories[i].keep_near(own, rows);
  }
  *memory.guess = {};
  std::vector<TileGuess> guesses(blocks.size());
  const auto plan = [&](const TeamForest& view, const PlanLists& lists, std::int32_t threaded_blocks) {
    HostTeam alone(options.seed);
    guesses.assign(guesses.size(), *memory.guess);
    for (PlanMemory& each : memories) each.keep_all(memory);
    for (OwnMemory& each : blocks) {
      each.memory.begin();
      each.leave_other_items();
    }
    for (OwnMemory& each : blocks) {
      each.memory.state->sketch.made.by_try = -1;  // told where there is one
      each.memory.state->chosen.number = -1;       // of a sketch that is the plan
    }
    std::vector<PlanTask> tasks;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      tasks.push_back({machine, view, memories[i], memory, blocks[i].memory, guesses[i]});
      if (options.rows_told) tasks.back().rows_told = tell_rows(tasks.back(), options.seed);
    }
    const auto plan_of = [&](auto& team, std::int32_t rank) {
      if constexpr (requires { team.keep_memory(nullptr); }) team.keep_memory(blocks[at(rank)].bytes.data());
      // As where a block is the last to find the forest, which others have long begun to plan with.
      team.own([&](auto& block, bool last) {
        block.once([&] {
          if (last) std::this_thread::sleep_for(options.last_comes_after);
          blocks[at(rank)].overwrite();
        });
      });
      const PlanTask& task = tasks[at(rank)];
      using Team = std::decay_t<decltype(team)>;
      TeamPlanner<Team>::plan(team, task, lists, PlanSketcher<Team>::may_make(team, task),
                              [](const TeamPlanStatus&) {});
    };
    if (threaded_blocks == 0) {
      plan_of(alone, 0);
    } else {
      run_threads(threaded_blocks, options.threads, plan_of);
    }
  };
  ListRoom earlier_room(capacity);
  for (const Forest* const earlier : {options.before, options.before, options.between, options.between}) {
    if (earlier != nullptr) plan(ForestArrays(*earlier).view, earlier_room.lists(), options.blocks);
  }
  for (std::int32_t i = 0; i < options.earlier_plans; ++i) plan(arrays.view, earlier_room.lists(), options.blocks);
  ListRoom room(capacity);
  const std::int32_t guessed_round = memory.guess->round;
  plan(arrays.view, room.lists(), options.blocks);
  if (options.sketches != nullptr && blocks[0].memory.state->sketch.made.by_try >= 0) {
    ++options.sketches->made;
    const bool taken = blocks[0].memory.state->chosen.number < 0;
    const int number = blocks[0].memory.state->sketch.made.by_try;
    const TriedTiles& tried = blocks[0].memory.state->tried[number];
    const std::int32_t round = CutChoice::round_of(tried.pieces, tried.choice.ideal);
    const PlanMemory& sketched = memories.back();
    const std::int32_t parts = sketched.shape[PlanMemory::kItems] - sketched.shape[PlanMemory::kPacks];
    const bool placed = SketchCuts::places_items(sketched);
    options.sketches->taken += taken ? 1 : 0;
    options.sketches->placed += taken && placed ? 1 : 0;
    options.sketches->most_placed = most(options.sketches->most_placed, taken && placed ? parts : 0);
    options.sketches->told += taken && parts > 0 && !placed ? 1 : 0;
    options.sketches->early += taken && number >= machine.width_count ? 1 : 0;
    options.sketches->other += taken && round != guessed_round ? 1 : 0;
  }
  if (options.sketches != nullptr && memories[0].shape[PlanMemory::kOwnTiles] == kSharedTiles) {
    ++options.sketches->shared;
  }
  *status = *memory.status;
  return room.written(arrays.query_begin.back(), *status);
}

std::optional<std::string> find_difference(const UploadedPlan& expected, const UploadedPlan& actual) {
  std::optional<std::string> difference = compare("queries", expected.queries, actual.queries);
  const auto list = [&](const char* name, const auto& of_expected, const auto& of_actual) {
    if (!difference) difference = compare(name, of_expected, of_actual);
  };
  list("items", expected.items, actual.items);
  list("item_queries", expected.item_queries, actual.item_queries);
  list("item_outputs", expected.item_outputs, actual.item_outputs);
  list("spans", expected.spans, actual.spans);
  list("masks", expected.masks, actual.masks);
  list("merge_queries", expected.merge_queries, actual.merge_queries);
  list("merge_begin", expected.merge_begin, actual.merge_begin);
  list("merge_slots", expected.merge_slots, actual.merge_slots);
  list("partial_merges", expected.partial_merges, actual.partial_merges);
  list("schedule", expected.schedule, actual.schedule);
  return difference;
}

}  // namespace trunkline::testing
