// When the requests of a trace come.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "replay/request_source.hpp"
#include "replay/trace.hpp"

namespace trunkline::replay {

struct ArrivalOptions {
  double time_scale = 1;            ///< of all recorded times: 0.5 is twice as fast
  std::optional<double> rate = {};  ///< sessions a second, at random (Poisson), instead of recorded begins
  std::int32_t side_by_side = 0;    ///< sessions live at once, where neither is given; 0: as the trace has it
  std::uint64_t seed = 1;
};

/// The requests of a trace as they arrive. In a trace of searches trees arrive, and a tree's index takes the place of a
/// request's.
///
/// A session begins when it is recorded to, by rate, or when one before it has ended. Its requests come at their
/// recorded times after that, and none before the one that it follows has ended.
class Arrivals : public RequestSource {
 public:
  /// \param trace outlives the arrivals
  /// \throws Error(kInvalidArgument) on a scale or rate that is not positive and finite, or a negative side_by_side.
  Arrivals(const Trace& trace, const ArrivalOptions& options);

  std::optional<std::int32_t> pop(double now_s) override;
  std::optional<double> next_s() const override;
  double arrival_s(std::int32_t index) const override { return arrival_s_[static_cast<std::size_t>(index)]; }
  void end(std::int32_t index, double now_s) override;
  bool done() const override { return ended_ == total_; }
  std::int32_t session_of(std::int32_t index) const { return session_of_[static_cast<std::size_t>(index)]; }
  std::int32_t total() const { return total_; }

 private:
  void begin_session(std::int32_t session, double now_s);
  void begin_next_session(double now_s);
  void push(std::int32_t index, double at_s) {
    coming_.emplace(at_s, index);
    arrival_s_[static_cast<std::size_t>(index)] = at_s;
  }

  const Trace* trace_;
  double time_scale_;
  std::int32_t next_session_;  // the next to begin when one ends; past the end where begins are known
  std::int32_t total_;
  std::int32_t ended_ = 0;
  std::priority_queue<std::pair<double, std::int32_t>, std::vector<std::pair<double, std::int32_t>>, std::greater<>>
      coming_;
  std::vector<double> arrival_s_;                     // by request, once it is known
  std::vector<double> begin_s_;                       // by session
  std::vector<std::int32_t> left_;                    // by session: requests that have not ended
  std::vector<std::int32_t> session_of_;              // by request
  std::vector<std::vector<std::int32_t>> followers_;  // by request
};

}  // namespace trunkline::replay
