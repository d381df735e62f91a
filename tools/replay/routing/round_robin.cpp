#include "replay/routing/routing_table.hpp"

namespace trunkline::replay {
namespace {

class RoundRobinRouter : public Router {
 public:
  std::int32_t choose(const RoutedRequest&, std::span<const ReplicaLoad> loads) override {
    return static_cast<std::int32_t>(next_++ % loads.size());
  }

 private:
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Router> make_round_robin_router() {
  return std::make_unique<RoundRobinRouter>();
}

}  // namespace trunkline::replay
