#include "cli/tune_probe.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/random.hpp"
#include "cli/ready_plan.hpp"
#include "kv/arena.hpp"
#include "kv/paged_batch.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline::cli {
namespace {

constexpr std::int32_t kPageSize = 16;
constexpr std::int32_t kMostGroup = 4;
// Enough tokens that a run takes a millisecond or more: the launch, which is subtracted, does not matter then.
constexpr std::int32_t kLeastTokens = 8192;

AttentionShape probe_shape(std::int32_t group) {
  return {group * kProbeKvHeads, kProbeKvHeads, kProbeHeadDim, kPageSize, DType::kF16, Device::kCpu};
}

/// `roots` runs of `tokens` tokens, each read by `queries` requests that end there: one item each.
struct ProbeTree {
  std::int32_t roots;
  std::int32_t tokens;
  std::int32_t queries;

  PrefixTree tree() const {
    PrefixTree result;
    result.name = "probe";
    for (std::int32_t root = 0; root < roots; ++root) {
      result.parent.push_back(-1);
      result.tokens.push_back(tokens);
      for (std::int32_t query = 0; query < queries; ++query) result.end_node.push_back(root);
    }
    return result;
  }
};

/// So many that every worker gets equally many (item, KV head) pairs, at least two.
std::int32_t balanced_roots(std::int32_t tokens, std::int32_t workers) {
  const std::int32_t even = workers / std::gcd(workers, kProbeKvHeads);
  const std::int32_t least =
      std::max((kLeastTokens + tokens - 1) / tokens, (2 * workers + kProbeKvHeads - 1) / kProbeKvHeads);
  return (least + even - 1) / even * even;
}

/// Bytes of 16-bit elements between 1/8 and 1/4 in magnitude, of both signs: nothing overflows, nothing is denormal.
void fill(std::byte* data, std::size_t bytes) {
  constexpr std::uint64_t kEighth = 0x3000'3000'3000'3000;
  constexpr std::uint64_t kVaried = 0x83ff'83ff'83ff'83ff;  // sign and fraction
  RandomBits random(1);
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = kEighth | (random.next() & kVaried);
    std::memcpy(data + at, &word, sizeof(word));
  }
}

/// K, V, Q and O that all probes use, one at a time.
class ProbeTensors {
 public:
  /// \param cold_bytes of K and V that other runs read before one reads the same again
  ProbeTensors(std::int64_t pages, std::int64_t requests, std::int64_t cold_bytes)
      : pages_(pages + cold_bytes / (2 * kPageBytes)),
        query_bytes_(static_cast<std::size_t>(requests) * kQueryBytes),
        k_(checked(pages_, query_bytes_)),
        v_(cache_bytes()),
        q_(query_bytes_),
        out_(query_bytes_) {
    fill(k_.data(), cache_bytes());
    fill(v_.data(), cache_bytes());
    fill(q_.data(), query_bytes_);
    std::memset(out_.data(), 0, query_bytes_);
  }
  /// For a run that uses page ids below `pages`: the next so many of the pool, from its start again at its end.
  AttentionArgs next_args(const AttentionShape& shape, std::int64_t pages) {
    if (next_page_ + pages > pages_) next_page_ = 0;
    const std::int64_t offset = next_page_ * kPageBytes;
    next_page_ += pages;
    AttentionArgs args;
    args.q = q_.data();
    args.k = nhd_cache(k_.data() + offset, shape);
    args.v = nhd_cache(v_.data() + offset, shape);
    args.out = out_.data();
    return args;
  }

 private:
  static constexpr std::int64_t kTokenBytes = std::int64_t{2} * kProbeKvHeads * kProbeHeadDim;  // of one of K and V
  static constexpr std::int64_t kPageBytes = kPageSize * kTokenBytes;
  static constexpr std::size_t kQueryBytes = static_cast<std::size_t>(kMostGroup * kTokenBytes);

