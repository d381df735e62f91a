// A team of host threads, as a device's blocks are: what HostTeam cannot show, that steps wait for each other where
// they must, is for a thread sanitizer to find.
#pragma once

#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "plan/team/host_team.hpp"

namespace trunkline::testing {

/// What needs no barrier.
struct ThreadOperations {
  template <class T>
  static T* forgotten(T* pointer) {
    return pointer;
  }
  template <class T>
  static T peek(const T& from) {
    return std::atomic_ref<T>(const_cast<T&>(from)).load();
  }
  template <class T>
  static T fetch_add(T& to, T value) {
    return std::atomic_ref<T>(to).fetch_add(value);
  }
  template <class T>
  static T fetch_least(T& to, T value) {
    T was = std::atomic_ref<T>(to).load();
    while (value < was && !std::atomic_ref<T>(to).compare_exchange_weak(was, value)) {
    }
    return was;
  }
  template <class T>
  static T fetch_greatest(T& to, T value) {
    T was = std::atomic_ref<T>(to).load();
    while (was < value && !std::atomic_ref<T>(to).compare_exchange_weak(was, value)) {
    }
    return was;
  }
  template <class T>
  static T compare_exchange(T& to, T expected, T value) {
    std::atomic_ref<T>(to).compare_exchange_strong(expected, value);
    return expected;
  }
};

/// The threads of one block.
class ThreadBlock : public ThreadOperations {
 public:
  static constexpr bool kOneBlock = true;
  static constexpr std::int32_t kLanes = 1;

  struct Shared {
    explicit Shared(std::int32_t threads)
        : of_thread(static_cast<std::size_t>(threads)), words(of_thread.size()), barrier(threads) {}

    /// Of a type that is as long as TeamWords<4> at most.
    template <class T>
    void put(std::int32_t thread, const T& value) {
      std::memcpy(&words[static_cast<std::size_t>(thread)], &value, sizeof(value));
    }
    template <class T>
    T get(std::int32_t thread) const {
      T value;
      std::memcpy(&value, &words[static_cast<std::size_t>(thread)], sizeof(value));
      return value;
    }

    std::vector<std::int64_t> of_thread;
    std::vector<TeamWords<4>> words;
    std::barrier<> barrier;
  };

  ThreadBlock(Shared& shared, std::int32_t thread)
      : shared_(&shared), thread_(thread), threads_(static_cast<std::int32_t>(shared.of_thread.size())) {}

  template <class F>
  void each(std::int32_t count, F f) {
    for (std::int32_t i = thread_; i < count; i += threads_) f(i);
    wait();
  }
  template <class F>
  void each_at_last(std::int32_t count, F f) {
    for (std::int32_t i = thread_; i < count; i += threads_) f(i);
  }
  template <class F>
  void each_warp(std::int32_t count, F f) {
    each(count, [&f](std::int32_t i) { f(i, HostLanes()); });
  }
  template <class F>
  void each_warp_for(std::int32_t count, std::int32_t, F f) {
    each_warp(count, f);
  }
  template <class F>
  void once(F f) {
    if (thread_ == 0) f();
    wait();
  }
  template <class T>
  T scan_exclusive(T* values, std::int32_t count) {
    if (thread_ == 0) shared_->of_thread[0] = static_cast<std::int64_t>(HostTeam().scan_exclusive(values, count));
    wait();
    const T total = static_cast<T>(shared_->of_thread[0]);
    wait();
    return total;
  }
  template <class T, class F, class Put>
  T scan(std::int32_t count, F f, Put put) {
    if (thread_ == 0) shared_->put(0, HostTeam().scan<T>(count, f, put));
    wait();
    const T total = shared_->get<T>(0);
    wait();
    return total;
  }
  template <class F, class Put>
  std::int32_t select(std::int32_t count, F f, Put put) {
    std::int32_t selected = 0;
    for (std::int32_t begin = 0; begin < count; begin += threads_) {
      const std::int32_t i = begin + thread_;
      const bool chosen = i < count && f(i);
      shared_->of_thread[static_cast<std::size_t>(thread_)] = chosen ? 1 : 0;
      wait();
      const auto mine = shared_->of_thread.begin() + thread_;
      const auto before = static_cast<std::int32_t>(std::accumulate(shared_->of_thread.begin(), mine, std::int64_t{0}));
      if (chosen) put(selected + before, i);
      selected += before + static_cast<std::int32_t>(std::accumulate(mine, shared_->of_thread.end(), std::int64_t{0}));
      wait();
    }
    return selected;
  }
  template <class F>
  bool any(std::int32_t count, F f) {
    return greatest(count, std::int32_t{0}, [&f](std::int32_t i) { return f(i) ? 1 : 0; }) != 0;
  }
  template <class T, class F>
  T sum(std::int32_t count, T none, F f) {
    return reduce(count, none, f, [](const T& a, const T& b) { return static_cast<T>(a + b); });
  }
  template <class T, class F>
  T least(std::int32_t count, T none, F f) {
    return reduce(count, none, f, [](T a, T b) { return trunkline::least(a, b); });
  }
  template <class T, class F>
  T greatest(std::int32_t count, T none, F f) {
    return reduce(count, none, f, [](T a, T b) { return most(a, b); });
  }

