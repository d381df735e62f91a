// A team of real threads, as a cluster of blocks is one: it finds code that breaks the rules of plan/team/team.hpp in
// ways that the host's team, which is one thread, cannot: threads that do not all make a call, or that read outside of
// a call what the next one writes. Under a thread sanitizer it finds those also where they do no harm.
#pragma once

#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace trunkline::testing {

/// Lanes of one thread.
class ThreadLanes {
 public:
  std::int32_t index() const { return 0; }
  std::int32_t count() const { return 1; }
  template <class T>
  T least(T value) const {
    return value;
  }
  template <class T>
  T sum(T value) const {
    return value;
  }
  bool any(bool value) const { return value; }
};

struct ThreadOperations {
  template <class T>
  static T* forgotten(T* pointer) {
    return pointer;
  }
  template <class T>
  static T peek(const T& from) {
    return std::atomic_ref<T>(const_cast<T&>(from)).load(std::memory_order_relaxed);
  }
  template <class T>
  static T fetch_add(T& to, T value) {
    return std::atomic_ref<T>(to).fetch_add(value);
  }
  template <class T>
  static T fetch_least(T& to, T value) {
    T was = std::atomic_ref<T>(to).load();
    while (value < was && !std::atomic_ref<T>(to).compare_exchange_weak(was, value)) continue;
    return was;
  }
  template <class T>
  static T fetch_greatest(T& to, T value) {
    T was = std::atomic_ref<T>(to).load();
    while (was < value && !std::atomic_ref<T>(to).compare_exchange_weak(was, value)) continue;
    return was;
  }
  template <class T>
  static T compare_exchange(T& to, T expected, T value) {
    std::atomic_ref<T>(to).compare_exchange_strong(expected, value);
    return expected;
  }
};

/// What the threads of a block have in common.
struct ThreadBlock {
  explicit ThreadBlock(std::int32_t count) : threads(count), barrier(count), values(static_cast<std::size_t>(count)) {}

  std::int32_t threads;
  std::barrier<> barrier;
  std::vector<std::int64_t> values;
};

class ThreadBlockTeam : public ThreadOperations {
 public:
  ThreadBlockTeam(ThreadBlock& block, std::int32_t thread) : block_(block), thread_(thread) {}

  template <class F>
  void each(std::int32_t count, F f) {
    for (std::int32_t i = thread_; i < count; i += block_.threads) f(i);
    block_.barrier.arrive_and_wait();
  }
  template <class F>
  void each_warp(std::int32_t count, F f) {
    each(count, [&f](std::int32_t i) { f(i, ThreadLanes()); });
  }
  template <class F>
  void each_block(std::int32_t count, F f) {
    for (std::int32_t i = 0; i < count; ++i) f(i, *this);
    block_.barrier.arrive_and_wait();
  }
  template <class F>
  void lead(F f) {
    f(*this);
  }
  template <class F>
  void once(F f) {
    if (thread_ == 0) f();
    block_.barrier.arrive_and_wait();
  }
  template <class T>
  T scan_exclusive(T* values, std::int32_t count) {
    block_.barrier.arrive_and_wait();
    once([&] {
      T total = 0;
      for (std::int32_t i = 0; i < count; ++i) {
        const T value = values[i];
        values[i] = total;
        total += value;
      }
      block_.values[0] = static_cast<std::int64_t>(total);
    });
    return result<T>();
  }
  template <class F, class Put>
  std::int32_t select(std::int32_t count, F f, Put put) {
    std::int32_t before = 0;
    for (std::int32_t begin = 0; begin < count; begin += block_.threads) {
      const std::int32_t i = begin + thread_;
      const bool chosen = i < count && f(i);
      mine() = chosen ? 1 : 0;
      block_.barrier.arrive_and_wait();
      std::int32_t rank = before;
      for (std::int32_t other = 0; other < block_.threads; ++other) {
        if (other < thread_) rank += static_cast<std::int32_t>(block_.values[static_cast<std::size_t>(other)]);
        before += static_cast<std::int32_t>(block_.values[static_cast<std::size_t>(other)]);
      }
      if (chosen) put(rank, i);
      block_.barrier.arrive_and_wait();
    }
    return before;
  }
  template <class T, class F>
  T sum(std::int32_t count, T none, F f) {
    return none + reduce<T>(count, T{0}, f, [](T a, T b) { return a + b; });
  }
  template <class T, class F>
  T least(std::int32_t count, T none, F f) {
    return reduce<T>(count, none, f, [](T a, T b) { return b < a ? b : a; });
  }
  template <class T, class F>
  T greatest(std::int32_t count, T none, F f) {
    return reduce<T>(count, none, f, [](T a, T b) { return a < b ? b : a; });
  }

