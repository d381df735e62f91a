// Memory of a fixed size, handed out piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"

namespace trunkline {

/// Room for so many, rounded up to a multiple of four: arrays of 4, 8 or 16 bytes each then take whole multiples of 16
/// bytes and need no padding, so that devices find them in an instruction or two.
TRUNKLINE_HOST_DEVICE constexpr std::int32_t whole_room(std::int32_t count) {
  return (count + 3) & ~3;
}

/// Hands out arrays one after another. Without memory it only counts.
class TeamMemory {
 public:
  /// \param base aligned to 16 bytes; null: arrays are of no use, and bytes() says what would be needed
  TRUNKLINE_HOST_DEVICE explicit TeamMemory(std::byte* base) : base_(base) {}

  template <class T>
  TRUNKLINE_HOST_DEVICE T* take(std::int64_t count) {
    static_assert(alignof(T) <= kAlignment);
    T* const array = reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(base_) + bytes_);
    const Bytes size = static_cast<Bytes>(count) * Bytes{sizeof(T)};
    bytes_ += (size + kAlignment - 1) / kAlignment * kAlignment;
    return array;
  }

  TRUNKLINE_HOST_DEVICE std::size_t bytes() const { return bytes_; }

 private:
#if defined(__CUDA_ARCH__)
  using Bytes = std::uint32_t;  // a block's own memory, or what finding a forest needs: in half the instructions
#else
  using Bytes = std::size_t;
#endif
  static constexpr Bytes kAlignment = 16;

  std::byte* base_;
  Bytes bytes_ = 0;
};

/// Stores a struct that is aligned to 16 bytes: on devices by words of as many, since stores of four each, with others
/// of a warp far away, take as long as there are stores.
template <class T>
TRUNKLINE_HOST_DEVICE void store_whole(T& to, const T& value) {
#if defined(__CUDA_ARCH__)
  static_assert(sizeof(T) % sizeof(uint4) == 0);
  union Words {
    T whole;
    uint4 at[sizeof(T) / sizeof(uint4)];
    __device__ Words() {}
  } words;
  words.whole = value;
  for (std::size_t i = 0; i < sizeof(T) / sizeof(uint4); ++i) reinterpret_cast<uint4*>(&to)[i] = words.at[i];
#else
  to = value;
#endif
}

/// A word, or a struct that is aligned to 16 bytes, asked for where this is called: devices else ask for parts of it
/// only where they are looked at, and wait there.
template <class T>
TRUNKLINE_HOST_DEVICE T load_whole(const T& from) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == sizeof(std::int32_t)) {
    std::int32_t value;
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(&from));
    return static_cast<T>(value);
  } else {
    static_assert(sizeof(T) % sizeof(uint4) == 0);
    union Words {
      T whole;
      uint4 at[sizeof(T) / sizeof(uint4)];
      __device__ Words() {}
    } words;
    for (std::size_t i = 0; i < sizeof(T) / sizeof(uint4); ++i) {
      uint4& part = words.at[i];
      asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(part.x), "=r"(part.y), "=r"(part.z), "=r"(part.w)
                   : "l"(reinterpret_cast<const uint4*>(&from) + i));
    }
    return words.whole;
  }
#else
  return from;
#endif
}

/// A copy into a block's own memory that goes on while its thread does other things, until finish_copies().
/// \tparam kPart bytes that are copied at once, 4, 8 or 16, to which both are aligned
template <std::size_t kPart, class T>
TRUNKLINE_HOST_DEVICE void copy_ahead(T& to, const T& from) {
#if defined(__CUDA_ARCH__)
  static_assert(sizeof(T) % kPart == 0);
  const auto place = static_cast<unsigned>(__cvta_generic_to_shared(&to));
  for (std::size_t i = 0; i < sizeof(T); i += kPart) {
    const auto* const part = reinterpret_cast<const char*>(&from) + i;
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place + static_cast<unsigned>(i)), "l"(part),
                 "n"(kPart)
                 : "memory");
  }
#else
  to = from;
#endif
}
/// Of the thread's own; others see them after a barrier.
TRUNKLINE_HOST_DEVICE inline void finish_copies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/// Columns of equal length side by side. All take two registers together, where pointers would take two each, and a
/// thread of a full block has 64.
template <class T>
struct TeamColumns {
  T* base = nullptr;
  std::int32_t length = 0;

  TRUNKLINE_HOST_DEVICE T& operator()(std::int32_t column, std::int32_t i) const { return base[column * length + i]; }
  /// Two neighbours as one column.
  template <class Wide>
  TRUNKLINE_HOST_DEVICE Wide& wide(std::int32_t column, std::int32_t i) const {
    static_assert(sizeof(Wide) == 2 * sizeof(T));
    return reinterpret_cast<Wide*>(&(*this)(column, 0))[i];
  }
};

}  // namespace trunkline
