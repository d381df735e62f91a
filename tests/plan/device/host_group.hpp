// Thread groups of the host: one thread, in ascending or shuffled order, or several real threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include "plan/device/thread_group.hpp"

namespace trunkline::testing {

class HostGroup {
 public:
  /// A group of one thread. \param seed of the order of i; 0: ascending
  explicit HostGroup(std::uint64_t seed = 0) : seed_(seed) {}

  std::int32_t rank() const { return rank_; }
  std::int32_t size() const { return size_; }

  template <class F>
  void for_each(std::int32_t count, F f) {
    const Order order = next_order(count);
    for (std::int32_t i = rank_; i < count; i += size_) f(order(i));
    sync();
  }
  template <class F>
  void for_each_warp(std::int32_t count, F f) {
    const Order order = next_order(count);
    HostGroup warp(seed_);
    for (std::int32_t i = rank_; i < count; i += size_) f(order(i), warp);
    sync();
  }
  template <class F>
  void for_each_subwarp(std::int32_t count, F f) {
    for_each_warp(count, f);
  }
  template <class Value, class Put>
  auto exclusive_scan(std::int32_t count, Value value, Put put) {
    using T = decltype(value(0));
    return by_first([&] {
      T before{};
      for (std::int32_t i = 0; i < count; ++i) {
        const T of_i = value(i);
        put(i, before);
        before = before + of_i;
      }
      return before;
    });
  }
  template <class T, class Value, class Op>
  T reduce(std::int32_t count, T none, Value value, Op op) {
    return by_first([&] {
      T result = none;
      const Order order = next_order(count);
      for (std::int32_t i = 0; i < count; ++i) result = op(result, value(order(i)));
      return result;
    });
  }
  template <class Key>
  void sort(Key* keys, std::int32_t count) {
    once([&] { std::sort(keys, keys + count); });
  }
  template <class F>
  void once(F f) {
    if (rank_ == 0) f();
    sync();
  }
  void sync() {
    if (shared_ != nullptr) shared_->barrier.arrive_and_wait();
  }

  template <class T>
  static T fetch_add(T& to, T value) {
    return std::atomic_ref<T>(to).fetch_add(value);
  }
  template <class T>
  static T compare_exchange(T& to, T expected, T value) {
    std::atomic_ref<T>(to).compare_exchange_strong(expected, value);
    return expected;
  }
  template <class T>
  static T fetch_min(T& to, T value) {
    T was = std::atomic_ref<T>(to).load();
    while (value < was && !std::atomic_ref<T>(to).compare_exchange_weak(was, value)) {
    }
    return was;
  }
  /// Calls f(group) in so many threads at once.
  template <class F>
  static void run_threads(std::int32_t threads, F f) {
    Shared shared(threads);
    std::vector<std::thread> running;
    for (std::int32_t rank = 0; rank < threads; ++rank) {
      running.emplace_back([&shared, rank, threads, &f] {
        HostGroup group(0);
        group.shared_ = &shared;
        group.rank_ = rank;
        group.size_ = threads;
        f(group);
      });
    }
    for (std::thread& thread : running) thread.join();
  }

 private:
  struct Shared {
    explicit Shared(std::int32_t threads) : barrier(threads) {}
    std::barrier<> barrier;
    alignas(16) std::byte result[128];
  };
  /// Returns a permutation of [0, count).
  struct Order {
    std::int64_t count, step, first;
    std::int32_t operator()(std::int32_t i) const { return static_cast<std::int32_t>((first + step * i) % count); }
  };

  Order next_order(std::int32_t count) {
    if (seed_ == 0 || count < 2) return {std::max(count, 1), 1, 0};
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    std::int64_t step = 1 + static_cast<std::int64_t>((seed_ >> 33) % static_cast<std::uint64_t>(count - 1));
    while (std::gcd(step, std::int64_t{count}) != 1) ++step;
    return {count, step, static_cast<std::int64_t>((seed_ >> 17) % static_cast<std::uint64_t>(count))};
  }
  template <class F>
  auto by_first(F f) {
    using T = decltype(f());
    if (shared_ == nullptr) return f();
    static_assert(sizeof(T) <= sizeof(Shared::result));
    T* const result = reinterpret_cast<T*>(shared_->result);
    if (rank_ == 0) new (result) T(f());
    sync();
    const T copy = *result;
    sync();
    return copy;
  }

  Shared* shared_ = nullptr;
  std::int32_t rank_ = 0;
  std::int32_t size_ = 1;
  std::uint64_t seed_;
};

}  // namespace trunkline::testing
