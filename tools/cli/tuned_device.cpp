#include "cli/tuned_device.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "cli/probe_batch.hpp"
#include "cli/text.hpp"
#include "cli/tune_fit.hpp"

namespace trunkline::cli {
namespace {

/// The additional cost of an (item, KV head) that leaves partials, over one that does not.
double each_cut_us(const CostTimes::Cut& cut, double item_us) {
  const double more = cut.cut_us - cut.whole_us - (cut.cut_tasks - cut.whole_tasks) * item_us;
  return std::max(more, 0.0) / cut.cut_tasks;
}

void name_measured(const DeviceMeasurement& measured, FigureSources& sources) {
  sources["read_bytes_per_us"] =
      concat("measured: slope of the time of cold streaming reads of 256 MiB to 1 GiB against their bytes; intercept ",
             fixed(measured.stream.latency_us, 1), " us");
  sources["cache_bytes_per_us"] =
      measured.cache_bytes_per_us > measured.stream.bytes_per_us
          ? "measured: re-reads of about a quarter of the L2 cache by all SMs, 60 passes less 20"
          : "measured: re-reads from the L2 cache are no faster than memory, or it has no known size";
  sources["latency_us"] =
      "measured: dependent reads of 64 B to 1 MiB from cold memory by one CTA on every SM at once, 512 less 256 of the "
      "small ones; fitted latency";
  sources["worker_read_bytes_per_us"] = "measured: one request alone, 32,768 tokens less 8,192";
  sources["launch_us"] = "measured: a request without tokens, less item_us";
  sources["fill_us"] = "measured: a request of one token, less one without";
  sources["item_us"] = "measured: items of one token on all workers, many less few";
  sources["cut_us"] =
      "measured: items of 1,024 tokens on all workers, cut in two less whole, 1 query; less partials and item_us";
  sources["partial_us_per_kib"] = "measured: the same, 16 queries less 1";
  sources["cost_table"] =
      "measured: items of equal size on all workers, caches cold, in the smallest tile that holds their rows";
  sources["tile_steps"] = "measured: derived from the times of all tiles over lengths, caches cold";
}

void name_others(FigureSources& sources) {
  sources["workers"] = "as compiled: SMs, reported by the driver, x CTAs of the forward kernel that fit one";
  sources["flops_per_us"] =
      "not measured: the known profile's, as the dense 16-bit matrix rate needs a matrix library; flop_efficiency is "
      "fitted to it";
  for (const char* figure : {"narrow_rows", "row_quantum", "half_rows", "tiles"}) {
    sources[figure] = "as compiled: the forward kernels of this build";
  }
  sources["llc_bytes"] = "reported by the driver";
  for (const char* limit : {"sms", "shared_bytes_per_sm", "shared_bytes_per_cta", "registers_per_sm",
                            "registers_per_thread", "threads_per_sm", "ctas_per_sm"}) {
    sources[concat("gpu.", limit)] = "reported by the driver";
  }
  name_padding_sources(sources);
}

}  // namespace

DeviceCosts costs_of(const CostTimes& times) {
  DeviceCosts costs;
  costs.item_us = std::max(times.many_items_us - times.few_items_us, 0.0) / (times.many_tasks - times.few_tasks);
  // A launch that seems to take less than half of this was measured at a bad moment.
  costs.launch_us = std::max(times.empty_us - costs.item_us, times.empty_us / 2);
  costs.fill_us = std::max(times.one_token_us - times.empty_us, 0.0);
  const double narrow = each_cut_us(times.narrow, costs.item_us);
  const double wide = each_cut_us(times.wide, costs.item_us);
  const double query_us = std::max(wide - narrow, 0.0) / (times.wide.queries - times.narrow.queries);
  costs.partial_us_per_kib = query_us / times.query_partial_kib;
  costs.cut_us = std::max(narrow - query_us * times.narrow.queries, 0.0);
  const double longer_us = times.long_us - times.short_us;
  costs.worker_read_bytes_per_us = longer_us > 0 ? times.longer_bytes / longer_us : 0;
  return costs;
}

Tuned tuned_device(const MachineProfile& known, const std::string& device_name, DeviceMeasurement measured) {
  Tuned tuned;
  MachineProfile& profile = tuned.profile;
  profile = known;
  profile.name = device_name;
  profile.read_bytes_per_us = measured.stream.bytes_per_us;
  // A cache that is no faster than memory is not worth planning for.
  const bool cached = measured.cache_bytes_per_us > profile.read_bytes_per_us;
  profile.cache_bytes_per_us = cached ? measured.cache_bytes_per_us : 0;
  profile.latency_us = fit_transfers(measured.transfers).latency_us;
  profile.launch_us = measured.costs.launch_us;
  profile.fill_us = measured.costs.fill_us;
  profile.item_us = measured.costs.item_us;
  profile.cut_us = measured.costs.cut_us;
  profile.partial_us_per_kib = measured.costs.partial_us_per_kib;
  profile.worker_read_bytes_per_us = measured.costs.worker_read_bytes_per_us;
  profile.cost_table = cost_table_of(measured.tile_times, kProbeHeadDim);
  profile.tile_steps = tile_steps_of(measured.tile_times);
  const double misfit = fit_overlap(profile, measured.cached);
  tuned.sources["memory_overlap"] = tuned.sources["flop_efficiency"] =
      concat("fitted to measured items: cost_table",
             measured.cached.rows.empty() ? "" : ", and items of 4,096 tokens in the L2 cache", "; a factor ",
             fixed(misfit, 2), " off in the mean");
  name_measured(measured, tuned.sources);
  name_others(tuned.sources);
  tuned.transfers = std::move(measured.transfers);
  tuned.tile_times = std::move(measured.tile_times);
  return tuned;
}

}  // namespace trunkline::cli
