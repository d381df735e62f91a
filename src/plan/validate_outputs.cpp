#include <cstddef>
#include <vector>

#include "base/check.hpp"
#include "plan/validate.hpp"

namespace trunkline {
namespace {

constexpr std::int32_t kNobody = -1;

/// Query that each partial slot is written for.
struct Writers {
  std::vector<std::int32_t> query_of_slot;  // kNobody where unwritten
  std::vector<std::int32_t> partials;       // [queries] slots written for each
};

Violation collect_writers(const Plan& plan, Writers& writers) {
  std::vector<std::int32_t> items(plan.queries.size(), 0);
  for (const WorkItem& item : plan.items) {
    for (std::int32_t i = item.queries.begin; i < item.queries.end; ++i) {
      ++items[static_cast<std::size_t>(plan.item_queries[static_cast<std::size_t>(i)])];
    }
  }
  for (std::size_t query = 0; query < items.size(); ++query) {
    if (items[query] == 0) return concat("query ", query, " is in no item");
  }
  for (std::size_t index = 0; index < plan.items.size(); ++index) {
    const Range queries = plan.items[index].queries;
    for (std::int32_t i = queries.begin; i < queries.end; ++i) {
      const std::int32_t query = plan.item_queries[static_cast<std::size_t>(i)];
      const std::int32_t slot = plan.item_outputs[static_cast<std::size_t>(i)];
      const std::int32_t held_by = items[static_cast<std::size_t>(query)];
      if ((slot == kDirect) != (held_by == 1)) {
        return concat("query ", query, " is in ", held_by, " items, but item ", index, " writes slot ", slot,
                      " for it");
      }
      if (slot == kDirect) continue;
      if (slot < 0 || slot >= plan.partials) {
        return concat("item ", index, " writes partial slot ", slot, "; there are ", plan.partials);
      }
      std::int32_t& owner = writers.query_of_slot[static_cast<std::size_t>(slot)];
      if (owner != kNobody) return concat("partial slot ", slot, " is written twice");
      owner = query;
      ++writers.partials[static_cast<std::size_t>(query)];
    }
  }
  for (std::size_t slot = 0; slot < writers.query_of_slot.size(); ++slot) {
    if (writers.query_of_slot[slot] == kNobody) return concat("partial slot ", slot, " is never written");
  }
  return std::nullopt;
}

Violation check_merge_form(const Plan& plan) {
  if (plan.merge_begin.size() != plan.merge_queries.size() + 1 || plan.merge_begin.front() != 0 ||
      static_cast<std::size_t>(plan.merge_begin.back()) != plan.merge_slots.size()) {
    return "merge_begin is no CSR index into merge_slots";
  }
  for (std::size_t i = 0; i < plan.merge_queries.size(); ++i) {
    if (plan.merge_begin[i] > plan.merge_begin[i + 1]) return concat("merge_begin decreases at ", i);
    const std::int32_t query = plan.merge_queries[i];
    if (query < 0 || static_cast<std::size_t>(query) >= plan.queries.size()) {
      return concat("merge_queries[", i, "] is ", query, "; there are ", plan.queries.size());
    }
  }
  return std::nullopt;
}

/// Takes each listed slot from its writer, so that neither a slot nor a query can be listed twice.
Violation check_merges(const Plan& plan, Writers& writers) {
  for (std::size_t i = 0; i < plan.merge_queries.size(); ++i) {
    const std::int32_t query = plan.merge_queries[i];
    std::int32_t& unmerged = writers.partials[static_cast<std::size_t>(query)];
    if (unmerged == 0) return concat("query ", query, " is merged again, or has nothing to merge");
    for (std::int32_t j = plan.merge_begin[i]; j < plan.merge_begin[i + 1]; ++j) {
      const std::int32_t slot = plan.merge_slots[static_cast<std::size_t>(j)];
      if (slot < 0 || slot >= plan.partials)
        return concat("merge_slots[", j, "] is ", slot, "; there are ", plan.partials);
      std::int32_t& owner = writers.query_of_slot[static_cast<std::size_t>(slot)];
      if (owner != query) return concat("the merge of query ", query, " lists slot ", slot, ", which is not its own");
      owner = kNobody;
      --unmerged;
    }
  }
  for (std::size_t query = 0; query < writers.partials.size(); ++query) {
    if (writers.partials[query] != 0) {
      return concat(writers.partials[query], " partials of query ", query, " are never merged");
    }
  }
  return std::nullopt;
}

}  // namespace

Violation find_output_violation(const Plan& plan) {
  if (plan.item_outputs.size() != plan.item_queries.size()) {
    return concat(plan.item_outputs.size(), " item outputs for ", plan.item_queries.size(), " item queries");
  }
  // A plan's numbers may be anything: a slot is written by one entry of item_outputs, so there cannot be more.
  if (plan.partials < 0 || static_cast<std::size_t>(plan.partials) > plan.item_outputs.size()) {
    return concat("plan has ", plan.partials, " partials for ", plan.item_outputs.size(), " item outputs");
  }
  Writers writers{std::vector<std::int32_t>(static_cast<std::size_t>(plan.partials), kNobody),
                  std::vector<std::int32_t>(plan.queries.size(), 0)};
  if (Violation violation = collect_writers(plan, writers)) return violation;
  if (Violation violation = check_merge_form(plan)) return violation;
  return check_merges(plan, writers);
}

}  // namespace trunkline
