// Compares two rows of a page table: the number of leading tokens that they share.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/device_batch.hpp"
#include "plan/device/thread_group.hpp"

namespace trunkline {

template <class Id>
TRUNKLINE_HOST_DEVICE bool is_null_page(const DeviceBatch& batch, Id id) {
  return batch.null_page >= 0 && std::int64_t{id} == batch.null_page;
}

/// Returns the first page in [begin, end) that differs in two rows or is null; end if there is none. Rows whose ids are
/// aligned to 16 bytes are read in words of 16 bytes.
template <class Group, class Id>
TRUNKLINE_HOST_DEVICE std::int32_t first_mismatch(Group& group, const DeviceBatch& batch, const Id* a, const Id* b,
                                                  std::int32_t begin, std::int32_t end) {
  constexpr std::int32_t kUnit = 16 / sizeof(Id);
  struct alignas(16) Unit {
    Id ids[16 / sizeof(Id)];
  };
  const bool aligned = ((reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b)) & 15) == 0;
  const auto differs = [&batch](Id of_a, Id of_b) { return of_a != of_b || is_null_page(batch, of_a); };
  const std::int32_t found = find_first(group, begin / kUnit, ceil_div(end, kUnit), [&](std::int32_t unit) {
    const std::int32_t first = unit * kUnit;
    std::int32_t mismatch = kNotFound;
    if (aligned && first >= begin && first + kUnit <= end) {
      const Unit of_a = *reinterpret_cast<const Unit*>(a + first);
      const Unit of_b = *reinterpret_cast<const Unit*>(b + first);
      for (std::int32_t i = kUnit; i-- > 0;) {
        if (differs(of_a.ids[i], of_b.ids[i])) mismatch = first + i;
      }
      return mismatch;
    }
    for (std::int32_t page = min(first + kUnit, end); page-- > max(first, begin);) {
      if (differs(a[page], b[page])) mismatch = page;
    }
    return mismatch;
  });
  return min(found, end);
}

/// Returns the number of leading tokens that two rows share, at most `a_tokens` and `b_tokens`.
/// \param known tokens that they are known to share, whole pages
template <class Group, class Id>
TRUNKLINE_HOST_DEVICE std::int32_t shared_tokens(Group& group, const DeviceBatch& batch, const Id* a,
                                                 std::int32_t a_tokens, const Id* b, std::int32_t b_tokens,
                                                 std::int32_t known = 0) {
  const std::int32_t page_size = batch.table.page_size;
  const std::int32_t tokens = min(a_tokens, b_tokens);
  if (tokens <= known) return tokens;
  const std::int32_t pages = (tokens - 1) / page_size + 1;  // the sum might not fit
  const std::int32_t common = first_mismatch(group, batch, a, b, known / page_size, pages);
  return common == pages ? tokens : common * page_size;
}

}  // namespace trunkline
