#include "capi/handles.hpp"

#include <array>
#include <mutex>
#include <new>
#include <vector>

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
  std::vector<Slot*> free;
  std::size_t used_chunks = 0;
};

// Never destroyed: handles may be used while a process ends.
Table& table() {
  static Table* const table = new Table;
  return *table;
}

void add_chunk(Table& table) {
  if (table.used_chunks == kChunks) throw std::bad_alloc();
  table.free.reserve(kChunkSlots * (table.used_chunks + 1));  // so that giving back takes no memory
  auto* const slots = new Slot[kChunkSlots];
  const std::size_t first = table.used_chunks * kChunkSlots;
  for (std::size_t i = kChunkSlots; i-- > 0;) {
    slots[i].index = static_cast<std::uint32_t>(first + i);
    table.free.push_back(&slots[i]);
  }
  table.chunks[table.used_chunks++].store(slots, std::memory_order_release);
}

[[noreturn]] void bad_handle(const void* handle, Kind kind) {
  if (handle == nullptr) throw Failure(TRUNKLINE_BAD_HANDLE, concat("the ", name_of(kind), " handle is NULL"));
  throw Failure(TRUNKLINE_BAD_HANDLE, concat("the ", name_of(kind), " handle ", handle,
                                             " is none: it was closed or replaced, or is of another kind"));
}

[[noreturn]] void busy(Kind kind) {
  throw Failure(TRUNKLINE_BUSY, concat("the ", name_of(kind), " is in use by another call"));
}

Slot* find_slot(const void* handle, Kind kind) {
  const auto bits = reinterpret_cast<std::uint64_t>(handle);
  if ((bits & kKindMask) != static_cast<std::uint64_t>(kind)) return nullptr;
  const std::size_t index = bits >> kIndexShift & kIndexMask;
  if (index >= kChunkSlots * kChunks) return nullptr;
  Slot* const chunk = table().chunks[index / kChunkSlots].load(std::memory_order_acquire);
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
  }
  return "unknown";
}

Slot* take_slot(Kind kind, std::shared_ptr<Object> object) {
  Table& slots = table();
  const std::lock_guard lock(slots.mutex);
  if (slots.free.empty()) add_chunk(slots);
  Slot* const slot = slots.free.back();
  slots.free.pop_back();
  slot->kind = kind;
  slot->object = std::move(object);
  return slot;
}

void give_slot(Slot* slot) noexcept {
  const std::shared_ptr<Object> last = std::move(slot->object);  // ends after the lock
  Table& slots = table();
  const std::lock_guard lock(slots.mutex);
  slots.free.push_back(slot);
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

Hold::Hold(const void* handle, Kind kind, bool exclusive) : slot_(find_slot(handle, kind)), exclusive_(exclusive) {
  const std::uint64_t generation = reinterpret_cast<std::uint64_t>(handle) >> kGenerationShift;
  if (slot_ == nullptr || generation % 2 == 0) bad_handle(handle, kind);
  std::uint64_t state = slot_->state.load(std::memory_order_relaxed);
  do {
    if (generation_of(state) != generation) bad_handle(handle, kind);
    const std::uint64_t users = state & kUsersMask;
    if (users == kExclusive || (exclusive && users > 0) || users + 1 == kExclusive) busy(kind);
  } while (!slot_->state.compare_exchange_weak(state, exclusive ? state | kExclusive : state + 1,
                                               std::memory_order_acquire, std::memory_order_relaxed));
  if (slot_->kind == kind) return;
  slot_->state.fetch_sub(exclusive ? kExclusive : 1, std::memory_order_release);
  bad_handle(handle, kind);
}

Hold::~Hold() {
  if (slot_ != nullptr) slot_->state.fetch_sub(exclusive_ ? kExclusive : 1, std::memory_order_release);
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
