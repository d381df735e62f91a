// Handing values from one thread to another without waiting: the newest wins.
#pragma once

#include <atomic>
#include <cstddef>

namespace trunkline {

/// Three values: the producer's, the consumer's, and one between them that either exchanges for its own. One producer,
/// one consumer. Values keep their memory as they go round.
template <class T>
class LatestValue {
 public:
  /// The producer's value, to be filled.
  T& draft() { return values_[draft_]; }
  /// Publishes the draft. A published value that was not taken becomes the next draft.
  void publish() { draft_ = between_.exchange(draft_ | kFresh, std::memory_order_acq_rel) & kIndex; }
  /// \return the newest value published since the last call, or null. The consumer owns it until its next take().
  T* take() {
    if ((between_.load(std::memory_order_relaxed) & kFresh) == 0) return nullptr;
    taken_ = between_.exchange(taken_, std::memory_order_acq_rel) & kIndex;
    return &values_[taken_];
  }
  /// Visits all three values. Call it before the threads begin.
  template <class Visit>
  void visit_all(Visit visit) {
    for (T& value : values_) visit(value);
  }

 private:
  static constexpr unsigned kFresh = 4;
  static constexpr unsigned kIndex = 3;

  T values_[3] = {};
  unsigned draft_ = 0;                // the producer's
  unsigned taken_ = 1;                // the consumer's
  std::atomic<unsigned> between_{2};  // with kFresh while it waits to be taken
};

}  // namespace trunkline
