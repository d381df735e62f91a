#include <unordered_map>

#include "replay/routing/routing_table.hpp"

namespace trunkline::replay {
namespace {

/// A session's first request goes to the least loaded replica, the others follow it.
class SiblingRouter : public Router {
 public:
  std::int32_t choose(const RoutedRequest& request, std::span<const ReplicaLoad> loads) override {
    const auto [place, added] = replica_of_.try_emplace(request.session, 0);
    if (added) place->second = least_loaded_replica(loads);
    return place->second;
  }

 private:
  std::unordered_map<std::int32_t, std::int32_t> replica_of_;
};

}  // namespace

std::unique_ptr<Router> make_sibling_router() {
  return std::make_unique<SiblingRouter>();
}

}  // namespace trunkline::replay
