// The team of the host: one thread, with the calls that team.hpp names.
#pragma once

#include <cstdint>

#include "plan/team/team.hpp"

namespace trunkline {

/// The numbers below `count`, each once, in an order that a seed decides.
class ShuffledOrder {
 public:
  /// \param seed 0: rising
  ShuffledOrder(std::int32_t count, std::uint64_t seed) : count_(static_cast<std::uint64_t>(count)), seed_(seed) {
    while (mask_ < count_) mask_ = 2 * mask_ + 1;
  }

  template <class F>
  void visit(F f) const {
    if (seed_ == 0) {
      for (std::uint64_t i = 0; i < count_; ++i) f(static_cast<std::int32_t>(i));
      return;
    }
    // Of a permutation of a power of two, those below count.
    for (std::uint64_t i = 0; i <= mask_; ++i) {
      const std::uint64_t at = permuted(i);
      if (at < count_) f(static_cast<std::int32_t>(at));
    }
  }

 private:
  // Steps that can be undone: an odd factor, a sum, an exclusive or with higher bits.
  std::uint64_t permuted(std::uint64_t i) const {
    for (int round = 0; round < 3; ++round) {
      i = (i * (seed_ | 1) + (seed_ >> 7)) & mask_;
      i ^= i >> 3;
    }
    return i;
  }

  std::uint64_t count_;
  std::uint64_t seed_;
  std::uint64_t mask_ = 0;
};

/// One thread that does it all. It is its own only block.
class HostTeam {
 public:
  static constexpr bool kOneBlock = true;
  static constexpr std::int32_t kLanes = 1;  ///< of a warp

  /// \param seed of the orders of i; 0: rising
  explicit HostTeam(std::uint64_t seed = 0) : seed_(seed) {}

  template <class F>
  void each(std::int32_t count, F f) {
    ShuffledOrder(count, next_seed()).visit(f);
  }
  template <class F>
  void each_at_last(std::int32_t count, F f) {
    each(count, f);
  }
  static StridedPart part(bool, std::int32_t, std::int32_t) { return {0, 1}; }
  template <class F>
  std::int32_t each_at_last_of_spared(std::int32_t count, std::int32_t, std::int32_t, F f) {
    each(count, f);
    return 0;
  }
  template <class F>
  void each_warp(std::int32_t count, F f) {
    each(count, [&f](std::int32_t i) { f(i, HostLanes()); });
  }
  template <class F>
  void each_warp_for(std::int32_t count, std::int32_t, F f) {
    each_warp(count, f);
  }
  template <class F, class Thing>
  void each_warp_telling(bool, std::int32_t count, const Telling&, std::int32_t, F f, Thing) {
    each_warp(count, f);
  }
  static BlockShare share(std::int32_t count, std::int32_t) { return BlockShare::of(count, 0, 1); }
  template <class F>
  static void pass(bool, F f) {
    f();
  }
  template <class F>
  static void pass_where(bool, F f) {
    f();
  }
  static HostLanes lanes() { return {}; }
  static void meet() {}
  template <class T>
  static void tell_blocks(const HostLanes&, T*) {}
  static bool has_own(const void*) { return true; }
  static bool leads(std::int32_t = 0) { return true; }
  static bool can_spare(std::int32_t) { return true; }
  static bool spares(std::int32_t) { return true; }
  static bool takes(std::int32_t) { return true; }
  template <class Next, class F, class Last>
  void lead_rounds(Next next, F f, Last last) {
    std::int32_t round = 0;
    for (std::int32_t count = next(*this, round); count > 0; count = next(*this, round)) {
      each_warp(count, f);
      ++round;
    }
    last(*this);
  }
  template <class F, class Told>
  void each_block(std::int32_t count, F f, Told) {
    each(count, [this, &f](std::int32_t i) { f(i, *this); });
  }
  template <class F>
  void own(F f) {
    f(*this, true);
  }
  template <class F>
  void own_or_lead(bool, F f) {
    f(*this);
  }
  template <class F>
  void lead(F f) {
    f(*this);
  }
  template <class F>
  void once(F f) {
    f();
  }

  static void leave() {}

  template <class T>
  T scan_exclusive(T* values, std::int32_t count) {
    T total = 0;
    for (std::int32_t i = 0; i < count; ++i) {
      const T value = values[i];
      values[i] = total;
      total += value;
    }
    return total;
  }
  template <class T, class F, class Put>
  T scan(std::int32_t count, F f, Put put) {
    T before{};
    for (std::int32_t i = 0; i < count; ++i) {
      const T value = f(i);
      put(i, before);
      before = before + value;
    }
    put(count, before);
    return before;
  }
  template <class F, class Put>
  std::int32_t select(std::int32_t count, F f, Put put) {
    std::int32_t selected = 0;
    for (std::int32_t i = 0; i < count; ++i) {
      if (f(i)) put(selected++, i);
    }
    return selected;
  }
  template <class F>
  bool any(std::int32_t count, F f) {
    bool any = false;
    each(count, [&](std::int32_t i) { any = f(i) || any; });
    return any;
  }
  template <class T, class F>
  T sum(std::int32_t count, T none, F f) {
    each(count, [&](std::int32_t i) { none = none + f(i); });
    return none;
  }
  template <class T, class F>
  T least(std::int32_t count, T none, F f) {
    each(count, [&](std::int32_t i) { none = trunkline::least<T>(none, f(i)); });
    return none;
  }
  template <class T, class F>
  T greatest(std::int32_t count, T none, F f) {
    each(count, [&](std::int32_t i) { none = most<T>(none, f(i)); });
    return none;
  }

  template <class T>
  static T* forgotten(T* pointer) {
    return pointer;
  }

  template <class T>
  static T peek(const T& from) {
    return from;
  }
  template <class T>
  static T fetch_add(T& to, T value) {
    const T was = to;
    to += value;
    return was;
  }
  template <class T>
  static T fetch_least(T& to, T value) {
    const T was = to;
    to = trunkline::least<T>(was, value);
    return was;
  }
  template <class T>
  static T fetch_greatest(T& to, T value) {
    const T was = to;
    to = most<T>(was, value);
    return was;
  }
  /// Writes `value` where `expected` is.
  template <class T>
  static T compare_exchange(T& to, T expected, T value) {
    const T was = to;
    if (was == expected) to = value;
    return was;
  }

 private:
  // Each call has another order.
  std::uint64_t next_seed() {
    if (seed_ == 0) return 0;
    seed_ = (seed_ * 0x9E3779B97F4A7C15u + 0x632BE59BD9B4E019u) | 1;
    return seed_;
  }

  std::uint64_t seed_;
};

}  // namespace trunkline
