// Batches in the form of the device planner.
#pragma once

#include <string>
#include <variant>

#include "plan/device/device_batch.hpp"
#include "support/brute_forest.hpp"
#include "trunkline/batch.hpp"
#include "trunkline/forest.hpp"

namespace trunkline::testing {

inline trunkline::DeviceBatch device_batch_of(const Batch& batch) {
  trunkline::DeviceBatch device;
  const PageTable& pages = batch.pages;
  std::visit(
      [&](auto ids) {
        device.table.ids = ids.data();
        device.table.entries = static_cast<std::int64_t>(ids.size());
        device.table.wide = sizeof(ids[0]) == sizeof(std::int64_t);
      },
      pages.ids());
  device.table.indptr = pages.indptr();
  device.table.row_map = pages.row_map();
  device.table.width = pages.width();
  device.table.page_size = pages.page_size();
  device.kv_lens = batch.kv_lens.data();
  device.query_start = batch.query_start.empty() ? nullptr : batch.query_start.data();
  device.query_parents = batch.query_parents.empty() ? nullptr : batch.query_parents.data();
  device.rows = batch.rows();
  device.max_queries = batch.total_queries();
  device.null_page = batch.null_page;
  return device;
}

/// Returns the parts of a forest that the device planner knows, as text: all but slots and generations.
inline std::string text_without_slots(Forest forest) {
  for (ForestRequest& request : forest.requests) {
    request.slot = 0;
    request.generation = 0;
  }
  return to_text(forest);
}

}  // namespace trunkline::testing
