#include "cli/tune_probe.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "cli/probe_batch.hpp"
#include "cli/ready_plan.hpp"
#include "synthetic/arena.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline::cli {
namespace {

/// K, V, Q and O that all probes use, one at a time.
class ProbeTensors {
 public:
  /// \param cold_bytes of K and V that other runs read before one reads the same again
  ProbeTensors(std::int64_t pages, std::int64_t requests, std::int64_t cold_bytes)
      : pages_(pages + cold_bytes / (2 * kProbePageBytes)),
        query_bytes_(static_cast<std::size_t>(requests * kProbeQueryBytes)),
        k_(checked(pages_, query_bytes_)),
        v_(cache_bytes()),
        q_(query_bytes_),
        out_(query_bytes_) {
    fill_probe_elements(k_.data(), cache_bytes());
    fill_probe_elements(v_.data(), cache_bytes());
    fill_probe_elements(q_.data(), query_bytes_);
    std::memset(out_.data(), 0, query_bytes_);
  }
  /// For a run that uses page ids below `pages`: the next so many of the pool, from its start again at its end.
  AttentionArgs next_args(const AttentionShape& shape, std::int64_t pages) {
    if (next_page_ + pages > pages_) next_page_ = 0;
    const std::int64_t offset = next_page_ * kProbePageBytes;
    next_page_ += pages;
    AttentionArgs args;
    args.q = q_.data();
    args.k = nhd_cache(k_.data() + offset, shape);
    args.v = nhd_cache(v_.data() + offset, shape);
    args.out = out_.data();
    return args;
  }

 private:
  std::size_t cache_bytes() const { return static_cast<std::size_t>(pages_ * kProbePageBytes); }
  /// The bytes of K, after a check that memory has room for K, V, Q and O.
  static std::size_t checked(std::int64_t pages, std::size_t query_bytes) {
    const std::int64_t needed = 2 * (pages * kProbePageBytes + static_cast<std::int64_t>(query_bytes));
    const std::int64_t available = cpu_info().memory_available_bytes;
    if (needed <= available) return static_cast<std::size_t>(pages * kProbePageBytes);
    fail(ErrorCode::kInvalidArgument, "measuring needs ", needed, " bytes of memory and ", available,
         " are available; give fewer --threads");
  }

  std::int64_t pages_;
  std::int64_t next_page_ = 0;
  std::size_t query_bytes_;
  Arena k_;
  Arena v_;
  Arena q_;
  Arena out_;
};

/// One batch, ready to run.
class Probe {
 public:
  Probe(const ProbeTree& tree, std::int32_t group, const PolicyOptions& policies, Planner& planner,
        const CpuExecutor& executor)
      : batch_(tree, group, plan_options(policies), planner), ready_(batch_.plan(), executor, batch_.batch()) {}
  const ProbeBatch& batch() const { return batch_; }
  double time(ProbeTensors& tensors) {
    const AttentionArgs args = tensors.next_args(batch_.shape(), batch_.pages());
    return time_us([&] { ready_.run(args); });
  }

 private:
  static PlanOptions plan_options(const PolicyOptions& policies) {
    PlanOptions options;
    options.policies = policies;
    return options;
  }

  ProbeBatch batch_;
  ReadyPlan ready_;
};

using Probes = std::vector<std::unique_ptr<Probe>>;

ProbeTensors tensors_for(const Probes& probes, std::int64_t cold_bytes) {
  std::int64_t pages = 0;
  std::int64_t requests = 0;
  for (const auto& probe : probes) {
    pages = std::max(pages, probe->batch().pages());
    requests = std::max(requests, probe->batch().requests());
  }
  return {pages, requests, cold_bytes};
}

/// The lowest decile of `rounds` runs of each, in turn: what else runs on the machine only slows a run down, and
/// threads that sleep are woken late.
std::vector<double> fast_times(const Probes& probes, ProbeTensors tensors, int rounds) {
  std::vector<std::vector<double>> us(probes.size());
  for (int round = 0; round <= rounds; ++round) {
    for (std::size_t i = 0; i < probes.size(); ++i) {
      const double time = probes[i]->time(tensors);
      if (round > 0) us[i].push_back(time);  // the first touches workspaces and outputs
    }
  }
  std::vector<double> fast;
  for (std::vector<double>& times : us) fast.push_back(summarize(std::move(times)).us_p10);
  return fast;
}

}  // namespace

