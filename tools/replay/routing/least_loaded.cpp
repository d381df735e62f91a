#include <algorithm>
#include <tuple>

#include "replay/routing/routing_table.hpp"

namespace trunkline::replay {
namespace {

class LeastLoadedRouter : public Router {
 public:
  std::int32_t choose(const RoutedRequest&, std::span<const ReplicaLoad> loads) override {
    return least_loaded_replica(loads);
  }
};

}  // namespace

std::int32_t least_loaded_replica(std::span<const ReplicaLoad> loads) {
  const auto best = std::min_element(loads.begin(), loads.end(), [](const ReplicaLoad& a, const ReplicaLoad& b) {
    return std::tie(a.requests, a.tokens) < std::tie(b.requests, b.tokens);
  });
  return static_cast<std::int32_t>(best - loads.begin());
}

std::unique_ptr<Router> make_least_loaded_router() {
  return std::make_unique<LeastLoadedRouter>();
}

}  // namespace trunkline::replay
