#include "cli/replay_execute.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "cli/text.hpp"
#include "cli/with_cuda.hpp"
#include "synthetic/paged_batch.hpp"
#include "synthetic/synthetic_cache.hpp"
#include "trunkline/machine.hpp"

namespace trunkline::cli {
namespace {

// Beside K, V, Q and O: plans with their workspaces, and what the oracle copies.
constexpr double kBeside = 0.25;

// The largest step has the whole pool.
void check_memory(const Options& options) {
  const replay::SchedulerOptions& scheduler = options.replay.loop.scheduler;
  const std::int64_t queries = std::int64_t{scheduler.max_batch} * (1 + scheduler.drafts);
  const std::int64_t tensors = synthetic_cache_bytes(options.shape, scheduler.num_pages, queries);
  const double needed = static_cast<double>(tensors) * (1 + kBeside);
  const std::int64_t available = cpu_info().memory_available_bytes;
  if (needed <= static_cast<double>(available)) return;
  fail(ErrorCode::kInvalidArgument, "--execute needs ", human_bytes(needed), " for a pool of ", scheduler.num_pages,
       " pages, and ", human_bytes(static_cast<double>(available)),
       " are available; give a smaller --pool, fewer KV heads (--heads) or a smaller --head-dim");
}

// Caches stay as they are where nothing is timed.
Options run_options(const Options& options) {
  Options run = options;
  run.warm = options.replay.repeat == 0;
  run.repeat = std::max(options.replay.repeat, 1);
  run.policies.clear();
  return run;
}

}  // namespace

StepExecutor::StepExecutor(const Options& options, Workers& workers)
    : options_(run_options(options)), workers_(workers) {
  check_memory(options);
  backend_ = options.shape.device == Device::kCuda ? make_cuda_backend(options_, {})
                                                   : make_cpu_backend(options_, {}, workers_);
}

StepExecutor::~StepExecutor() = default;

ExecutedStep StepExecutor::run(LiveBatch& live, const Plan& plan) {
  const Batch batch = live.batch();
  const PagedBatch paged = compact_copy(batch);
  Batch compact = paged.view();
  compact.slots = batch.slots;
  compact.generations = batch.generations;
  const Forest forest = build_forest(compact, IdCheck::kAllPages);
  SyntheticOptions synthetic;
  synthetic.seed = static_cast<std::uint64_t>(options_.seed);
  const SyntheticCache cache(options_.shape, compact, forest, synthetic, workers_);
  const HostBatch host{paged, compact, cache.args()};
  const Oracle oracle(options_.shape, compact, host.tensors, &workers_);
  std::vector<Plan> plans = plans_of(forest, plan);
  const std::size_t count = plans.size();
  const std::unique_ptr<LoadedBatch> loaded = backend_->load(host, std::move(plans));

  ExecutedStep result;
  result.rows = oracle.rows();
  for (std::size_t p = 0; p < count; ++p) {
    loaded->run(p);
    const OracleError error = oracle.compare(host.tensors);
    result.error.output = std::max(result.error.output, error.output);
    result.error.lse = std::max(result.error.lse, error.lse);
  }
  result.passed = within(result.error, backend_->device().tolerance);
  if (options_.replay.repeat == 0) return result;
  const std::vector<Timing> times = loaded->time();
  for (std::size_t p = 1; p < count; ++p) result.times.push_back({loaded->plan(p).policy, times[p]});
  return result;
}

// The step's own first; then, where they are timed, one of each policy for the batch as it is.
std::vector<Plan> StepExecutor::plans_of(const Forest& forest, const Plan& plan) {
  std::vector<Plan> plans = {plan};
  if (options_.replay.repeat == 0) return plans;
  for (const Policy policy : options_.replay.loop.policies) {
    PlanOptions timed = options_.plan;
    timed.policy = policy;
    plans.push_back(backend_->planner().plan(forest, options_.shape, timed));
  }
  return plans;
}

}  // namespace trunkline::cli
