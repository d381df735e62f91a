#include "cli/cuda/device_probes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "cli/measure.hpp"

namespace trunkline::cli {
namespace {

constexpr int kRepeats = 9;
constexpr std::int32_t kSweptTokens[] = {64, 256, 1024, 4096};
constexpr std::int32_t kSweptRows[] = {1, 4, 8, 16, 32, 64, 128};
constexpr std::int32_t kLongTokens = 32768;
constexpr std::int32_t kShortTokens = 8192;
constexpr std::int32_t kCutTokens = 1024;
constexpr std::int32_t kCachedTokens = 4096;                // 16 MiB
constexpr std::int64_t kMinCache = std::int64_t{32} << 20;  // that holds them beside what else is read
constexpr std::int32_t kMaxQueries = kSweptRows[std::size(kSweptRows) - 1] / kMaxProbeGroup;

/// Elements of ordinary size, in copies of one block.
DeviceArray filled(std::size_t bytes) {
  constexpr std::size_t kBlock = std::size_t{16} << 20;
  std::vector<std::byte> block(std::min(bytes, kBlock));
  fill_probe_elements(block.data(), block.size());
  DeviceArray array(bytes);
  for (std::size_t at = 0; at < bytes; at += block.size()) {
    check_cuda(cudaMemcpy(static_cast<std::byte*>(array.data()) + at, block.data(), std::min(block.size(), bytes - at),
                          cudaMemcpyHostToDevice),
               "cudaMemcpy");
  }
  return array;
}

/// Roots with which every worker gets equally many (item, KV head) pairs, as few as can be.
std::int32_t min_even_roots(std::int32_t workers) {
  return workers / std::gcd(workers, kProbeKvHeads);
}

/// The most that any probe has.
std::int64_t max_pages(std::int32_t workers) {
  std::int64_t tokens = kLongTokens;
  for (const std::int32_t each : kSweptTokens) {
    tokens = std::max(tokens, std::int64_t{each} * balanced_roots(each, workers));
  }
  constexpr std::int64_t kSpare = 64;  // of the pool that are in no request
  return tokens / kProbePageSize + tokens / kProbePageSize / 8 + kSpare;
}

std::int64_t max_requests(std::int32_t workers) {
  return std::int64_t{kMaxQueries} * balanced_roots(kSweptTokens[0], workers);
}

}  // namespace

DeviceProbes::Tensors::Tensors(std::int64_t max_of_pages, std::int64_t max_of_requests)
    : pages(max_of_pages),
      requests(max_of_requests),
      q(filled(static_cast<std::size_t>(requests * kProbeQueryBytes))),
      k(filled(static_cast<std::size_t>(pages * kProbePageBytes))),
      v(filled(static_cast<std::size_t>(pages * kProbePageBytes))),
      out(static_cast<std::size_t>(requests * kProbeQueryBytes)) {
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

DeviceProbes::DeviceProbes(std::int32_t device, const MachineProfile& profile, ReplayTimer& timer, const Stream& stream)
    : timer_(timer),
      stream_(stream),
      executor_(CudaOptions{.device = device, .kernels = CudaKernels::kPortable}),
      planner_(profile),
      tensors_(max_pages(profile.workers), max_requests(profile.workers)) {}

AttentionArgs DeviceProbes::args_for(const AttentionShape& shape) const {
  AttentionArgs args;
  args.q = tensors_.q.data();
  args.k = nhd_cache(tensors_.k.data(), shape);
  args.v = nhd_cache(tensors_.v.data(), shape);
  args.out = tensors_.out.data();
  return args;
}

DeviceProbes::Timed DeviceProbes::time(const ProbeTree& tree, std::int32_t group, const PlanOptions& options,
                                       Caches caches) {
  const ProbeBatch probe(tree, group, options, planner_);
  if (probe.pages() > tensors_.pages || probe.requests() > tensors_.requests) {
    fail(ErrorCode::kInternal, "a probe has ", probe.pages(), " pages and ", probe.requests(),
         " requests; there is room for ", tensors_.pages, " and ", tensors_.requests);
  }
  const DeviceTable table(probe.paged());
  const DeviceWorkspace workspace(executor_, probe.plan());
  const AttentionArgs args = args_for(probe.shape());
  const Enqueue run = [&](cudaStream_t on) { executor_.run(args, workspace.data(), on); };
  executor_.upload(probe.plan(), probe.batch(), workspace.data(), workspace.bytes(), stream_.get());
  executor_.resolve(table.batch(), workspace.data(), stream_.get());
  run(stream_.get());  // loads the kernels, which is not for a capture
  check_cuda(cudaStreamSynchronize(stream_.get()), "attention");
  std::vector<double> us = std::move(timer_.replay_in_turn(stream_, kRepeats, {&run, 1}, caches).front());
  return {summarize(std::move(us)).us, probe.tasks_each(planner_.profile().workers)};
}

CostTimes::Cut DeviceProbes::time_cut(std::int32_t roots, std::int32_t queries) {
  PlanOptions in_two;
  in_two.policies.node_chunk = kCutTokens / 2;
  const ProbeTree tree{roots, kCutTokens, queries};
  const Timed whole = time(tree, kMaxProbeGroup, {});
  const Timed cut = time(tree, kMaxProbeGroup, in_two);
  return {static_cast<double>(queries), whole.us, cut.us, whole.tasks_each, cut.tasks_each};
}

CostTimes DeviceProbes::cost_times() {
  constexpr std::int32_t kManyTimes = 8;
  const std::int32_t roots = min_even_roots(planner_.profile().workers);
  CostTimes times;
  times.empty_us = time({1, 0, 1}, kMaxProbeGroup, {}).us;
  times.one_token_us = time({1, 1, 1}, kMaxProbeGroup, {}).us;
  const Timed few = time({roots, 1, 1}, kMaxProbeGroup, {});
  const Timed many = time({kManyTimes * roots, 1, 1}, kMaxProbeGroup, {});
  times.few_items_us = few.us;
  times.few_tasks = few.tasks_each;
  times.many_items_us = many.us;
  times.many_tasks = many.tasks_each;
  times.narrow = time_cut(roots, 1);
  times.wide = time_cut(roots, planner_.profile().tiles.back().m / kMaxProbeGroup);
  times.query_partial_kib = 4.0 * kMaxProbeGroup * (kProbeHeadDim + 1) / 1024;  // fp32 O and LSE
  times.short_us = time({1, kShortTokens, 1}, kMaxProbeGroup, {}).us;
  times.long_us = time({1, kLongTokens, 1}, kMaxProbeGroup, {}).us;
  times.longer_bytes = static_cast<double>(kLongTokens - kShortTokens) * 4 * kProbeHeadDim;  // K and V of one head
  return times;
}

TileTimes DeviceProbes::tile_times(const DeviceCosts& costs) {
  const MachineProfile& profile = planner_.profile();
  TileTimes times;
  times.tiles = profile.tiles;
  times.tokens.assign(std::begin(kSweptTokens), std::end(kSweptTokens));
  for (const std::int32_t rows : kSweptRows) {
    if (rows <= profile.tiles.back().m) times.rows.push_back(rows);
  }
  const double once_us = costs.launch_us + costs.fill_us;
  for (const std::int32_t rows : times.rows) {
    const std::int32_t group = probe_group(rows);
    for (const std::int32_t tokens : times.tokens) {
      const std::int32_t roots = balanced_roots(tokens, profile.workers);
      for (const TileShape tile : times.tiles) {
        PlanOptions options;
        options.tile = tile;
        const double us = time({roots, tokens, rows / group}, group, options).us;
        // By run of tokens, not by item: where a tile is too low, several items share one.
        const double runs_each = static_cast<double>(roots) * kProbeKvHeads / profile.workers;
        times.us.push_back(std::max(us - once_us, us / 2) / runs_each);
      }
    }
  }
  return times;
}

CostTable DeviceProbes::cached_table(const DeviceCosts& costs) {
  const MachineProfile& profile = planner_.profile();
  CostTable table{kProbeHeadDim, {}, {kCachedTokens}, {}};
  if (profile.llc_bytes < kMinCache) return table;
  const double once_us = costs.launch_us + costs.fill_us;
  for (const TileShape tile : profile.tiles) {
    if (tile.m < kMaxProbeGroup || (!table.rows.empty() && table.rows.back() == tile.m)) continue;
    PlanOptions options;
    options.tile = tile;
    const std::int32_t items = 2 * min_even_roots(profile.workers);
    const Timed timed =
        time({1, kCachedTokens, items * (tile.m / kMaxProbeGroup)}, kMaxProbeGroup, options, Caches::kWarm);
    table.rows.push_back(tile.m);
    table.us.push_back(std::max(timed.us - once_us, timed.us / 2) / timed.tasks_each);
  }
  return table;
}

}  // namespace trunkline::cli
