// Lists in memory that somebody else owns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"

namespace trunkline {

/// Divides memory: with a null base it only counts.
class MemoryDivider {
 public:
  TRUNKLINE_HOST_DEVICE explicit MemoryDivider(std::byte* base) : base_(base) {}
  template <class T>
  TRUNKLINE_HOST_DEVICE void take(T*& list, std::int64_t count) {
    list = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + 15) / 16 * 16;
  }
  TRUNKLINE_HOST_DEVICE std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

}  // namespace trunkline
