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

/// The 32-bit words of a list's entries, in order.
template <class T>
constexpr const char* kFields = "";
template <>
constexpr const char* kFields<RowSpan> = " (row, begin, end, mask, SpanFlags)";
template <>
constexpr const char* kFields<RowQuery> = " (row, token, from_end)";

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
      return concat(name, "[", i, "] of ", expected.size(), " differs", words, kFields<T>);
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
struct ListMemory {
  ListMemory(const PlanCapacity& capacity, std::int32_t group_size) {
    for_each_list(
        sizes_of(capacity, group_size),
        [](const PlanListInfo& info, auto& list) {
          list.resize(info.entries);
          std::memset(static_cast<void*>(list.data()), 0xAB, list.size() * sizeof(list[0]));
        },
        plan);
  }

  PlanLists lists() {
    PlanLists lists;
    for_each_list(
        {}, [](const PlanListInfo&, auto& to, auto& list) { to = list.data(); }, lists, plan);
    lists.counts = &counts;
    return lists;
  }

  UploadedPlan written(std::int32_t queries, const PlanSummary& summary) {
    const PlanSizes sizes{.queries = at(queries),
                          .items = at(counts.items),
                          .item_queries = at(counts.item_queries),
                          .spans = at(counts.spans),
                          .masks = at(summary.masks),
                          .merge_queries = at(counts.merges),
                          .merge_slots = at(summary.partials),
                          .partials = at(summary.partials)};
    for_each_list(
        sizes, [](const PlanListInfo& info, auto& list) { list.resize(info.entries); }, plan);
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
  for (const QueryMask& mask : plan.masks)
    result.masks.insert(result.masks.end(), mask.words.begin(), mask.words.end());
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

/// A planner's memory, and lists of its capacity.
class PlannerOnHost {
 public:
  PlannerOnHost(const trunkline::DeviceBatch& batch, const PlannerMachine& machine, std::int32_t group_size,
                const HostThreads& threads)
      : machine_(machine),
        threads_(threads),
        memory_rows_(std::max(batch.rows, 1)),
        memory_([&](Arena& arena) { task_.memory.lay_out(arena, memory_rows_, machine.capacity); }),
        search_memory_([&](Arena& arena) { search_.lay_out(arena, memory_rows_); }),
        tile_memory_([&](Arena& arena) { tile_.lay_out(arena); }),
        lists_(machine.capacity, group_size) {
    task_.machine = &machine_;
    task_.batch = batch;
    task_.lists = lists_.lists();
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
    return lists_.written(std::min(queries, machine_.capacity.queries), *summary);
  }

 private:
  const PlannerMachine& machine_;
  HostThreads threads_;
  std::int32_t memory_rows_;
  PlannerTask task_;
  TileSearch::Scratch search_;
  TileScratch tile_;
  Memory memory_, search_memory_, tile_memory_;
  ListMemory lists_;
};

}  // namespace

UploadedPlan device_plan(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
                         const PlanCapacity& capacity, const HostThreads& threads, PlanSummary* summary,
                         std::int32_t invariant_chunk) {
  const PlannerMachine machine = make_planner_machine(profile, shape, capacity, invariant_chunk);
  trunkline::DeviceBatch batch;
  batch.rows = static_cast<std::int32_t>(forest.requests.size());
  return PlannerOnHost(batch, machine, shape.group_size(), threads)
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
  return PlannerOnHost(batch, machine, shape.group_size(), threads)
      .plan(
          [&](HostGroup& group, const PlannerPhases& phases, const PlannerMemory& memory) {
            for (std::int32_t row = 0; row < batch.rows; ++row) phases.compare_row(group, row);
            phases.find_forest(group, false, memory.search);
          },
          summary);
}

std::optional<std::string> find_difference(const UploadedPlan& expected, const UploadedPlan& actual) {
  std::optional<std::string> difference;
  for_each_list(
      {},
      [&](const PlanListInfo& info, const auto& of_expected, const auto& of_actual) {
        if (!difference) difference = compare(info.name, of_expected, of_actual);
      },
      expected, actual);
  return difference;
}

}  // namespace trunkline::testing