FixedCosts measure_fixed_costs(const MachineProfile& profile, Workers& workers, Progress& progress) {
  progress.step("timing launches, items and partials");
  constexpr std::int32_t kManyItems = 512;
  constexpr int kRounds = 101;
  constexpr std::int32_t kCutTokens = 512;
  constexpr std::int32_t kCutQueries = 32;
  const CpuExecutor executor(workers);
  Planner planner(profile);
  PolicyOptions chunks;
  chunks.node_chunk = 64;
  const std::int32_t many = kManyItems * std::max(workers.size() / kProbeKvHeads, 1);
  const ProbeTree cut{balanced_roots(kCutTokens, workers.size()), kCutTokens, kCutQueries};
  Probes probes;
  probes.push_back(std::make_unique<Probe>(ProbeTree{1, 1, 1}, 4, PolicyOptions{}, planner, executor));
  probes.push_back(std::make_unique<Probe>(ProbeTree{many, 1, 1}, 4, PolicyOptions{}, planner, executor));
  Probes cuts;
  cuts.push_back(std::make_unique<Probe>(cut, 4, PolicyOptions{}, planner, executor));
  cuts.push_back(std::make_unique<Probe>(cut, 4, chunks, planner, executor));
  const std::vector<double> small = fast_times(probes, tensors_for(probes, 0), kRounds);
  const std::vector<double> large = fast_times(cuts, tensors_for(cuts, 0), kRounds / 5);

  FixedCosts costs;
  const int size = workers.size();
  const double few_tasks = std::max(probes[0]->batch().tasks_each(size), 1.0);
  costs.item_us = std::max(small[1] - small[0], 0.0) / (probes[1]->batch().tasks_each(size) - few_tasks);
  costs.launch_us = std::max(small[0] - few_tasks * costs.item_us, 0.0);
  const double more_items = cuts[1]->batch().tasks_each(size) - cuts[0]->batch().tasks_each(size);
  const double partial_us = large[1] - large[0] - more_items * costs.item_us;
  // Written once; PlanStatistics counts writing and reading.
  const double kib_each = static_cast<double>(cuts[1]->batch().plan().statistics.partial_bytes) / 2 / 1024 / size;
  costs.partial_us_per_kib = std::max(partial_us, 0.0) / kib_each;
  return costs;
}

CostTable measure_cost_table(const MachineProfile& profile, Workers& workers, Progress& progress) {
  CostTable table;
  table.head_dim = kProbeHeadDim;
  table.rows = {1, 4, 8, 16, 32, 64, 128};
  table.tokens = {64, 256, 1024, 4096};
  const CpuExecutor executor(workers);
  Planner planner(profile);
  Probes probes;
  for (const std::int32_t rows : table.rows) {
    for (const std::int32_t tokens : table.tokens) {
      const std::int32_t group = probe_group(rows);
      const ProbeTree tree{balanced_roots(tokens, workers.size()), tokens, rows / group};
      probes.push_back(std::make_unique<Probe>(tree, group, PolicyOptions{}, planner, executor));
    }
  }
  const auto llc_bytes = static_cast<std::size_t>(std::max<std::int64_t>(profile.llc_bytes, 0));
  ProbeTensors tensors = tensors_for(probes, static_cast<std::int64_t>(CacheFlusher::buffer_bytes(llc_bytes)));
  table.us.assign(probes.size(), 0);
  for (std::size_t round = 0; round < kCostTableRounds; ++round) {
    progress.step("timing items of all sizes");
    for (std::size_t i = 0; i < probes.size(); ++i) {
      const double time = probes[i]->time(tensors);
      // A launch that seems to take more than half of this was measured at a bad moment.
      const double each = std::max(time - profile.launch_us, time / 2) / probes[i]->batch().tasks_each(workers.size());
      table.us[i] = round == 0 ? each : std::min(table.us[i], each);
    }
  }
  return table;
}

}  // namespace trunkline::cli