 private:
  std::int64_t& mine() { return block_.values[static_cast<std::size_t>(thread_)]; }
  /// What one thread left for all.
  template <class T>
  T result() {
    const T value = static_cast<T>(block_.values[0]);
    block_.barrier.arrive_and_wait();
    return value;
  }
  template <class T, class F, class Join>
  T reduce(std::int32_t count, T none, F f, Join join) {
    T value = none;
    for (std::int32_t i = thread_; i < count; i += block_.threads) value = join(value, static_cast<T>(f(i)));
    mine() = static_cast<std::int64_t>(value);
    block_.barrier.arrive_and_wait();
    value = none;
    for (const std::int64_t of_thread : block_.values) value = join(value, static_cast<T>(of_thread));
    block_.barrier.arrive_and_wait();
    return value;
  }

  ThreadBlock& block_;
  std::int32_t thread_;
};

class ThreadClusterTeam : public ThreadOperations {
 public:
  ThreadClusterTeam(std::barrier<>& barrier, ThreadBlock& block, std::int32_t rank, std::int32_t blocks,
                    std::int32_t thread)
      : barrier_(barrier),
        block_(block, thread),
        rank_(rank),
        blocks_(blocks),
        thread_(thread),
        threads_(block.threads) {}

  template <class F>
  void each(std::int32_t count, F f) {
    for (std::int32_t i = thread_ * blocks_ + rank_; i < count; i += threads_ * blocks_) f(i);
    barrier_.arrive_and_wait();
  }
  template <class F>
  void each_warp(std::int32_t count, F f) {
    each(count, [&f](std::int32_t i) { f(i, ThreadLanes()); });
  }
  template <class F>
  void each_block(std::int32_t count, F f) {
    for (std::int32_t i = rank_; i < count; i += blocks_) f(i, block_);
    barrier_.arrive_and_wait();
  }
  template <class F>
  void lead(F f) {
    if (rank_ == 0) f(block_);
    barrier_.arrive_and_wait();
  }
  template <class F>
  void once(F f) {
    if (rank_ == 0 && thread_ == 0) f();
    barrier_.arrive_and_wait();
  }

 private:
  std::barrier<>& barrier_;
  ThreadBlockTeam block_;
  std::int32_t rank_;
  std::int32_t blocks_;
  std::int32_t thread_;
  std::int32_t threads_;
};

/// Runs f(team) by each thread of a cluster.
template <class F>
void run_cluster(std::int32_t blocks, std::int32_t threads, F f) {
  std::barrier<> barrier(blocks * threads);
  std::vector<std::unique_ptr<ThreadBlock>> parts;
  for (std::int32_t rank = 0; rank < blocks; ++rank) parts.push_back(std::make_unique<ThreadBlock>(threads));
  std::vector<std::jthread> running;
  for (std::int32_t i = 0; i < blocks * threads; ++i) {
    running.emplace_back([&, i] {
      ThreadClusterTeam team(barrier, *parts[static_cast<std::size_t>(i / threads)], i / threads, blocks, i % threads);
      f(team);
    });
  }
}

}  // namespace trunkline::testing
