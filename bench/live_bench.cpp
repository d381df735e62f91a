// Measures the cost of planning between decode steps: a step in which all requests grow, the first step after a new
// plan, one join, one leave, one fork, and beside them, in the same run, forest and plan built anew. Prints one JSON
// object a case.
//
//     live_bench [data folder] > bench/results/cpu/live.jsonl
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/measure.hpp"
#include "cli/version.hpp"
#include "planner_cases.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline {
namespace {

constexpr int kSteps = 400;
constexpr int kEvents = 60;

/// A batch that is served: requests grow by a token a step, with pages as they need them.
class Serving {
 public:
  Serving(const PrefixTree& tree, std::int32_t page_size) : live_(options_for(tree, page_size)), page_size_(page_size) {
    const PagedBatch paged = lay_out_pages(tree, page_size, 1);
    next_page_ = static_cast<std::int32_t>(paged.num_pages);
    const Batch batch = paged.view();
    for (std::int32_t row = 0; row < batch.rows(); ++row) {
      const std::int32_t length = paged.kv_lens[static_cast<std::size_t>(row)];
      const auto begin = static_cast<std::size_t>(row * paged.width);
      NewRequest request;
      request.kv_len = length;
      request.pages = std::span<const std::int32_t>(paged.page_ids).subspan(begin, pages_for(length));
      live_.join(request);
    }
    lengths_.assign(paged.kv_lens.begin(), paged.kv_lens.end());
    indptr_.resize(lengths_.size() + 1);
  }

  LiveBatch& live() { return live_; }

  /// Does work that an engine does anyway: makes the next lengths, and the pages that they need.
  void grow() {
    pages_.clear();
    for (std::size_t row = 0; row < lengths_.size(); ++row) {
      indptr_[row] = static_cast<std::int32_t>(pages_.size());
      if (lengths_[row] % page_size_ == 0) pages_.push_back(next_page_++);
      ++lengths_[row];
    }
    indptr_[lengths_.size()] = static_cast<std::int32_t>(pages_.size());
  }
  void advance() { live_.advance(lengths_, {indptr_, std::span<const std::int32_t>(pages_)}); }
  /// The least that a mirror of lengths costs.
  void copy_lengths() { copy_.assign(lengths_.begin(), lengths_.end()); }

  /// A request that has all full pages of another, and a token in a page of its own.
  NewRequest relative_of(std::int32_t row) {
    const RequestId other = live_.request(row);
    const std::span<const std::int32_t> pages = live_.request_pages(other);
    const auto full = static_cast<std::size_t>(live_.kv_len(other) / page_size_);
    request_pages_.assign(pages.begin(), pages.begin() + static_cast<std::ptrdiff_t>(full));
    request_pages_.push_back(next_page_++);
    NewRequest request;
    request.kv_len = static_cast<std::int32_t>(full) * page_size_ + 1;
    request.pages = std::span<const std::int32_t>(request_pages_);
    return request;
  }

 private:
  static LiveBatchOptions options_for(const PrefixTree& tree, std::int32_t page_size) {
    const PagedBatchSize size = paged_batch_size(tree, page_size);
    LiveBatchOptions options;
    options.page_size = page_size;
    constexpr int kGrowth = kSteps + kEvents;
    options.num_pages = size.num_pages + size.rows * (2 + kGrowth) + 10 * kEvents;
    options.expected_requests = static_cast<std::int32_t>(size.rows) + 1;
    options.expected_pages = static_cast<std::int32_t>(size.width) + 2 + kGrowth / page_size;
    return options;
  }
  std::size_t pages_for(std::int32_t tokens) const {
    return static_cast<std::size_t>((tokens + page_size_ - 1) / page_size_);
  }

