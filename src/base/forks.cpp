#include "base/forks.hpp"

#include <pthread.h>

#include <atomic>

namespace trunkline {
namespace {

// Counted, because asking the system for the process id takes 50 to 100 ns, and this is asked once a layer.
constinit std::atomic<std::uint32_t> count{0};

[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

std::uint32_t forks() noexcept {
  return count.load(std::memory_order_relaxed);
}

}  // namespace trunkline