 private:
  template <class T, class F, class Join>
  T reduce(std::int32_t count, T none, F f, Join join) {
    T value = none;
    for (std::int32_t i = thread_; i < count; i += threads_) value = join(value, f(i));
    shared_->put(thread_, value);
    wait();
    value = none;
    for (std::int32_t thread = 0; thread < threads_; ++thread) value = join(value, shared_->get<T>(thread));
    wait();
    return value;
  }
  void wait() { shared_->barrier.arrive_and_wait(); }

  Shared* shared_;
  std::int32_t thread_;
  std::int32_t threads_;
};

/// One thread of a cluster of blocks.
class ThreadTeam : public ThreadOperations {
 public:
  static constexpr bool kOneBlock = false;
  static constexpr std::int32_t kLanes = ThreadBlock::kLanes;

  using Counts = std::vector<std::atomic<std::int32_t>>;

  ThreadTeam(std::barrier<>& all, std::atomic<std::int32_t>& told, Counts& received, std::vector<std::byte*>& memories,
             ThreadBlock block, std::int32_t rank, std::int32_t thread, std::int32_t threads)
      : all_(&all),
        told_(&told),
        received_(&received),
        memories_(&memories),
        block_(block),
        rank_(rank),
        blocks_(static_cast<std::int32_t>(memories.size())),
        thread_(thread),
        threads_(threads) {}

  template <class F>
  void each(std::int32_t count, F f) {
    each_at_last(count, f);
    wait();
  }
  template <class F>
  void each_at_last(std::int32_t count, F f) {
    for (std::int32_t i = thread_ * blocks_ + rank_; i < count; i += threads_ * blocks_) f(i);
  }
  StridedPart part(bool own, std::int32_t spared, std::int32_t) const {
    const std::int32_t rank = own ? 0 : rank_ - spared;
    const std::int32_t blocks = own ? 1 : blocks_ - spared - (spared > 0 ? 1 : 0);
    if (rank == blocks) return {std::numeric_limits<std::int32_t>::max() / 2, 1};
    return {thread_ * blocks + rank, threads_ * blocks};
  }
  template <class F>
  std::int32_t each_at_last_of_spared(std::int32_t count, std::int32_t head, std::int32_t spared, F f) {
    const std::int32_t rank = rank_ - spared;
    const std::int32_t blocks = blocks_ - spared - (head > 0 ? 1 : 0);
    if (rank == blocks) {
      block_.each_at_last(head, f);
      return 0;
    }
    for (std::int32_t i = head + thread_ * blocks + rank; i < count; i += threads_ * blocks) f(i);
    return 0;
  }
  template <class F>
  void each_warp(std::int32_t count, F f) {
    each(count, [&f](std::int32_t i) { f(i, HostLanes()); });
  }
  template <class F>
  void pass(bool, F f) {
    auto arrived = all_->arrive();
    f();
    all_->wait(std::move(arrived));
  }
  template <class F>
  void pass_where(bool where, F f) {
    if (!where) return f();
    pass(false, f);
  }
  template <class F, class Thing>
  void each_warp_telling(bool own, std::int32_t count, const Telling& told, std::int32_t spared, F f, Thing thing) {
    if (!own) return each_warp(count, f);
    for (std::int32_t i = thread_; i < count; i += threads_) f(i, HostLanes());
    for (std::int32_t i = thread_; told.all > 0 && i < told.own; i += threads_) {
      tell_all(thing(i), spared);
      for (std::int32_t other = spared; other < blocks_; ++other) received(other, told).fetch_add(1);
    }
    block_.each(0, [](std::int32_t) {});
    while (received(rank_, told).load() < told.all) std::this_thread::yield();
  }
  BlockShare share(std::int32_t count, std::int32_t spared) const {
    return BlockShare::of(count, rank_ - spared, blocks_ - spared);
  }
  static HostLanes lanes() { return {}; }
  void meet() { wait(); }
  template <class T>
  void tell_blocks(const HostLanes&, T* from) const {
    if (has_own(from)) tell_all(from);
  }
  bool has_own(const void*) const { return (*memories_)[static_cast<std::size_t>(rank_)] != nullptr; }
  bool leads(std::int32_t blocks = 0) const { return rank_ == blocks; }
  bool spares(std::int32_t count) const { return rank_ >= count; }
  bool can_spare(std::int32_t count) const { return blocks_ >= count + 2; }
  bool takes(std::int32_t i) const { return i % blocks_ == rank_; }
  template <class Next, class F, class Last>
  void lead_rounds(Next next, F f, Last last) {
    wait();  // blocks have read what they need ahead of it
    for (std::int32_t round = 0;; ++round) {
      if (rank_ == 0) {
        const std::int32_t count = next(block_, round);
        if (count == 0) last(block_);
        told_->store(count);
      }
      wait();
      const std::int32_t count = told_->load();
      if (count == 0) return;
      each_warp(count, f);
    }
  }
  template <class F, class Told>
  void each_block(std::int32_t count, F f, Told told) {
    for (std::int32_t i = rank_; i < count; i += blocks_) {
      f(i, block_);
      if (thread_ != 0) continue;
      const auto* const thing = told(i);  // as much of it as a device tells, and no more
      tell_all(thing, 0, static_cast<std::size_t>(thing->words()) * sizeof(std::int32_t));
    }
    wait();
  }
  /// A block's own memory, laid out alike in all; before each_block is called.
  void keep_memory(std::byte* own) {
    if (thread_ == 0) (*memories_)[static_cast<std::size_t>(rank_)] = own;
    wait();
  }
  template <class F>
  void own(F f) {
    f(block_, rank_ + 1 == blocks_);
  }
  template <class F>
  void own_or_lead(bool own, F f) {
    if (own || rank_ == 0) f(block_);
    if (!own) wait();
  }
  template <class F>
  void lead(F f) {
    if (rank_ == 0) f(block_);
    wait();
  }
  template <class F>
  void once(F f) {
    if (rank_ == 0 && thread_ == 0) f();
    wait();
  }
  static void leave() {}

