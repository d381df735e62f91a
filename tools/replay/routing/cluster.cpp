#include "replay/routing/cluster.hpp"

#include <algorithm>
#include <deque>
#include <limits>

#include "base/check.hpp"

namespace trunkline::replay {

/// The requests that the router has sent to one replica.
class Cluster::Inbox : public RequestSource {
 public:
  Inbox(Cluster& cluster, std::int32_t replica) : cluster_(&cluster), replica_(replica) {}

  void send(std::int32_t index) {
    coming_.push_back(index);
    ++sent_;
    ++left_;
  }
  std::optional<std::int32_t> pop(double now_s) override {
    cluster_->route_until(now_s);  // a request that ended in this turn may have released its next turn
    if (coming_.empty() || arrival_s(coming_.front()) > now_s) return std::nullopt;
    const std::int32_t index = coming_.front();
    coming_.pop_front();
    return index;
  }
  std::optional<double> next_s() const override {
    if (coming_.empty()) return std::nullopt;
    return arrival_s(coming_.front());
  }
  double arrival_s(std::int32_t index) const override { return cluster_->arrivals_.arrival_s(index); }
  void end(std::int32_t index, double now_s) override {
    --left_;
    cluster_->end(replica_, index, now_s);
  }
  bool done() const override { return left_ == 0; }
  /// Whether all that is left has yet to be popped.
  bool only_coming() const { return left_ == static_cast<std::int64_t>(coming_.size()); }
  std::int64_t sent() const { return sent_; }

 private:
  Cluster* cluster_;
  std::int32_t replica_;
  std::deque<std::int32_t> coming_;
  std::int64_t sent_ = 0;
  std::int64_t left_ = 0;
};

struct Cluster::Replica {
  Replica(Cluster& cluster, std::int32_t index, const Trace& trace, const MachineProfile& profile,
          const ReplayOptions& options)
      : inbox(cluster, index), replay(trace, inbox, profile, options) {}

  /// When the next turn begins to matter; never without requests, or after the last step that it may make.
  double ready_s() const {
    if (stopped || inbox.done()) return std::numeric_limits<double>::infinity();
    return inbox.only_coming() ? std::max(replay.now_s(), *inbox.next_s()) : replay.now_s();
  }

  Inbox inbox;
  Replay replay;
  bool stopped = false;
};

namespace {

ReplayOptions without_thread(ReplayOptions options) {
  options.async = false;
  return options;
}

}  // namespace

Cluster::Cluster(const Trace& trace, const ArrivalOptions& arrivals, const MachineProfile& profile,
                 const ReplayOptions& options, std::int32_t replicas, const RoutingPolicy& policy)
    : trace_(&trace), arrivals_(trace, arrivals), router_(policy.make()) {
  constexpr std::int32_t kMaxReplicas = 1000;
  if (replicas < 1 || replicas > kMaxReplicas) {
    fail(ErrorCode::kInvalidArgument, "--replicas is ", replicas, "; 1 to ", kMaxReplicas, " are supported");
  }
  loads_.resize(static_cast<std::size_t>(replicas));
  for (std::int32_t i = 0; i < replicas; ++i) {
    replicas_.push_back(std::make_unique<Replica>(*this, i, trace, profile, without_thread(options)));
  }
}

Cluster::~Cluster() = default;

std::int32_t Cluster::step() {
  while (true) {
    const auto next = std::min_element(replicas_.begin(), replicas_.end(),
                                       [](const auto& a, const auto& b) { return a->ready_s() < b->ready_s(); });
    const double ready_s = (*next)->ready_s();
    const std::optional<double> arrival_s = arrivals_.next_s();
    if (arrival_s && *arrival_s <= ready_s) {
      route_next(*arrival_s);
      continue;
    }
    if (ready_s == std::numeric_limits<double>::infinity()) return -1;
    const LoopTurn turn = (*next)->replay.turn();
    if (turn == LoopTurn::kDone) (*next)->stopped = true;
    if (turn == LoopTurn::kDecoded) return static_cast<std::int32_t>(next - replicas_.begin());
  }
}

Replay& Cluster::replica(std::int32_t index) {
  return replicas_[static_cast<std::size_t>(index)]->replay;
}

std::int64_t Cluster::sent(std::int32_t index) const {
  return replicas_[static_cast<std::size_t>(index)]->inbox.sent();
}

void Cluster::route_until(double now_s) {
  while (arrivals_.next_s() && *arrivals_.next_s() <= now_s) route_next(now_s);
}

void Cluster::route_next(double now_s) {
  const std::int32_t index = *arrivals_.pop(now_s);
  RoutedRequest request{index, arrivals_.session_of(index), nullptr};
  if (!trace_->searches()) request.request = &trace_->requests[static_cast<std::size_t>(index)];
  const auto replica = static_cast<std::size_t>(router_->choose(request, loads_));
  ++loads_[replica].requests;
  loads_[replica].tokens += tokens_of(index);
  ++routed_;
  replicas_[replica]->inbox.send(index);
}

void Cluster::end(std::int32_t replica, std::int32_t index, double now_s) {
  ReplicaLoad& load = loads_[static_cast<std::size_t>(replica)];
  --load.requests;
  load.tokens -= tokens_of(index);
  arrivals_.end(index, now_s);
}

std::int64_t Cluster::tokens_of(std::int32_t index) const {
  if (trace_->searches()) {
    const DecodingTree& tree = trace_->trees[static_cast<std::size_t>(index)];
    std::int64_t tokens = 0;
    for (std::size_t node = 0; node < tree.first.size(); ++node) tokens += tree.last[node] - tree.first[node] + 1;
    return tokens;
  }
  const TraceRequest& request = trace_->requests[static_cast<std::size_t>(index)];
  return std::int64_t{request.input_tokens} + request.output_tokens;
}

}  // namespace trunkline::replay
