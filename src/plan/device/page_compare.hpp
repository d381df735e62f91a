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

/// 16 bytes of page ids, which a thread loads at once if they are aligned.
template <class Id>
struct alignas(16) PageWord {
  static constexpr std::int32_t kIds = 16 / sizeof(Id);
  Id ids[16 / sizeof(Id)];
};

/// Returns the first page in [begin, end) that differs in two rows or is null; end if there is none. Each thread loads
/// 64 bytes of both rows before it compares them, so that their latencies overlap.
template <class Group, class Id>
TRUNKLINE_HOST_DEVICE std::int32_t first_mismatch(Group& group, const DeviceBatch& batch, const Id* a, const Id* b,
                                                  std::int32_t begin, std::int32_t end) {
  using Word = PageWord<Id>;
  constexpr std::int32_t kWords = 4;
  constexpr std::int32_t kUnit = kWords * Word::kIds;
  const bool aligned = ((reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b)) & 15) == 0;
  const auto load = [=](const Id* row, std::int32_t first) {
    if (aligned && first >= begin && first <= end - Word::kIds) return *reinterpret_cast<const Word*>(row + first);
    Word word{};
    for (std::int32_t i = 0; i < Word::kIds; ++i) {
      if (first + i >= begin && first + i < end) word.ids[i] = row[first + i];
    }
    return word;
  };
  const std::int32_t found = find_first(group, begin / kUnit, ceil_div(end, kUnit), [&](std::int32_t unit) {
    const std::int32_t first = unit * kUnit;
    Word of_a[kWords];
    Word of_b[kWords];
    for (std::int32_t word = 0; word < kWords; ++word) {
      of_a[word] = load(a, first + word * Word::kIds);
      of_b[word] = load(b, first + word * Word::kIds);
    }
    std::int32_t mismatch = kNotFound;
    for (std::int32_t word = kWords; word-- > 0;) {
      for (std::int32_t i = Word::kIds; i-- > 0;) {
        const std::int32_t page = first + word * Word::kIds + i;
        if (page < begin || page >= end) continue;
        const Id id = of_a[word].ids[i];
        if (id != of_b[word].ids[i] || is_null_page(batch, id)) mismatch = page;
      }
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
