#include "plan/device/plan_case.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>

#include "base/check.hpp"

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

/// Memory filled with values that must not be read.
class Memory {
 public:
  template <class LayOut>
  explicit Memory(LayOut lay_out) {
    Arena counted(nullptr);
    lay_out(counted);
    bytes_.assign(counted.bytes(), std::byte{0xCD});
    Arena arena(bytes_.data());
    lay_out(arena);
  }

 private:
  std::vector<std::byte> bytes_;
};

/// Copies a forest to the arrays of the device planner.
void copy_forest(const Forest& from, const DeviceForest& to) {
  std::copy(from.nodes.begin(), from.nodes.end(), to.nodes);
  std::copy(from.order.begin(), from.order.end(), to.order);
  to.query_begin[from.requests.size()] = 0;
  for (std::size_t row = 0; row < from.requests.size(); ++row) {
    const ForestRequest& request = from.requests[row];
    to.kv_len[row] = request.kv_len;
    to.query_begin[row] = request.query_begin;
    to.query_begin[row + 1] = request.query_begin + request.queries;
    to.node[row] = request.node;
    to.tree[row] = request.tree ? 1 : 0;
  }
}
/// Sets the totals of a forest.
DeviceForest described(const Forest& from, DeviceForest to) {
  to.has_trees = std::any_of(from.requests.begin(), from.requests.end(), [](const auto& each) { return each.tree; });
  to.query_parents = from.query_parents.data();
  to.rows = static_cast<std::int32_t>(from.requests.size());
  to.node_count = static_cast<std::int32_t>(from.nodes.size());
  to.total_tokens = from.total_tokens;
  to.distinct_tokens = from.distinct_tokens;
  return to;
}

/// Lists with a capacity, filled with values that must not be read.
struct ListRoom {
  explicit ListRoom(const PlannerMachine& machine) {
    const PlanCapacity& capacity = machine.capacity;
    const auto room = [](auto& list, std::int64_t count) {
      list.resize(at(count));
      std::memset(static_cast<void*>(list.data()), 0xAB, list.size() * sizeof(list[0]));
    };
    room(plan.queries, capacity.queries);
    room(plan.items, capacity.items);
    room(plan.item_queries, std::int64_t{capacity.queries} + capacity.partials);
    room(plan.item_outputs, std::int64_t{capacity.queries} + capacity.partials);
    room(plan.spans, capacity.spans);
    room(plan.masks, machine.mask_capacity);
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

  UploadedPlan written(std::int32_t queries, const PlanSummary& summary) {
    plan.queries.resize(at(queries));
    plan.items.resize(at(counts.items));
    plan.item_queries.resize(at(counts.item_queries));
    plan.item_outputs.resize(at(counts.item_queries));
    plan.spans.resize(at(counts.spans));
    plan.masks.resize(at(summary.masks));
    plan.merge_queries.resize(at(counts.merges));
    plan.merge_begin.resize(at(counts.merges) + 1);
    plan.merge_slots.resize(at(summary.partials));
    plan.partial_merges.resize(at(summary.partials));
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

namespace {

/// A planner's memory, and lists with room for its capacity.
class PlannerOnHost {
 public:
  PlannerOnHost(const trunkline::DeviceBatch& batch, const PlannerMachine& machine, const HostThreads& threads)
      : machine_(machine),
        threads_(threads),
        room_rows_(std::max(batch.rows, 1)),
        memory_([&](Arena& arena) { task_.memory.lay_out(arena, room_rows_, machine.capacity); }),
        search_memory_([&](Arena& arena) { search_.lay_out(arena, room_rows_); }),
        tile_memory_([&](Arena& arena) { tile_.lay_out(arena); }),
        room_(machine) {
    task_.machine = &machine_;
    task_.batch = batch;
    task_.lists = room_.lists();
    *task_.memory.planned.step = {};
  }

  /// \param prepare(group, phases, forest arrays) finds or copies the forest
  template <class Prepare>
  UploadedPlan plan(Prepare prepare, PlanSummary* summary) {
    const PlannerPhases phases(task_);
    threads_.run([&](HostGroup& group) { prepare(group, phases, task_.memory); });
    for (std::int32_t i = 0; i < machine_.width_count; ++i) {
      threads_.run([&](HostGroup& group) { phases.try_full(group, i, search_); });
    }
    for (std::int32_t i = 0; i < TrunkCore::kEarlyTries; ++i) {
      threads_.run([&](HostGroup& group) { phases.try_early(group, i, search_); });
    }
    for (std::int32_t i = phases.tile_count(); i-- > 0;) {
      threads_.run([&](HostGroup& group) { phases.list_tile(group, i, tile_); });
    }
    threads_.run([&](HostGroup& group) { phases.lay_out(group, task_.memory.layout.cuts); });
    for (std::int32_t i = phases.pack_count(); i-- > 0;) {
      threads_.run([&](HostGroup& group) { phases.write_pack(group, i); });
    }
    *summary = *task_.memory.layout.summary;
    const std::int32_t queries = task_.memory.step->forest.query_begin[task_.batch.rows];
    if (queries <= machine_.capacity.queries) {
      threads_.run([&](HostGroup& group) { phases.write_queries(group, {0, task_.batch.rows}); });
    }
    return room_.written(std::min(queries, machine_.capacity.queries), *summary);
  }

 private:
  const PlannerMachine& machine_;
  HostThreads threads_;
  std::int32_t room_rows_;
  PlannerTask task_;
  TileSearch::Scratch search_;
  TileScratch tile_;
  Memory memory_, search_memory_, tile_memory_;
  ListRoom room_;
};

}  // namespace

UploadedPlan device_plan(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
                         const PlanCapacity& capacity, const HostThreads& threads, PlanSummary* summary,
                         std::int32_t invariant_chunk) {
  const PlannerMachine machine = make_planner_machine(profile, shape, capacity, invariant_chunk);
  trunkline::DeviceBatch batch;
  batch.rows = static_cast<std::int32_t>(forest.requests.size());
  return PlannerOnHost(batch, machine, threads)
      .plan(
          [&](HostGroup& group, const PlannerPhases& phases, const PlannerMemory& memory) {
            DeviceForest view;
            group.once([&] { copy_forest(forest, memory.forest); });
            view = described(forest, memory.forest);
            phases.prepare(group, view, {});
          },
          summary);
}

UploadedPlan device_plan(const trunkline::DeviceBatch& batch, const AttentionShape& shape,
                         const MachineProfile& profile, const PlanCapacity& capacity, const HostThreads& threads,
                         PlanSummary* summary) {
  const PlannerMachine machine = make_planner_machine(profile, shape, capacity);
  return PlannerOnHost(batch, machine, threads)
      .plan(
          [&](HostGroup& group, const PlannerPhases& phases, const PlannerMemory& memory) {
            for (std::int32_t row = 0; row < batch.rows; ++row) phases.compare_row(group, row);
            phases.find_forest(group, false, memory.search);
          },
          summary);
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
