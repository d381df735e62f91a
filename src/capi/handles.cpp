#include "capi/handles.hpp"

#include <pthread.h>

#include <array>
#include <mutex>
#include <new>

#include "base/check.hpp"

namespace trunkline::capi {
namespace {

static_assert(sizeof(void*) == sizeof(std::uint64_t), "handles take 64 bits");

// A handle: generation << 32 | index of the slot << 8 | kind.
constexpr int kGenerationShift = 32;
constexpr int kIndexShift = 8;
constexpr std::uint64_t kKindMask = 0xFF;
constexpr std::uint64_t kIndexMask = 0xFFFFFF;

constexpr std::size_t kChunkSlots = 256;
constexpr std::size_t kChunks = 4096;  // a million handles at a time
static_assert(kChunkSlots * kChunks <= kIndexMask + 1);

constexpr std::uint64_t generation_of(std::uint64_t state) {
  return state >> kGenerationShift;
}
constexpr std::uint64_t state_of(std::uint64_t generation, std::uint64_t users) {
  return (generation & kUsersMask) << kGenerationShift | users;
}

struct Table {
  std::array<std::atomic<Slot*>, kChunks> chunks{};
  std::mutex mutex;  // of what follows; looking up takes no lock
  Slot* free = nullptr;
  std::size_t used_chunks = 0;
};

// Made when the library is loaded, not by the first call, in which another thread could be when the process is forked.
// Its slots are never freed: handles may be used while a process ends.
constinit Table table;

void push_free(Slot& slot) {
  slot.next_free = std::exchange(table.free, &slot);
}

void add_chunk() {
  if (table.used_chunks == kChunks) throw std::bad_alloc();
  auto* const slots = new Slot[kChunkSlots];
  const std::size_t first = table.used_chunks * kChunkSlots;
  for (std::size_t i = kChunkSlots; i-- > 0;) {
    slots[i].index = static_cast<std::uint32_t>(first + i);
    push_free(slots[i]);
  }
  table.chunks[table.used_chunks++].store(slots, std::memory_order_release);
}

/// Objects that own threads or a GPU's context, or an engine's thread group, which most likely has threads.
bool stays_in_parent(Kind kind) {
  switch (kind) {
    case Kind::kAsyncPlanner:
    case Kind::kWorkers:
    case Kind::kCpu:
    case Kind::kCuda:
    case Kind::kCudaPlanner: return true;
    default: return false;
  }
}

// In a forked child, whose only thread this is. Those that were reading an object are not here to stop.
void end_what_stays_in_parent(Slot& slot) {
  const std::uint64_t state = slot.state.load(std::memory_order_relaxed);
  const std::uint64_t generation = generation_of(state);
  if (generation % 2 == 0) return;
  const bool ends = stays_in_parent(slot.kind) || (state & kUsersMask) == kExclusive;
  if (ends) slot.lost.store(static_cast<std::uint32_t>(generation), std::memory_order_relaxed);
  slot.state.store(state_of(generation + (ends ? 1 : 0), 0), std::memory_order_relaxed);
}

void before_fork() {
  table.mutex.lock();
}
void after_fork_in_parent() {
  table.mutex.unlock();
}
void after_fork_in_child() {
  for (std::size_t chunk = 0; chunk < table.used_chunks; ++chunk) {
    Slot* const slots = table.chunks[chunk].load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < kChunkSlots; ++i) end_what_stays_in_parent(slots[i]);
  }
  table.mutex.unlock();
}
// No other thread holds the lock while a process is forked, or the child could never take it.
[[maybe_unused]] const int registered = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);

[[noreturn]] void bad_handle(const void* handle, Kind kind) {
  if (handle == nullptr) throw Failure(TRUNKLINE_BAD_HANDLE, concat("the ", name_of(kind), " handle is NULL"));
  throw Failure(TRUNKLINE_BAD_HANDLE, concat("the ", name_of(kind), " handle ", handle,
                                             " is none: it was closed or replaced, or is of another kind"));
}

[[noreturn]] void ended(const Slot& slot, const void* handle, Kind kind) {
  const std::uint64_t generation = reinterpret_cast<std::uint64_t>(handle) >> kGenerationShift;
  if (slot.lost.load(std::memory_order_relaxed) != generation || generation == 0) bad_handle(handle, kind);
  throw Failure(TRUNKLINE_BAD_HANDLE,
                concat("the ", name_of(kind), " handle was made before this process was forked, and ",
                       stays_in_parent(kind) ? "what it works with is" : "the call that was changing it is",
                       " in the parent; expected: one made here"));
}

[[noreturn]] void busy(Kind kind) {
  throw Failure(TRUNKLINE_BUSY, concat("the ", name_of(kind), " is in use by another call"));
}

