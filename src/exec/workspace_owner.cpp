#include "exec/workspace_owner.hpp"

#include <pthread.h>

#include <atomic>
#include <iterator>
#include <map>
#include <mutex>

namespace trunkline {
namespace {

struct Claim {
  std::uintptr_t end;
  std::uint64_t owner;
};

/// Claims by where they begin; none overlaps another.
struct Claims {
  std::mutex mutex;
  std::map<std::uintptr_t, Claim> by_begin;
  std::uint64_t last_id = 0;
  std::atomic<std::uint64_t> takeovers{0};
};

Claims& claims() {
  // Never destroyed: executors of static storage may end after it would be.
  static Claims& all = *new Claims;
  // A child of fork() finds the lock free, whichever thread of its parent had it.
  static const int registered =
      pthread_atfork([] { all.mutex.lock(); }, [] { all.mutex.unlock(); }, [] { all.mutex.unlock(); });
  static_cast<void>(registered);
  return all;
}

std::uintptr_t address_of(const void* base) {
  return reinterpret_cast<std::uintptr_t>(base);
}

}  // namespace

WorkspaceOwner::WorkspaceOwner() {
  Claims& all = claims();
  const std::lock_guard lock(all.mutex);
  id_ = ++all.last_id;
}

WorkspaceOwner::~WorkspaceOwner() {
  Claims& all = claims();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.by_begin, [this](const auto& claim) { return claim.second.owner == id_; });
}

std::uint64_t WorkspaceOwner::claim(const void* base, std::size_t bytes) const {
  const std::uintptr_t begin = address_of(base);
  const Claim claimed{begin + bytes, id_};
  Claims& all = claims();
  const std::lock_guard lock(all.mutex);
  const auto [own, fresh] = all.by_begin.try_emplace(begin, claimed);
  bool taken = !fresh && own->second.owner != id_;
  own->second = claimed;
  if (own != all.by_begin.begin() && std::prev(own)->second.end > begin) {
    all.by_begin.erase(std::prev(own));
    taken = true;
  }
  for (auto after = std::next(own); after != all.by_begin.end() && after->first < claimed.end;) {
    after = all.by_begin.erase(after);
    taken = true;
  }
  if (taken) all.takeovers.fetch_add(1, std::memory_order_release);
  return all.takeovers.load(std::memory_order_relaxed);
}

bool WorkspaceOwner::holds(const void* base, std::uint64_t stamp) const {
  Claims& all = claims();
  if (all.takeovers.load(std::memory_order_acquire) == stamp) return true;
  const std::lock_guard lock(all.mutex);
  const auto at = all.by_begin.find(address_of(base));
  return at != all.by_begin.end() && at->second.owner == id_;
}

void WorkspaceOwner::release(const void* base) const {
  Claims& all = claims();
  const std::lock_guard lock(all.mutex);
  const auto at = all.by_begin.find(address_of(base));
  if (at == all.by_begin.end() || at->second.owner != id_) return;
  all.by_begin.erase(at);
  all.takeovers.fetch_add(1, std::memory_order_release);  // so that stamps from before are looked up
}

}  // namespace trunkline
