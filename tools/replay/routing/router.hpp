// Which replica serves a request that has just arrived.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "replay/trace.hpp"

namespace trunkline::replay {

/// A request, or a search, that is to be routed.
struct RoutedRequest {
  std::int32_t index = 0;
  std::int32_t session = 0;
  const TraceRequest* request = nullptr;  ///< null: a search, whose prompt no other has
};

/// Requests that a replica was sent and that have not ended.
struct ReplicaLoad {
  std::int32_t requests = 0;
  std::int64_t tokens = 0;  ///< prompts and outputs
};

class Router {
 public:
  virtual ~Router() = default;
  /// \param loads by replica, at least one \return an index into loads
  virtual std::int32_t choose(const RoutedRequest& request, std::span<const ReplicaLoad> loads) = 0;
};

/// The replica with the fewest requests; of equal ones the fewest tokens, then the lowest index.
std::int32_t least_loaded_replica(std::span<const ReplicaLoad> loads);

}  // namespace trunkline::replay
