// Replicas of a serving loop behind one router.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "replay/replay.hpp"
#include "replay/routing/routing_table.hpp"

namespace trunkline::replay {

/// Each replica is a Replay with its own pool and prefix cache. The arrivals of the trace are one stream; the router
/// sees a request when it arrives. The replica whose clock is earliest makes the next turn, so none runs ahead of a
/// request that it could be sent.
class Cluster {
 public:
  /// \param trace outlives the cluster \param replicas 1 to 1,000
  /// \param options its max_steps is each replica's; its plans are made without a thread
  /// \throws Error(kInvalidArgument) naming the option.
  Cluster(const Trace& trace, const ArrivalOptions& arrivals, const MachineProfile& profile,
          const ReplayOptions& options, std::int32_t replicas, const RoutingPolicy& policy);
  ~Cluster();

  /// Goes on to the end of the next decode step of any replica.
  /// \return its index; -1 when there is none: all requests have ended, or replicas have made their max_steps
  std::int32_t step();

  std::int32_t size() const { return static_cast<std::int32_t>(replicas_.size()); }
  Replay& replica(std::int32_t index);
  /// Requests that the replica has been sent.
  std::int64_t sent(std::int32_t index) const;
  std::int64_t routed() const { return routed_; }

 private:
  class Inbox;
  struct Replica;

  void route_next(double now_s);
  void route_until(double now_s);
  void end(std::int32_t replica, std::int32_t index, double now_s);
  std::int64_t tokens_of(std::int32_t index) const;

  const Trace* trace_;
  Arrivals arrivals_;
  std::unique_ptr<Router> router_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<ReplicaLoad> loads_;  // by replica
  std::int64_t routed_ = 0;
};

}  // namespace trunkline::replay
