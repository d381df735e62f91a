#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "base/forks.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/threads.hpp"

namespace trunkline {
namespace {

// Idle threads look this often before they sleep: 10 to 50 microseconds, by how long the processor pauses. That is
// longer than the gap between two layers of a decode step on a CPU, and shorter than anyone would notice.
constexpr int kSpins = 1000;

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Returns once `value` differs from `old`.
template <class T>
void wait_for_change(const std::atomic<T>& value, T old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause_briefly();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

struct ThreadPool::State {
  int size = 1;
  const std::uint32_t process = forks();  // which has the threads
  std::atomic<unsigned> epoch{0};         // grows by one with each run, and once more to stop
  std::atomic<int> running{0};
  std::atomic<bool> stopping{false};
  Function function = nullptr;  // written before epoch grows, read after
  void* context = nullptr;
  std::vector<std::jthread> threads;  // last, so that they are joined before the rest goes

  // Also when not all threads could be created: those that wait would never be joined.
  ~State() {
    stopping.store(true, std::memory_order_relaxed);
    start_epoch();
  }

  void serve(int worker) {
    unsigned seen = 0;
    while (true) {
      unsigned now = epoch.load(std::memory_order_acquire);
      while (now == seen) {
        wait_for_change(epoch, seen);
        now = epoch.load(std::memory_order_acquire);
      }
      seen = now;
      if (stopping.load(std::memory_order_relaxed)) return;
      function(context, worker);
      if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) running.notify_one();
    }
  }

  void start_epoch() {
    epoch.fetch_add(1, std::memory_order_release);
    epoch.notify_all();
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  if (threads < 0) fail(ErrorCode::kInvalidArgument, "threads is ", threads, "; it must be >= 1, or 0 for every core");
  state_->size = threads > 0 ? threads : cpu_info().cores;
  for (int worker = 1; worker < state_->size; ++worker) {
    try {
      state_->threads.emplace_back([state = state_.get(), worker] { state->serve(worker); });
    } catch (const std::system_error& error) {
      fail(ErrorCode::kInvalidArgument, "threads is ", state_->size, ", but the system refused to start number ",
           worker, ": ", error.what());
    }
  }
}

// A forked child gives up the memory: it has no threads to join, and what their ids name may be other threads by then.
ThreadPool::~ThreadPool() {
  if (state_->process != forks()) static_cast<void>(state_.release());
}

int ThreadPool::size() const {
  return state_->size;
}

void ThreadPool::run(Function function, void* context) {
  if (state_->size == 1) {
    function(context, 0);
    return;
  }
  if (state_->process != forks()) {
    fail(ErrorCode::kUnsupported,
         "the thread pool was made before this process was forked, and its threads are in the parent; supported: a "
         "pool made here");
  }
  state_->function = function;
  state_->context = context;
  state_->running.store(state_->size - 1, std::memory_order_relaxed);
  state_->start_epoch();
  function(context, 0);
  for (int left = state_->running.load(std::memory_order_acquire); left != 0;
       left = state_->running.load(std::memory_order_acquire)) {
    wait_for_change(state_->running, left);
  }
}

}  // namespace trunkline