 private:
  void wait() { all_->arrive_and_wait(); }
  std::atomic<std::int32_t>& received(std::int32_t rank, const Telling& told) const {
    return (*received_)[static_cast<std::size_t>(rank * Telling::kNumbers + told.number)];
  }
  template <class T>
  void tell_all(const T* from, std::int32_t spared = 0, std::size_t bytes = sizeof(T)) const {
    const auto rank = static_cast<std::size_t>(rank_);
    const std::ptrdiff_t place = reinterpret_cast<const std::byte*>(from) - (*memories_)[rank];
    for (auto other = static_cast<std::size_t>(spared); other < memories_->size(); ++other) {
      if (other != rank) std::memcpy((*memories_)[other] + place, from, bytes);
    }
  }

  std::barrier<>* all_;
  std::atomic<std::int32_t>* told_;
  Counts* received_;                   // [blocks, Telling::kNumbers]
  std::vector<std::byte*>* memories_;  // of each block
  ThreadBlock block_;
  std::int32_t rank_;
  std::int32_t blocks_;
  std::int32_t thread_;
  std::int32_t threads_;
};

/// f(team, rank of the block) on each thread of so many blocks.
template <class F>
void run_threads(std::int32_t blocks, std::int32_t threads, F f) {
  std::barrier<> all(blocks * threads);
  std::atomic<std::int32_t> told = 0;
  ThreadTeam::Counts received(static_cast<std::size_t>(blocks) * Telling::kNumbers);
  std::vector<std::byte*> memories(static_cast<std::size_t>(blocks));
  std::vector<std::unique_ptr<ThreadBlock::Shared>> shared;
  for (std::int32_t rank = 0; rank < blocks; ++rank) shared.push_back(std::make_unique<ThreadBlock::Shared>(threads));
  std::vector<std::jthread> running;
  for (std::int32_t rank = 0; rank < blocks; ++rank) {
    for (std::int32_t thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, rank, thread] {
        ThreadTeam team(all, told, received, memories, ThreadBlock(*shared[static_cast<std::size_t>(rank)], thread),
                        rank, thread, threads);
        f(team, rank);
      });
    }
  }
}

}  // namespace trunkline::testing