  LiveBatch live_;
  std::int32_t page_size_;
  std::int32_t next_page_ = 0;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int32_t> indptr_;
  std::vector<std::int32_t> pages_;
  std::vector<std::int32_t> copy_;
  std::vector<std::int32_t> request_pages_;
};

void add_timing(nlohmann::ordered_json& row, const std::string& name, const std::vector<double>& samples) {
  if (samples.empty()) return;
  const cli::Timing timing = cli::summarize(samples);
  row[name + "_us"] = timing.us;
  row[name + "_us_p10"] = timing.us_p10;
  row[name + "_us_p90"] = timing.us_p90;
  row[name + "_us_min"] = *std::min_element(samples.begin(), samples.end());
}

/// Steps in which all grow: the whole, and that without the copy of the lengths.
void measure_steps(Serving& serving, LivePlanner& planner, nlohmann::ordered_json& row) {
  std::vector<double> kept;
  std::vector<double> copies;
  std::vector<double> replans;
  planner.plan(serving.live());
  for (int step = 0; step < kSteps; ++step) {
    serving.grow();
    copies.push_back(cli::time_us([&] { serving.copy_lengths(); }));
    const double us = cli::time_us([&] {
      serving.advance();
      planner.plan(serving.live());
    });
    (planner.source() == PlanSource::kReused ? kept : replans).push_back(us);
  }
  validate_plan(planner.plan(serving.live()), serving.live().forest());  // a row of a wrong plan is not written
  add_timing(row, "step", kept);
  add_timing(row, "copy", copies);
  add_timing(row, "growth_replan", replans);
  row["steps"] = kSteps;
  row["growth_replans"] = replans.size();
}

void measure_events(Serving& serving, LivePlanner& planner, nlohmann::ordered_json& row) {
  LiveBatch& live = serving.live();
  std::vector<double> join_event, leave_event, fork_event, forest, join, leave, fork, first_step;
  const auto replan = [&] { planner.plan(live); };
  for (int i = 0; i < kEvents; ++i) {
    const NewRequest request = serving.relative_of(i % live.rows());
    RequestId joined;
    join_event.push_back(cli::time_us([&] { joined = live.join(request); }));
    forest.push_back(cli::time_us([&] { live.forest(); }));
    join.push_back(join_event.back() + forest.back() + cli::time_us(replan));
    leave_event.push_back(cli::time_us([&] { live.leave(joined); }));
    leave.push_back(leave_event.back() + cli::time_us(replan));
    fork_event.push_back(cli::time_us([&] { joined = live.fork(live.request(i % live.rows())); }));
    fork.push_back(fork_event.back() + cli::time_us(replan));
    validate_plan(planner.plan(live), live.forest());
    live.leave(joined);
    planner.plan(live);
    serving.grow();
    first_step.push_back(cli::time_us([&] {
      serving.advance();
      planner.plan(live);
    }));
  }
  add_timing(row, "join_event", join_event);
  add_timing(row, "leave_event", leave_event);
  add_timing(row, "fork_event", fork_event);
  add_timing(row, "forest", forest);
  add_timing(row, "join", join);
  add_timing(row, "leave", leave);
  add_timing(row, "fork", fork);
  add_timing(row, "first_step", first_step);
}

/// The same events, when the plan is edited for them.
void measure_edits(Serving& serving, const AttentionShape& shape, const MachineProfile& profile,
                   nlohmann::ordered_json& row) {
  LivePlanOptions options;
  options.edit_share = 2.0 / serving.live().rows();  // a join and a leave; then a new plan
  LivePlanner planner(profile, shape, options);
  LiveBatch& live = serving.live();
  std::vector<double> join, leave;
  for (int i = 0; i < kEvents; ++i) {
    planner.plan(live);
    const NewRequest request = serving.relative_of(i % live.rows());
    RequestId joined;
    const auto timed = [&](auto&& event, std::vector<double>& samples) {
      const double us = cli::time_us([&] {
        event();
        planner.plan(live);
      });
      if (planner.source() == PlanSource::kEdited) samples.push_back(us);
      validate_plan(planner.plan(live), live.forest());
    };
    timed([&] { joined = live.join(request); }, join);
    timed([&] { live.leave(joined); }, leave);
    live.leave(live.fork(live.request(0)));  // so that the next plan is a new one
  }
  add_timing(row, "edited_join", join);
  add_timing(row, "edited_leave", leave);
}

/// Measures the cost of planning for the thread that runs the steps when another thread plans.
void measure_async(Serving& serving, const AttentionShape& shape, const MachineProfile& profile,
                   nlohmann::ordered_json& row) {
  AsyncPlanner planner(profile, shape);
  LiveBatch& live = serving.live();
  std::vector<double> submit, take, late;
  const auto submit_and_wait = [&] {
    submit.push_back(cli::time_us([&] { planner.submit(live); }));
    while (!planner.poll()) std::this_thread::yield();
  };
  submit_and_wait();
  planner.take(live);
  for (int i = 0; i < kEvents; ++i) {
    const RequestId joined = live.join(serving.relative_of(i % live.rows()));
    submit_and_wait();
    take.push_back(cli::time_us([&] { planner.take(live); }));
    live.leave(joined);
    late.push_back(cli::time_us([&] { planner.take(live); }));
    validate_plan(planner.take(live), live.forest());
    submit_and_wait();
    planner.take(live);
  }
  add_timing(row, "submit", submit);
  add_timing(row, "take", take);
  add_timing(row, "late_take", late);
}

void measure_rebuild(Serving& serving, const AttentionShape& shape, const MachineProfile& profile,
                     nlohmann::ordered_json& row) {
  const Batch batch = serving.live().batch();
  ForestBuilder builder;
  Planner planner(profile);
  double fastest = 0;
  const cli::Timing timing = repeat([&] { planner.plan(builder.build(batch), shape); }, fastest);
  row["rebuild_us"] = timing.us;
  row["rebuild_us_p10"] = timing.us_p10;
  row["rebuild_us_p90"] = timing.us_p90;
  row["rebuild_us_min"] = fastest;
}

nlohmann::ordered_json measure(const PlannerCase& input, std::int32_t page_size, const MachineProfile& profile) {
  const AttentionShape shape = AttentionShape::uniform(32, 8, 128, page_size);
  Serving serving(input.tree, page_size);
  LivePlanner planner(profile, shape);
  const Plan& plan = planner.plan(serving.live());
  nlohmann::ordered_json row = row_of("live", input, page_size, serving.live().forest(), plan);
  measure_events(serving, planner, row);
  measure_edits(serving, shape, profile, row);
  measure_async(serving, shape, profile, row);
  measure_rebuild(serving, shape, profile, row);
  measure_steps(serving, planner, row);
  row["device"] = cpu_info().model;
  row["commit"] = cli::commit();
  return row;
}

/// Batches of 64, 256 and 1,024 requests: two levels of sharing, and none.
std::vector<PlannerCase> sized_cases() {
  std::vector<PlannerCase> cases;
  for (const char* notation :
       {"1,8,64/1024,512,256", "1,8,256/1024,512,256", "1,8,1024/1024,512,256", "64/1024", "256/1024", "1024/1024"}) {
    cases.push_back({"sizes", tree_from_levels(notation)});
  }
  return cases;
}

}  // namespace
}  // namespace trunkline

int main(int argc, char** argv) {
  try {
    const std::filesystem::path data = argc > 1 ? argv[1] : "data";
    const trunkline::MachineProfile profile = trunkline::generic_cpu_profile(2);
    std::vector<trunkline::PlannerCase> cases = trunkline::sized_cases();
    for (auto& input : trunkline::load_planner_cases(data)) cases.push_back(std::move(input));
    for (const auto& input : cases) {
      for (const std::int32_t page_size : {16, 1})
        std::cout << trunkline::measure(input, page_size, profile) << std::endl;
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "live_bench: error: " << error.what() << "\n";
    return 2;
  }
}