  std::size_t cache_bytes() const { return static_cast<std::size_t>(pages_ * kPageBytes); }
  /// The bytes of K, after a look at what all four need.
  static std::size_t checked(std::int64_t pages, std::size_t query_bytes) {
    const std::int64_t needed = 2 * (pages * kPageBytes + static_cast<std::int64_t>(query_bytes));
    const std::int64_t available = cpu_info().memory_available_bytes;
    if (needed <= available) return static_cast<std::size_t>(pages * kPageBytes);
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

/// Requests that end with a shared run have an empty open-ended span each, for tokens to come. A run that is measured
/// has none to come, and a node of a real tree seldom has requests that end there.
void drop_empty_spans(Plan& plan, const Batch& batch) {
  std::vector<KvSpan> spans;
  for (WorkItem& item : plan.items) {
    const auto begin = static_cast<std::int32_t>(spans.size());
    for (std::int32_t i = item.spans.begin; i < item.spans.end; ++i) {
      const KvSpan& span = plan.spans[static_cast<std::size_t>(i)];
      if (span.at(batch.kv_lens[static_cast<std::size_t>(span.slot)]).size() > 0) spans.push_back(span);
    }
    item.spans = {begin, static_cast<std::int32_t>(spans.size())};
  }
  plan.spans = std::move(spans);
}

/// One batch with its plan.
class Probe {
 public:
  Probe(const ProbeTree& tree, std::int32_t group, const PolicyOptions& policies, Planner& planner,
        const CpuExecutor& executor)
      : shape_(probe_shape(group)), paged_(lay_out_pages(tree.tree(), kPageSize, 1)), batch_(paged_.view()) {
    PlanOptions options;
    options.policy = Policy::kNode;
    options.split = KvSplit::kNone;
    options.policies = policies;
    Plan plan = planner.plan(build_forest(batch_), shape_, options);
    drop_empty_spans(plan, batch_);
    ready_ = std::make_unique<ReadyPlan>(std::move(plan), executor, batch_);
  }
  std::int64_t pages() const { return paged_.num_pages; }
  std::int64_t requests() const { return batch_.rows(); }
  const Plan& plan() const { return ready_->plan(); }
  /// (item, KV head) pairs for each of so many workers.
  double tasks_each(int workers) const {
    return static_cast<double>(plan().items.size()) * kProbeKvHeads / static_cast<double>(workers);
  }
  double time(ProbeTensors& tensors) {
    const AttentionArgs args = tensors.next_args(shape_, pages());
    return time_us([&] { ready_->run(args); });
  }

 private:
  AttentionShape shape_;
  PagedBatch paged_;
  Batch batch_;
  std::unique_ptr<ReadyPlan> ready_;
};

using Probes = std::vector<std::unique_ptr<Probe>>;

ProbeTensors tensors_for(const Probes& probes, std::int64_t cold_bytes) {
  std::int64_t pages = 0;
  std::int64_t requests = 0;
  for (const auto& probe : probes) {
    pages = std::max(pages, probe->pages());
    requests = std::max(requests, probe->requests());
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
  const double few_tasks = std::max(probes[0]->tasks_each(size), 1.0);
  costs.item_us = std::max(small[1] - small[0], 0.0) / (probes[1]->tasks_each(size) - few_tasks);
  costs.launch_us = std::max(small[0] - few_tasks * costs.item_us, 0.0);
  const double more_items = cuts[1]->tasks_each(size) - cuts[0]->tasks_each(size);
  const double partial_us = large[1] - large[0] - more_items * costs.item_us;
  // Written once; PlanStatistics counts writing and reading.
  const double kib_each = static_cast<double>(cuts[1]->plan().statistics.partial_bytes) / 2 / 1024 / size;
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
      const double each = std::max(time - profile.launch_us, time / 2) / probes[i]->tasks_each(workers.size());
      table.us[i] = round == 0 ? each : std::min(table.us[i], each);
    }
  }
  return table;
}

}  // namespace trunkline::cli
