// The threads that the CPU executor runs on.
#pragma once

#include <memory>

namespace trunkline {

/// A group of threads that run one function at a time. Derive from it to use an engine's own threads.
class Workers {
 public:
  using Function = void (*)(void* context, int worker);

  virtual ~Workers() = default;
  /// The number of workers, >= 1; it does not change.
  virtual int size() const = 0;
  /// Calls `function(context, w)` for every w in [0, size()) at the same time, and returns when all have returned. One
  /// thread at a time calls it. It neither allocates nor throws; `function` does not throw.
  virtual void run(Function function, void* context) = 0;
};

/// A pool of threads, one of which is the caller of run(). Idle threads spin for a few microseconds, so that the layers
/// of one decode step follow each other quickly, then sleep.
///
/// A forked child has none of its parent's threads. There run() of a parent's pool with more than one thread throws
/// Error(kUnsupported) before `function` is called; the pool may be destroyed.
class ThreadPool final : public Workers {
 public:
  /// \param threads at least 1, the caller of run() included; 0: one for every core that this process may use.
  /// \throws Error(kInvalidArgument) when it is negative.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const override;
  void run(Function function, void* context) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trunkline
