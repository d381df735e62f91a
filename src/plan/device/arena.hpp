// Arrays one after another in memory of a fixed size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"

namespace trunkline {

class Arena {
 public:
  /// \param base aligned to 16 bytes; null: the pointers are not usable, and bytes() returns the memory that is needed
  TRUNKLINE_HOST_DEVICE explicit Arena(std::byte* base) : base_(base) {}

  template <class T>
  TRUNKLINE_HOST_DEVICE T* take(std::int64_t count) {
    static_assert(alignof(T) <= kAlignment);
    T* const array = reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(base_) + bytes_);
    bytes_ += (static_cast<std::size_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return array;
  }
  template <class T>
  TRUNKLINE_HOST_DEVICE void take(T*& array, std::int64_t count) {
    array = take<T>(count);
  }
  TRUNKLINE_HOST_DEVICE std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kAlignment = 16;

  std::byte* base_;
  std::size_t bytes_ = 0;
};

}  // namespace trunkline
