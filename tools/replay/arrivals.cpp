#include "replay/arrivals.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/random.hpp"

namespace trunkline::replay {
namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

void check_positive(const char* name, double value) {
  if (value > 0 && std::isfinite(value)) return;
  fail(ErrorCode::kInvalidArgument, name, " is ", value, "; a number above 0 is needed");
}

// From a sum of exponential gaps.
std::vector<double> poisson_times(std::int32_t count, double rate, std::uint64_t seed) {
  constexpr double kTwoTo53 = 0x1p53;
  RandomBits random(seed);
  std::vector<double> times;
  double now = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    times.push_back(now);
    now -= std::log((static_cast<double>(random.next() >> 11) + 1) / kTwoTo53) / rate;
  }
  return times;
}

}  // namespace

Arrivals::Arrivals(const Trace& trace, const ArrivalOptions& options)
    : trace_(&trace),
      time_scale_(options.time_scale),
      next_session_(trace.size()),
      total_(trace.searches() ? trace.size() : static_cast<std::int32_t>(trace.requests.size())),
      arrival_s_(at(total_)),
      begin_s_(at(trace.size())),
      left_(at(trace.size()), 1),
      session_of_(at(total_)),
      followers_(at(total_)) {
  check_positive("--time-scale", options.time_scale);
  if (options.side_by_side < 0) {
    fail(ErrorCode::kInvalidArgument, "--sessions is ", options.side_by_side, "; at least 1 is needed");
  }
  for (std::int32_t session = 0; session < trace.size(); ++session) {
    if (trace.searches()) {
      session_of_[at(session)] = session;
      continue;
    }
    const TraceSession& given = trace.sessions[at(session)];
    left_[at(session)] = given.count;
    for (std::int32_t i = given.first; i < given.first + given.count; ++i) {
      session_of_[at(i)] = session;
      const std::int32_t after = trace.requests[at(i)].after;
      if (after >= 0) followers_[at(after)].push_back(i);
    }
  }
  if (options.rate) {
    check_positive("--rate", *options.rate);
    const std::vector<double> times = poisson_times(trace.size(), *options.rate, options.seed);
    for (std::int32_t session = 0; session < trace.size(); ++session) begin_session(session, times[at(session)]);
  } else if (trace.recorded && options.side_by_side == 0) {
    for (std::int32_t session = 0; session < trace.size(); ++session) {
      begin_session(session, (trace.sessions[at(session)].begin_s - trace.sessions.front().begin_s) * time_scale_);
    }
  } else {
    next_session_ = 0;
    const std::int32_t live = options.side_by_side > 0 ? options.side_by_side : trace.side_by_side;
    for (std::int32_t i = 0; i < std::min(live, trace.size()); ++i) begin_next_session(0);
  }
}

std::optional<std::int32_t> Arrivals::pop(double now_s) {
  if (coming_.empty() || coming_.top().first > now_s) return std::nullopt;
  const std::int32_t index = coming_.top().second;
  coming_.pop();
  return index;
}

std::optional<double> Arrivals::next_s() const {
  if (coming_.empty()) return std::nullopt;
  return coming_.top().first;
}

void Arrivals::end(std::int32_t index, double now_s) {
  ++ended_;
  const std::int32_t session = session_of_[at(index)];
  for (const std::int32_t next : followers_[at(index)]) {
    const double recorded = begin_s_[at(session)] + trace_->requests[at(next)].arrival_s * time_scale_;
    push(next, std::max(recorded, now_s));
  }
  if (--left_[at(session)] == 0) begin_next_session(now_s);
}

void Arrivals::begin_session(std::int32_t session, double now_s) {
  begin_s_[at(session)] = now_s;
  if (trace_->searches()) return push(session, now_s);
  const TraceSession& given = trace_->sessions[at(session)];
  for (std::int32_t i = given.first; i < given.first + given.count; ++i) {
    const TraceRequest& request = trace_->requests[at(i)];
    if (request.after < 0) push(i, now_s + request.arrival_s * time_scale_);
  }
}

void Arrivals::begin_next_session(double now_s) {
  if (next_session_ < trace_->size()) begin_session(next_session_++, now_s);
}

}  // namespace trunkline::replay
