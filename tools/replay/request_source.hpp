// Where a scheduler gets its requests from.
#pragma once

#include <cstdint>
#include <optional>

namespace trunkline::replay {

/// Requests of one trace, by their index in it, as they arrive at one scheduler.
class RequestSource {
 public:
  virtual ~RequestSource() = default;

  /// The next that has come by `now_s`, earliest first.
  virtual std::optional<std::int32_t> pop(double now_s) = 0;
  /// When the next comes, if it waits for no other to end.
  virtual std::optional<double> next_s() const = 0;
  /// When a request that was popped had come.
  virtual double arrival_s(std::int32_t index) const = 0;
  /// A request that was popped has ended, or was refused.
  virtual void end(std::int32_t index, double now_s) = 0;
  /// Whether all that there are have come and ended.
  virtual bool done() const = 0;
};

}  // namespace trunkline::replay
