// Continuous batching: which requests of a trace decode, which prompts are computed, step by step.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/random.hpp"
#include "replay/request_source.hpp"
#include "replay/search_run.hpp"
#include "replay/sequence_batch.hpp"
#include "replay/trace.hpp"

namespace trunkline::replay {

struct SchedulerOptions {
  std::int32_t page_size = 16;
  std::int64_t num_pages = 65536;
  std::int32_t max_batch = 256;      ///< requests that are served at once; of a search, all branches that it will have
  std::int32_t token_budget = 2048;  ///< of a step: query tokens of decoding first, the rest for prompts
  bool prefix_cache = true;
  /// Whether a prompt looks in the prefix cache again before its first chunk is computed, as engines do: of samples
  /// that are admitted together, all but the first then find their prompt. Else it looks when it is admitted, and not
  /// again.
  bool match_again = false;
  std::int32_t drafts = 0;  ///< draft tokens that each request brings to each step, a chain
  double accept = 0.7;      ///< the chance of a draft to be accepted, when those before it are
  std::uint64_t seed = 1;   ///< of what is accepted
};

/// The work of one step.
struct StepWork {
  std::int32_t prompt_tokens = 0;  ///< computed in this step, for prompts
  std::int32_t prompts = 0;        ///< that are not computed yet, or wait to be admitted
  EventCounts events;
  bool idle = false;  ///< nothing to do before the next arrival
};

struct SchedulerCounts {
  std::int64_t admitted = 0;
  std::int64_t refused = 0;        ///< that no empty pool and batch could hold
  std::int64_t prompt_tokens = 0;  ///< of the admitted
  std::int64_t cached_tokens = 0;  ///< of these, found in the prefix cache
  std::int64_t output_tokens = 0;
};

/// By request that was admitted, in seconds since its arrival.
struct SchedulerDelays {
  std::vector<double> admitted_s;     ///< until it was admitted: the time in the queue
  std::vector<double> first_token_s;  ///< until its prompt was computed
};

/// First come, first served. A request is admitted when the pool has pages for it until its end, those that are
/// promised to others set aside, so nothing is ever preempted. Prompts are computed in chunks within the token budget;
/// full pages whose token ids are known are cached as soon as they are computed, and what a prompt finds in the cache
/// is not computed but for its last token. Outputs are not cached: a trace does not say what follows on them.
class Scheduler {
 public:
  /// \param trace and \param arrivals outlive the scheduler
  /// \throws Error(kInvalidArgument) naming the option.
  Scheduler(const Trace& trace, RequestSource& arrivals, const SchedulerOptions& options);
  ~Scheduler();

  /// All events before the step that begins now. The live batch is then what decodes in it; it may be empty, while only
  /// prompts are computed.
  StepWork begin_step(double now_s);
  bool done() const { return arrivals_->done(); }

  SequenceBatch& batch() { return batch_; }
  const SchedulerCounts& counts() const { return counts_; }
  const SchedulerDelays& delays() const { return delays_; }
  /// Every sequence that holds pages.
  void for_each_sequence(const std::function<void(const Sequence&)>& visit);

 private:
  struct Job;

  void finish_jobs(double now_s);
  void admit(double now_s);
  bool admit_next(double now_s);
  void match_prefix(Job& job);
  bool can_ever_hold(const Job& job) const;
  std::unique_ptr<Job> make_job(std::int32_t index);
  std::int64_t promised_pages() const;
  void begin_decoding(Job& job);
  void accept_drafts(Job& job);
  std::int32_t compute_prompts();
  std::int32_t compute_prompt(Job& job, std::int32_t most);

  const Trace* trace_;
  RequestSource* arrivals_;
  SchedulerOptions options_;
  SequenceBatch batch_;
  RandomBits random_;
  std::deque<std::unique_ptr<Job>> waiting_;
  std::vector<std::unique_ptr<Job>> running_;
  std::int32_t running_width_ = 0;
  bool blocked_ = false;  // the first that waits did not fit, and nothing has been given back since
  SchedulerCounts counts_;
  SchedulerDelays delays_;
};

}  // namespace trunkline::replay
