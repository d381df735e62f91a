// Where the CPU executor gets its threads from.
#pragma once

#include <memory>

namespace trunkline {

/// A team of workers that runs one function at a time on all its members. Replace it to use an engine's own threads.
class Workers {
 public:
  using Function = void (*)(void* context, int worker);

  virtual ~Workers() = default;
  virtual int size() const = 0;
  /// Calls `function(context, w)` for every w in [0, size()), at once, and returns when all have returned.
  /// Called by one thread at a time. Neither allocates nor throws; `function` does not throw.
  virtual void run(Function function, void* context) = 0;
};

/// A pool of `threads` threads, the caller of run() being one of them. Idle threads spin for a few microseconds,
/// so that the layers of one decode step follow each other quickly, then sleep.
///
/// A forked child has none of its parent's threads. There a pool of the parent with more than one is an Error
/// (kUnsupported) to run, before `function` is called, and may be destroyed.
class ThreadPool final : public Workers {
 public:
  /// \param threads at least 1; 0 means every core that this process may use.
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
