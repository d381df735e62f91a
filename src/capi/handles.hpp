// Handles: numbers in the form of pointers. Each names a slot of a table that is never freed, the slot's generation,
// and a kind; so any value can be looked up, and one that was closed is found out. A slot's state also counts who uses
// it.
//
// A forked child has a copy of the table. What can be used there goes on under its handle. What cannot ends as the
// child begins: objects that own threads, or a GPU's context, and those that another thread was changing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/forks.hpp"
#include "capi/status.hpp"

namespace trunkline::capi {

enum class Kind : std::uint8_t {
  kText = 1,
  kProfile,
  kForest,
  kPlanner,
  kPlan,
  kLiveBatch,
  kLivePlanner,
  kAsyncPlanner,
  kWorkers,
  kCpu,
  kCuda,
  kCudaPlanner,
  kKvStore,
  kSequenceTree,
  kBeamSearch,
  kSampler,
};
/// "planner"
const char* name_of(Kind kind);

/// The base of all objects behind handles.
class Object {
 public:
  Object() = default;
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
};

/// One entry of the table. On a cache line of its own, as each use writes to it.
struct alignas(64) Slot {
  /// Generation << 32 | users. Odd generations are alive. Users: kExclusive, or how many share it.
  std::atomic<std::uint64_t> state{0};
  std::shared_ptr<Object> object;  // written only with the slot dead or exclusively held
  Slot* next_free = nullptr;
  std::atomic<std::uint32_t> lost{0};  // the generation that a fork has ended last
  std::uint32_t index = 0;
  Kind kind{};
};
inline constexpr std::uint64_t kUsersMask = 0xFFFFFFFF;
inline constexpr std::uint64_t kExclusive = kUsersMask;

/// A slot that holds `object`, dead as yet. \throws std::bad_alloc
Slot* take_slot(Kind kind, std::shared_ptr<Object> object);
/// Gives back a dead slot.
void give_slot(Slot* slot) noexcept;
/// The handle of a slot at its present generation.
void* handle_of(const Slot& slot);
/// Makes a dead slot alive. \return its handle
void* revive(Slot& slot);

/// Use of a slot, shared or exclusive, until the end of this object.
class Hold {
 public:
  /// \throws Failure BAD_HANDLE, or BUSY
  Hold(const void* handle, Kind kind, bool exclusive);
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  Slot& slot() const { return *slot_; }
  /// Ends the handle and the object, which must be held exclusively.
  void close() noexcept;

 private:
  Slot* slot_;
  std::uint32_t process_;  // the count of forks
  bool exclusive_;
};

/// A handle to an object of class T, which names its kind as T::kKind.
template <class T>
class Held {
 public:
  Held(const void* handle, bool exclusive)
      : hold_(handle, T::kKind, exclusive), object_(static_cast<T*>(hold_.slot().object.get())) {}
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  /// For objects that outlive the handle.
  std::shared_ptr<T> keep() const { return std::static_pointer_cast<T>(hold_.slot().object); }
  void close() noexcept { hold_.close(); }

 private:
  Hold hold_;
  T* object_;
};

template <class T>
Held<T> shared(const void* handle) {
  return Held<T>(handle, false);
}
template <class T>
Held<T> exclusive(const void* handle) {
  return Held<T>(handle, true);
}

/// A new object of a caller's own. \return its handle
template <class T>
void* publish(std::shared_ptr<T> object) {
  return revive(*take_slot(T::kKind, std::move(object)));
}

template <class T>
trunkline_status destroy(const void* handle) noexcept {
  if (handle == nullptr) return TRUNKLINE_OK;
  return guard([&] { exclusive<T>(handle).close(); });
}

/// A handle to something that its owner replaces from time to time, as a planner its plan. Old handles then end.
class Lease {
 public:
  Lease(Kind kind, std::shared_ptr<Object> object) : slot_(take_slot(kind, std::move(object))) {}
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  /// While the owner changes what the handle stands for. The old handle has ended afterwards, unless kept.
  class Change {
   public:
    /// \throws Failure BUSY while another thread uses the handle
    explicit Change(Lease& lease);
    ~Change();
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;
    /// The old handle goes on. Only where there was one.
    void* keep() noexcept;
    /// A new handle.
    void* replace() noexcept;
    bool had_handle() const { return alive_; }

   private:
    Slot& slot_;
    bool alive_;  // there is an old handle
    bool done_ = false;
  };

 private:
  Slot* slot_;
};

}  // namespace trunkline::capi
