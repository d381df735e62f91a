// Output of `trunkline replay --replicas`, printed and as JSON.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "cli/options.hpp"
#include "replay/replay_totals.hpp"
#include "replay/routing/cluster.hpp"

namespace trunkline::cli {

/// Sums over the decode steps of one replica.
struct ReplicaTotals {
  std::int64_t steps = 0;
  std::int64_t requests = 0;  ///< sum over steps
  std::int64_t kv_tokens_total = 0;
  std::int64_t kv_tokens_distinct = 0;
  double attention_us = 0;          ///< predicted, of one layer
  std::int64_t held_pages_sum = 0;  ///< over steps
  std::int64_t held_pages_max = 0;

  void add(const replay::StepRecord& step);
};

struct ClusterResult {
  const Options& options;
  const replay::Trace& trace;  ///< superposed
  replay::Cluster& cluster;
  const replay::ReplayTotals& totals;  ///< of all replicas
  const std::vector<ReplicaTotals>& replicas;
  std::string machine;  ///< name of the profile
};

/// Lines of JSON: one for each replica, and one that sums up.
std::string cluster_to_json(const ClusterResult& result);

void print_cluster(std::ostream& out, const ClusterResult& result);

}  // namespace trunkline::cli
