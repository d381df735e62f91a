#include "synthetic/arena.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/check.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace trunkline {

#if defined(__linux__)

Arena::Arena(std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail(ErrorCode::kInvalidArgument, "the system refuses ", bytes, " bytes of memory");
  madvise(memory, bytes_, MADV_HUGEPAGE);  // a hint: small pages serve too
  data_ = static_cast<std::byte*>(memory);
}

Arena::~Arena() {
  munmap(data_, bytes_);
}

#else

Arena::Arena(std::size_t bytes) : bytes_((bytes + 4095) / 4096 * 4096) {
  data_ = static_cast<std::byte*>(std::aligned_alloc(4096, std::max<std::size_t>(bytes_, 4096)));
  if (data_ == nullptr) fail(ErrorCode::kInvalidArgument, "the system refuses ", bytes, " bytes of memory");
}

Arena::~Arena() {
  std::free(data_);
}

#endif

}  // namespace trunkline
