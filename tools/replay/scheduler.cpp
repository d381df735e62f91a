#include "replay/scheduler.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.hpp"

namespace trunkline::replay {

/// A request, or a search, from its arrival on.
struct Scheduler::Job {
  std::int32_t index = 0;
  std::int32_t width = 1;  // requests that it is at once, at most
  std::int32_t prompt_tokens = 0;
  std::int32_t kept_tokens = 0;  // of a request: in the cache, confirmed; the prompt, and outputs that are no drafts
  std::int32_t end_tokens = 0;   // of a request: kept_tokens when its last output is known
  std::int64_t page_bound = 0;   // that it holds, or takes, at most
  bool begun = false;            // its prompt is computed in part
  bool computed = false;         // its prompt is
  bool answered = false;         // its first token is known
  bool ended = false;
  std::vector<std::int32_t> token_ids;  // of the prompt, for the prefix cache; none once it is computed
  Sequence request;
  std::optional<SearchRun> search;

  Sequence& prompt() { return search ? search->prompt() : request; }
};

namespace {

void check_at_min(const char* name, std::int64_t value, std::int64_t least) {
  if (value >= least) return;
  fail(ErrorCode::kInvalidArgument, name, " is ", value, "; at least ", least, " is needed");
}

const SchedulerOptions& checked(const SchedulerOptions& options, const Trace& trace) {
  check_at_min("--batch", options.max_batch, 1);
  check_at_min("--token-budget", options.token_budget, 1);
  check_at_min("--drafts", options.drafts, 0);
  if (!(options.accept >= 0 && options.accept <= 1)) {
    fail(ErrorCode::kInvalidArgument, "--accept is ", options.accept, "; a chance from 0 to 1 is needed");
  }
  if (options.drafts > 0 && trace.searches()) {
    fail(ErrorCode::kUnsupported, "--drafts is for traces of requests, and ", trace.name, " has searches");
  }
  const std::int64_t decoding = std::int64_t{options.max_batch} * (1 + options.drafts);
  if (options.token_budget <= decoding) {
    fail(ErrorCode::kInvalidArgument, "--token-budget is ", options.token_budget, "; a batch of ", options.max_batch,
         " requests takes ", decoding, " tokens of it, and prompts need some: give more");
  }
  return options;
}

}  // namespace

Scheduler::Scheduler(const Trace& trace, RequestSource& arrivals, const SchedulerOptions& options)
    : trace_(&trace),
      arrivals_(&arrivals),
      options_(checked(options, trace)),
      batch_(options.page_size, options.num_pages, options.max_batch),
      random_(options.seed) {}

Scheduler::~Scheduler() = default;

StepWork Scheduler::begin_step(double now_s) {
  finish_jobs(now_s);
  admit(now_s);
  for (const auto& job : running_) {
    if (job->computed && job->search) {
      job->ended = !job->search->begin_iteration(batch_);
      blocked_ = false;  // branches that were pruned give pages back
    } else if (job->request.live) {
      accept_drafts(*job);
    }
  }
  for (const auto& job : running_) {
    if (job->computed && !job->search && !job->request.live && !job->ended) begin_decoding(*job);
  }
  if (batch_.live().rows() > 0) batch_.advance();
  if (trace_->searches()) counts_.output_tokens += batch_.live().rows();
  StepWork work;
  work.prompt_tokens = compute_prompts();
  work.prompts = static_cast<std::int32_t>(waiting_.size()) +
                 static_cast<std::int32_t>(
                     std::count_if(running_.begin(), running_.end(), [](const auto& job) { return !job->computed; }));
  work.events = batch_.take_events();
  work.idle = batch_.live().rows() == 0 && work.prompt_tokens == 0 &&
              std::none_of(running_.begin(), running_.end(), [](const auto& job) { return job->ended; });
  return work;
}

// A request has ended when all of its output is known; the last token is in no cache.
void Scheduler::finish_jobs(double now_s) {
  for (const auto& job : running_) {
    if (job->computed && !job->answered) {
      delays_.first_token_s.push_back(now_s - arrivals_->arrival_s(job->index));
      job->answered = true;
    }
    if (job->search || !job->computed) continue;
    if (job->request.live) {
      const std::int32_t left = job->end_tokens - job->kept_tokens;
      std::int32_t accepted = 1;
      while (accepted < left && accepted <= options_.drafts && random_.below(1u << 30) < options_.accept * (1u << 30)) {
        ++accepted;
      }
      job->kept_tokens += accepted;
      counts_.output_tokens += accepted;
    }
    job->ended = job->kept_tokens == job->end_tokens;
  }
  for (const auto& job : running_) {
    if (!job->ended) continue;
    if (job->request.live) batch_.leave(job->request);
    if (!job->search) batch_.release(job->request);
    running_width_ -= job->width;
    arrivals_->end(job->index, now_s);
    blocked_ = false;
  }
  running_.erase(std::remove_if(running_.begin(), running_.end(), [](const auto& job) { return job->ended; }),
                 running_.end());
}

void Scheduler::admit(double now_s) {
  while (const std::optional<std::int32_t> index = arrivals_->pop(now_s)) {
    std::unique_ptr<Job> job = make_job(*index);
    if (can_ever_hold(*job)) {
      waiting_.push_back(std::move(job));
    } else {
      ++counts_.refused;
      arrivals_->end(*index, now_s);
    }
  }
  while (!waiting_.empty() && !blocked_) blocked_ = !admit_next(now_s);
}

std::unique_ptr<Scheduler::Job> Scheduler::make_job(std::int32_t index) {
  auto job = std::make_unique<Job>();
  job->index = index;
  if (trace_->searches()) {
    job->search.emplace(trace_->trees[static_cast<std::size_t>(index)]);
    job->width = std::max(job->search->width(), 1);
    job->prompt_tokens = job->search->prompt_tokens();
    job->page_bound = job->search->page_bound(options_.page_size);
    return job;
  }
  const TraceRequest& request = trace_->requests[static_cast<std::size_t>(index)];
  job->prompt_tokens = request.input_tokens;
  job->kept_tokens = request.input_tokens;
  job->end_tokens = request.input_tokens + std::max(request.output_tokens - 1, 0);
  job->page_bound = batch_.pages_for(std::int64_t{job->end_tokens} + options_.drafts);
  return job;
}

bool Scheduler::can_ever_hold(const Job& job) const {
  return job.page_bound <= options_.num_pages && job.width <= options_.max_batch;
}

// Pages that those who run may still take.
std::int64_t Scheduler::promised_pages() const {
  std::int64_t pages = 0;
  for (const auto& job : running_) {
    const std::int64_t has =
        job->search ? job->search->pages_taken() : static_cast<std::int64_t>(batch_.pages(job->request).size());
    pages += job->page_bound - has;
  }
  return pages;
}

bool Scheduler::admit_next(double now_s) {
  Job& job = *waiting_.front();
  if (running_width_ + job.width > options_.max_batch) return false;
  if (options_.prefix_cache && !job.search) match_prefix(job);
  const std::int64_t needed = job.page_bound - static_cast<std::int64_t>(batch_.pages(job.request).size());
  if (batch_.held_pages() + promised_pages() + needed > options_.num_pages) {
    batch_.release(job.request);
    return false;
  }
  ++counts_.admitted;
  delays_.admitted_s.push_back(now_s - arrivals_->arrival_s(job.index));
  counts_.prompt_tokens += job.prompt_tokens;
  counts_.cached_tokens += batch_.tokens(job.request);
  running_width_ += job.width;
  running_.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  return true;
}

void Scheduler::match_prefix(Job& job) {
  const TraceRequest& request = trace_->requests[static_cast<std::size_t>(job.index)];
  if (job.token_ids.empty()) job.token_ids = prompt_token_ids(request, trace_->block_tokens);
  // The prompt's last token is computed in any case, for its logits.
  const std::size_t most = std::min(job.token_ids.size(), static_cast<std::size_t>(job.prompt_tokens - 1));
  batch_.match(job.request, std::span(job.token_ids).first(most));
}

// The first output token is known from the prompt; this step's query is that token, with drafts after it.
void Scheduler::begin_decoding(Job& job) {
  batch_.extend(job.request, job.kept_tokens + 1 + options_.drafts);
  job.request.next_tokens = batch_.tokens(job.request);
  batch_.join(job.request, 1 + options_.drafts);
}

void Scheduler::accept_drafts(Job& job) {
  const std::int32_t queries = 1 + options_.drafts;
  // A request is never shorter than its query tokens.
  if (job.kept_tokens < batch_.tokens(job.request) && job.kept_tokens >= queries) {
    batch_.truncate(job.request, job.kept_tokens);
  }
  job.request.next_tokens = job.kept_tokens + queries;
}

std::int32_t Scheduler::compute_prompts() {
  const Batch decoding = batch_.live().batch();
  const std::int32_t budget = options_.token_budget - decoding.total_queries();
  std::int32_t spent = 0;
  for (const auto& job : running_) {
    if (job->computed || spent == budget) continue;
    spent += compute_prompt(*job, budget - spent);
  }
  return spent;
}

std::int32_t Scheduler::compute_prompt(Job& job, std::int32_t most) {
  Sequence& prompt = job.prompt();
  if (options_.match_again && options_.prefix_cache && !job.begun && !job.search) {
    counts_.cached_tokens -= batch_.tokens(job.request);
    batch_.release(job.request);
    match_prefix(job);
    counts_.cached_tokens += batch_.tokens(job.request);
  }
  job.begun = true;
  const std::int32_t before = batch_.tokens(prompt);
  const std::int32_t tokens = std::min(job.prompt_tokens - before, most);
  batch_.extend(prompt, before + tokens);
  job.computed = before + tokens == job.prompt_tokens;
  const std::size_t known = std::min(job.token_ids.size(), static_cast<std::size_t>(before + tokens));
  batch_.insert(prompt, std::span(job.token_ids).first(known));
  if (job.computed) job.token_ids = {};
  const bool has_output = !job.search && trace_->requests[static_cast<std::size_t>(job.index)].output_tokens > 0;
  if (job.computed && has_output) ++counts_.output_tokens;
  return tokens;
}

void Scheduler::for_each_sequence(const std::function<void(const Sequence&)>& visit) {
  for (const auto& job : running_) {
    if (!job->search) {
      visit(job->request);
      continue;
    }
    for (const Sequence& node : job->search->sequences()) visit(node);
  }
}

}  // namespace trunkline::replay
