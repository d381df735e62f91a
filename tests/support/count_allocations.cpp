#include "support/count_allocations.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> g_allocations{0};

void* counted(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes == 0 ? 1 : bytes) != 0) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace trunkline::testing {

long allocation_count() {
  return g_allocations.load(std::memory_order_relaxed);
}

}  // namespace trunkline::testing

// The array forms of the standard library call these. In a source of its own, because compilers that inline one half of
// a pair take the other for a mismatch.
void* operator new(std::size_t bytes) {
  return counted(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
