#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "base/random.hpp"
#include "replay/routing/routing_table.hpp"

namespace trunkline::replay {
namespace {

/// Remembers which replica was sent each prefix last, by whole blocks, as a router does that sees prompts but no
/// caches. A prefix that a replica has evicted is still remembered.
///
/// A match of a small part of the prompt decides nothing: a system prompt is in every replica's cache.
class PrefixRouter : public Router {
 public:
  std::int32_t choose(const RoutedRequest& request, std::span<const ReplicaLoad> loads) override {
    const std::vector<std::uint64_t> prefixes = prefixes_of(request);
    const std::int32_t replica = longest_match(prefixes, loads);
    for (const std::uint64_t prefix : prefixes) replica_of_[prefix] = replica;
    return replica;
  }

 private:
  // Ours: half as much again as the mean, and 4 more, so that a few requests on idle replicas are no overload.
  static constexpr double kMeanShare = 1.5;
  static constexpr double kSlackRequests = 4;
  // Ours: the part of a prompt's blocks that a match needs.
  static constexpr double kMinMatch = 0.5;

  /// A hash of each prefix of whole blocks, the shortest first.
  static std::vector<std::uint64_t> prefixes_of(const RoutedRequest& request) {
    std::vector<std::uint64_t> prefixes;
    if (request.request == nullptr) return prefixes;
    std::uint64_t hash = 0;
    for (const BlockRun& run : request.request->blocks) {
      for (std::int32_t i = 0; i < run.count; ++i) {
        hash = mix_bits(hash + mix_bits(run.space + mix_bits(static_cast<std::uint64_t>(run.first + i))));
        prefixes.push_back(hash);
      }
    }
    return prefixes;
  }

  std::int32_t longest_match(const std::vector<std::uint64_t>& prefixes, std::span<const ReplicaLoad> loads) const {
    double requests = 0;
    for (const ReplicaLoad& load : loads) requests += load.requests;
    const double limit = kMeanShare * requests / static_cast<double>(loads.size()) + kSlackRequests;
    const auto shortest = static_cast<std::size_t>(std::ceil(kMinMatch * static_cast<double>(prefixes.size())));
    for (std::size_t blocks = prefixes.size(); blocks >= std::max<std::size_t>(shortest, 1); --blocks) {
      const auto found = replica_of_.find(prefixes[blocks - 1]);
      if (found == replica_of_.end()) continue;
      if (loads[static_cast<std::size_t>(found->second)].requests <= limit) return found->second;
    }
    return least_loaded_replica(loads);
  }

  std::unordered_map<std::uint64_t, std::int32_t> replica_of_;
};

}  // namespace

std::unique_ptr<Router> make_prefix_router() {
  return std::make_unique<PrefixRouter>();
}

}  // namespace trunkline::replay
