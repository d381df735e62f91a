// Memory to measure with, and a clock.
#pragma once

#include <sys/mman.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.hpp"

namespace trunkline {

using Clock = std::chrono::steady_clock;

inline double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// Anonymous memory, in huge pages where the system gives them, as serving engines and our caches have it: with 4 KB
// pages the reading is limited by address translation, not by memory.
class HugeBuffer {
 public:
  explicit HugeBuffer(std::size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) fail(ErrorCode::kWorkspace, "cannot allocate ", bytes, " bytes to measure memory with");
#if defined(MADV_HUGEPAGE)
    madvise(data_, bytes, MADV_HUGEPAGE);
#endif
  }
  ~HugeBuffer() {
    munmap(data_, bytes_);
  }
  HugeBuffer(const HugeBuffer&) = delete;
  HugeBuffer& operator=(const HugeBuffer&) = delete;
  std::span<std::uint64_t> words() const {
    return {static_cast<std::uint64_t*>(data_), bytes_ / sizeof(std::uint64_t)};
  }

 private:
  void* data_;
  std::size_t bytes_;
};

}  // namespace trunkline
