// From what was measured on a GPU to its profile.
#pragma once

#include <string>
#include <vector>

#include "cli/tile_times.hpp"
#include "cli/tuned.hpp"
#include "machine/cpu_transfer.hpp"
#include "trunkline/machine.hpp"

namespace trunkline::cli {

/// Costs of a run besides reading and multiplying.
struct DeviceCosts {
  double launch_us = 0;
  double fill_us = 0;
  double item_us = 0;
  double cut_us = 0;
  double partial_us_per_kib = 0;
  double worker_read_bytes_per_us = 0;
};

/// Medians of a few times of small plans.
struct CostTimes {
  double empty_us = 0;                         ///< a request without tokens
  double one_token_us = 0;                     ///< a request of one token
  double few_items_us = 0, many_items_us = 0;  ///< items of one token
  double few_tasks = 0, many_tasks = 0;        ///< (item, KV head) pairs of each worker in these
  /// Equal items of few and of many queries, whole and cut in two.
  struct Cut {
    double queries = 0;
    double whole_us = 0, cut_us = 0;
    double whole_tasks = 0, cut_tasks = 0;  ///< of each worker
  };
  Cut narrow, wide;
  double query_partial_kib = 0;      ///< one query's partial in one KV head
  double short_us = 0, long_us = 0;  ///< one request alone
  double longer_bytes = 0;           ///< that each of its workers reads more in the longer one
};
DeviceCosts costs_of(const CostTimes& times);

struct DeviceMeasurement {
  TransferFit stream;  ///< of cold streaming reads of several sizes
  double cache_bytes_per_us = 0;
  std::vector<TransferTime> transfers;
  DeviceCosts costs;
  TileTimes tile_times;
  CostTable cached;  ///< as tile_times in the smallest tile that holds the rows, but of tokens in the L2 cache
};

/// \param known the compiled-in profile of the device: what is not measured, with `device_name` as its name
Tuned tuned_device(const MachineProfile& known, const std::string& device_name, DeviceMeasurement measured);

}  // namespace trunkline::cli