Slot* find_slot(const void* handle, Kind kind) {
  const auto bits = reinterpret_cast<std::uint64_t>(handle);
  if ((bits & kKindMask) != static_cast<std::uint64_t>(kind)) return nullptr;
  const std::size_t index = bits >> kIndexShift & kIndexMask;
  if (index >= kChunkSlots * kChunks) return nullptr;
  Slot* const chunk = table.chunks[index / kChunkSlots].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : &chunk[index % kChunkSlots];
}

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kText: return "text";
    case Kind::kProfile: return "profile";
    case Kind::kForest: return "forest";
    case Kind::kPlanner: return "planner";
    case Kind::kPlan: return "plan";
    case Kind::kLiveBatch: return "live batch";
    case Kind::kLivePlanner: return "live planner";
    case Kind::kAsyncPlanner: return "async planner";
    case Kind::kWorkers: return "workers";
    case Kind::kCpu: return "CPU executor";
    case Kind::kCuda: return "CUDA executor";
    case Kind::kCudaPlanner: return "CUDA planner";
    case Kind::kKvStore: return "KV store";
    case Kind::kSequenceTree: return "sequence tree";
    case Kind::kBeamSearch: return "beam search";
    case Kind::kSampler: return "sampler";
  }
  return "unknown";
}

Slot* take_slot(Kind kind, std::shared_ptr<Object> object) {
  const std::lock_guard lock(table.mutex);
  if (table.free == nullptr) add_chunk();
  Slot* const slot = std::exchange(table.free, table.free->next_free);
  slot->kind = kind;
  slot->object = std::move(object);
  return slot;
}

void give_slot(Slot* slot) noexcept {
  const std::shared_ptr<Object> last = std::move(slot->object);  // ends after the lock
  const std::lock_guard lock(table.mutex);
  push_free(*slot);
}

void* handle_of(const Slot& slot) {
  const std::uint64_t generation = generation_of(slot.state.load(std::memory_order_relaxed));
  return reinterpret_cast<void*>(generation << kGenerationShift | std::uint64_t{slot.index} << kIndexShift |
                                 static_cast<std::uint64_t>(slot.kind));
}

void* revive(Slot& slot) {
  const std::uint64_t generation = generation_of(slot.state.load(std::memory_order_relaxed)) + 1;
  slot.state.store(state_of(generation, 0), std::memory_order_release);
  return handle_of(slot);
}

Hold::Hold(const void* handle, Kind kind, bool exclusive)
    : slot_(find_slot(handle, kind)), process_(forks()), exclusive_(exclusive) {
  const std::uint64_t generation = reinterpret_cast<std::uint64_t>(handle) >> kGenerationShift;
  if (slot_ == nullptr || generation % 2 == 0) bad_handle(handle, kind);
  std::uint64_t state = slot_->state.load(std::memory_order_relaxed);
  do {
    if (generation_of(state) != generation) ended(*slot_, handle, kind);
    const std::uint64_t users = state & kUsersMask;
    if (users == kExclusive || (exclusive && users > 0) || users + 1 == kExclusive) busy(kind);
  } while (!slot_->state.compare_exchange_weak(state, exclusive ? state | kExclusive : state + 1,
                                               std::memory_order_acquire, std::memory_order_relaxed));
  if (slot_->kind == kind) return;
  slot_->state.fetch_sub(exclusive ? kExclusive : 1, std::memory_order_release);
  bad_handle(handle, kind);
}

Hold::~Hold() {
  // A child that was forked in this call, by an engine's thread group, has no users.
  if (slot_ == nullptr || process_ != forks()) return;
  slot_->state.fetch_sub(exclusive_ ? kExclusive : 1, std::memory_order_release);
}

void Hold::close() noexcept {
  slot_->state.store(state_of(generation_of(slot_->state.load(std::memory_order_relaxed)) + 1, 0),
                     std::memory_order_release);
  give_slot(std::exchange(slot_, nullptr));
}

Lease::~Lease() {
  const std::uint64_t generation = generation_of(slot_->state.load(std::memory_order_relaxed));
  if (generation % 2 == 1) slot_->state.store(state_of(generation + 1, 0), std::memory_order_release);
  give_slot(slot_);
}

Lease::Change::Change(Lease& lease) : slot_(*lease.slot_) {
  std::uint64_t state = slot_.state.load(std::memory_order_relaxed);
  alive_ = generation_of(state) % 2 == 1;
  if (!alive_) return;
  state = state_of(generation_of(state), 0);
  if (!slot_.state.compare_exchange_strong(state, state | kExclusive, std::memory_order_acquire,
                                           std::memory_order_relaxed)) {
    busy(slot_.kind);
  }
}

Lease::Change::~Change() {
  if (done_ || !alive_) return;
  slot_.state.store(state_of(generation_of(slot_.state.load(std::memory_order_relaxed)) + 1, 0),
                    std::memory_order_release);
}

void* Lease::Change::keep() noexcept {
  done_ = true;
  slot_.state.fetch_sub(kExclusive, std::memory_order_release);
  return handle_of(slot_);
}

void* Lease::Change::replace() noexcept {
  done_ = true;
  const std::uint64_t generation = generation_of(slot_.state.load(std::memory_order_relaxed));
  slot_.state.store(state_of(generation + (alive_ ? 2 : 1), 0), std::memory_order_release);
  return handle_of(slot_);
}

}  // namespace trunkline::capi
