#include "replay/replay_page.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "replay_assets.hpp"
#include "report/page.hpp"

namespace trunkline::replay {
namespace {

using Json = nlohmann::json;

double sharing_of(const ReplayStep& step) {
  return step.kv_tokens_distinct == 0
             ? 1
             : static_cast<double>(step.kv_tokens_total) / static_cast<double>(step.kv_tokens_distinct);
}

void add_all(const std::vector<double>& from, std::vector<double>& to) {
  to.resize(std::max(to.size(), from.size()));
  for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
}

void add_to(ReplayStep& sum, const ReplayStep& step) {
  sum.requests += step.requests;
  sum.kv_tokens_total += step.kv_tokens_total;
  sum.kv_tokens_distinct += step.kv_tokens_distinct;
  sum.exposed_us += step.exposed_us;
  sum.hidden_us += step.hidden_us;
  add_all(step.predicted_us, sum.predicted_us);
  add_all(step.kv_bytes, sum.kv_bytes);
}

void merge_into(ReplayBin& bin, const ReplayBin& next) {
  bin.steps += next.steps;
  bin.replans += next.replans;
  add_to(bin.sum, next.sum);
  bin.least_sharing = std::min(bin.least_sharing, next.least_sharing);
  bin.most_sharing = std::max(bin.most_sharing, next.most_sharing);
  bin.most_exposed_us = std::max(bin.most_exposed_us, next.most_exposed_us);
}

void merge_pairs(std::vector<ReplayBin>& bins) {
  for (std::size_t i = 0; i < bins.size() / 2; ++i) {
    ReplayBin pair = std::move(bins[2 * i]);
    merge_into(pair, bins[2 * i + 1]);
    bins[i] = std::move(pair);
  }
  bins.resize(bins.size() / 2);
}

Json means(const std::vector<double>& sums, std::int64_t steps) {
  Json list = Json::array();
  for (const double sum : sums) list.push_back(sum / static_cast<double>(steps));
  return list;
}

// Means of a step.
Json bin_to_json(const ReplayBin& bin) {
  const auto mean = [&](auto sum) { return static_cast<double>(sum) / static_cast<double>(bin.steps); };
  return {{"begin_s", bin.begin_s},
          {"first_step", bin.first_step},
          {"steps", bin.steps},
          {"replans", bin.replans},
          {"requests", mean(bin.sum.requests)},
          {"total", mean(bin.sum.kv_tokens_total)},
          {"distinct", mean(bin.sum.kv_tokens_distinct)},
          {"least_sharing", bin.least_sharing},
          {"most_sharing", bin.most_sharing},
          {"exposed_us", mean(bin.sum.exposed_us)},
          {"most_exposed_us", bin.most_exposed_us},
          {"hidden_us", mean(bin.sum.hidden_us)},
          {"predicted_us", means(bin.sum.predicted_us, bin.steps)},
          {"kv_bytes", means(bin.sum.kv_bytes, bin.steps)}};
}

}  // namespace

void ReplayPage::add(const ReplayStep& step) {
  if (bins.empty() || bins.back().steps == steps_a_bin) {
    if (bins.size() == 2 * kDrawnBins) {
      merge_pairs(bins);
      steps_a_bin *= 2;
    }
    const std::int64_t first = bins.empty() ? 1 : bins.back().first_step + bins.back().steps;
    ReplayBin bin{step.time_s, first, 0, 0, {}, sharing_of(step), sharing_of(step), 0};
    bins.push_back(std::move(bin));
  }
  merge_into(bins.back(),
             {step.time_s, 0, 1, step.kept ? 0 : 1, step, sharing_of(step), sharing_of(step), step.exposed_us});
}

std::string replay_page_json(const ReplayPage& page) {
  Json bins = Json::array();
  for (const ReplayBin& bin : page.bins) bins.push_back(bin_to_json(bin));
  const AttentionShape& shape = page.shape;
  const Json json = {{"kind", "replay"},
                     {"title", page.title},
                     {"format", page.format},
                     {"caution", page.caution},
                     {"version", page.version},
                     {"commit", page.commit},
                     {"shape",
                      {{"q_heads", shape.q_heads},
                       {"kv_heads", shape.kv_heads},
                       {"head_dim", shape.head_dim_qk},
                       {"page_size", shape.page_size},
                       {"dtype", name_of(shape.q_dtype)}}},
                     {"machine", page.machine},
                     {"layers", page.layers},
                     {"policies", page.policies},
                     {"bins", std::move(bins)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string replay_page_html(const ReplayPage& page) {
  const std::string json = replay_page_json(page);
  return report::html_page({page.title, kReplayJs, json});
}

}  // namespace trunkline::replay
