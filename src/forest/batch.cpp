#include "trunkline/batch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/check.hpp"
#include "base/inline.hpp"
#include "forest/batch_check.hpp"

namespace trunkline {
namespace {

template <class T>
void check_array(std::span<const T> array, const char* name, std::size_t size, const char* size_name) {
  if (array.size() != size) {
    fail(ErrorCode::kInvalidArgument, name, " has ", array.size(), " entries; it must have ", size_name, " = ", size);
  }
  if (array.data() == nullptr && size > 0) {
    fail(ErrorCode::kInvalidArgument, name, " is null but has ", size, " entries");
  }
}

/// Optional members may be empty.
void check_arrays(const Batch& batch) {
  if (batch.pages.page_size() < 1) {
    fail(ErrorCode::kInvalidArgument, "pages has page_size ", batch.pages.page_size(),
         "; make it by PageTable::dense, csr or token_level");
  }
  const auto rows = static_cast<std::size_t>(batch.pages.rows());
  check_array(batch.kv_lens, "kv_lens", rows, "pages.rows()");
  if (!batch.query_start.empty()) check_array(batch.query_start, "query_start", rows + 1, "rows + 1");
  if (!batch.slots.empty()) check_array(batch.slots, "slots", rows, "rows");
  if (!batch.generations.empty()) check_array(batch.generations, "generations", rows, "rows");
}

/// Pages that hold `length` tokens.
std::int64_t pages_of(std::int32_t length, std::int32_t page_size) {
  return (std::int64_t{length} + page_size - 1) / page_size;
}

/// Tokens that a row of the page table has room for.
std::int64_t room_of(const PageTable& pages, std::int32_t row) {
  // No row needs more pages than it may have tokens, and so cut off, their product fits 64 bits.
  constexpr std::int64_t kMaxPages = std::numeric_limits<std::int32_t>::max();
  return std::min(pages.row_capacity(row), kMaxPages) * pages.page_size();
}

[[noreturn]] void refuse_length(const Batch& batch, std::int32_t row) {
  const std::int32_t length = batch.kv_lens[static_cast<std::size_t>(row)];
  if (length < 0) fail(ErrorCode::kInvalidArgument, "kv_lens[", row, "] is ", length, "; lengths must be >= 0");
  fail(ErrorCode::kOutOfRange, "kv_lens[", row, "] is ", length, "; row ", row, " of the page table has room for ",
       batch.pages.row_capacity(row), " pages of ", batch.pages.page_size(), " tokens");
}

void check_lengths(const Batch& batch) {
  const bool equal_rows = batch.pages.indptr() == nullptr;
  std::int64_t room = batch.rows() > 0 ? room_of(batch.pages, 0) : 0;
  for (std::int32_t row = 0; row < batch.rows(); ++row) {
    if (!equal_rows) room = room_of(batch.pages, row);
    const std::int32_t length = batch.kv_lens[static_cast<std::size_t>(row)];
    if (length < 0 || length > room) refuse_length(batch, row);
  }
}

void check_queries(const Batch& batch) {
  // One query token a row always fits: it is the row's last token, or the row is empty.
  if (batch.query_start.empty()) return;
  if (batch.query_start[0] != 0) {
    fail(ErrorCode::kInvalidArgument, "query_start[0] is ", batch.query_start[0], "; it must be 0");
  }
  for (std::size_t row = 0; row < batch.kv_lens.size(); ++row) {
    const std::int32_t begin = batch.query_start[row];
    const std::int32_t end = batch.query_start[row + 1];
    if (end < begin) {
      fail(ErrorCode::kInvalidArgument, "query_start[", row + 1, "] is ", end, " after ", begin,
           "; it must not decrease");
    }
    const std::int32_t length = batch.kv_lens[row];
    if (length > 0 && end - begin > length) {
      fail(ErrorCode::kInvalidArgument, "query_start gives row ", row, " ", end - begin, " query tokens; kv_lens[", row,
           "] is ", length, ", which counts them too");
    }
  }
}

/// `i` is the token's index in its row, `parent` anything but the index of an earlier token, or -1 for the first.
[[noreturn]] void refuse_parent(std::int32_t index, std::int32_t row, std::int32_t i, std::int32_t parent) {
  const char* problem = "is below -1";
  if (i == 0 && parent > 0) {
    problem = "is no root";
  } else if (parent == -1) {
    problem = "is a root too many";
  } else if (parent == i) {
    problem = "is a cycle";
  } else if (parent > i) {
    problem = "is a forward parent";
  }
  fail(ErrorCode::kInvalidArgument, "query_parents[", index, "] is ", parent, ", which ", problem, " at query token ",
       i, " of row ", row, "; token 0 of a row must have -1, and each other an earlier token of its row");
}

void check_parents(const Batch& batch) {
  if (batch.query_parents.empty()) return;
  check_array(batch.query_parents, "query_parents", static_cast<std::size_t>(batch.total_queries()), "query tokens");
  std::int32_t index = 0;
  for (std::int32_t row = 0; row < batch.rows(); ++row) {
    for (std::int32_t i = 0; i < batch.query_count(row); ++i, ++index) {
      const std::int32_t parent = batch.query_parents[static_cast<std::size_t>(index)];
      const bool right = i == 0 ? parent == -1 : parent >= 0 && parent < i;
      if (!right) refuse_parent(index, row, i, parent);
    }
  }
}

/// Whether all are >= 0 and none comes twice, of slots that are not much larger than there are rows, as most are.
bool are_dense_and_differ(std::span<const std::int32_t> slots, std::vector<std::uint8_t>& seen) {
  seen.assign(8 * slots.size(), 0);
  std::uint8_t repeated = 0;
  for (const std::int32_t slot : slots) {
    if (static_cast<std::uint32_t>(slot) >= seen.size()) return false;
    repeated |= seen[static_cast<std::size_t>(slot)];
    seen[static_cast<std::size_t>(slot)] = 1;
  }
  return repeated == 0;
}

void check_slots(const Batch& batch, SlotScratch& scratch) {
  if (are_dense_and_differ(batch.slots, scratch.seen)) return;
  scratch.rows.reset(batch.slots.size());
  std::int32_t row = 0;
  for (const std::int32_t slot : batch.slots) {
    if (slot < 0) fail(ErrorCode::kInvalidArgument, "slots[", row, "] is ", slot, "; slots must be >= 0");
    const std::int32_t holder = scratch.rows.find_or_add(0, slot, row);
    if (holder != row) {
      fail(ErrorCode::kInvalidArgument, "slots[", row, "] is ", slot, ", which is also slots[", holder,
           "]; slots must differ");
    }
    ++row;
  }
}

template <class Id>
void check_row_ids(std::span<const Id> ids, std::int32_t row, std::int64_t num_pages) {
  // A loop without an exit, which compilers vectorise: 130 rows of 100K tokens are 13 million ids at page size 1. The
  // sign bit of `id` or of `last - id` is set just when the id is outside; unsigned, because the difference may wrap.
  using Bits = std::make_unsigned_t<Id>;
  constexpr std::int64_t kMaxId = std::numeric_limits<Id>::max();
  const auto last = static_cast<Bits>(std::clamp<std::int64_t>(num_pages - 1, -1, kMaxId));
  Bits signs = 0;
  for (const Id id : ids) signs |= static_cast<Bits>(id) | (last - static_cast<Bits>(id));
  if (static_cast<Id>(signs) >= 0) return;
  for (std::size_t page = 0; page < ids.size(); ++page) {
    if (ids[page] < 0 || ids[page] >= num_pages) {
      fail(ErrorCode::kOutOfRange, "page table row ", row, " entry ", page, " is ", ids[page], "; ids must be in [0, ",
           num_pages, ")");
    }
  }
}

// That a cache whose size is not known may have: batches of 32-bit ids have no more.
constexpr std::int64_t kPageIdLimit = std::numeric_limits<std::int32_t>::max();

template <class Id>
struct IdBits {
  Id signs = 0;     ///< negative where an id is
  Id largest = -1;  ///< where none is
};

// Without an exit, which compilers vectorise, as in check_row_ids.
template <class Id>
TRUNKLINE_INLINE IdBits<Id> fold_ids(std::span<const Id> ids) {
  IdBits<Id> bits;
  for (const Id id : ids) {
    bits.signs |= id;
    bits.largest = std::max(bits.largest, id);
  }
  return bits;
}

#if defined(__x86_64__)
// Before SSE4.1 there is no maximum of 32-bit integers, nor before AVX2 a comparison of 64-bit ones of use: 256,000 ids
// take 50 us so, and 85 without.
template <class Id>
[[gnu::target("avx2")]] IdBits<Id> fold_ids_avx2(std::span<const Id> ids) {
  return fold_ids(ids);
}
#endif

template <class Id>
IdBits<Id> bits_of(std::span<const Id> ids) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return fold_ids_avx2(ids);
#endif
  return fold_ids(ids);
}

/// Calls visit(ids, row) with the ids that each row uses.
template <class Visit>
void for_each_row(const Batch& batch, const Visit& visit) {
  std::visit(
      [&](auto ids) {
        for (std::int32_t row = 0; row < batch.rows(); ++row) {
          const std::int64_t pages = pages_of(batch.kv_lens[static_cast<std::size_t>(row)], batch.pages.page_size());
          const auto begin = static_cast<std::size_t>(batch.pages.row_begin(row));
          visit(ids.subspan(begin, static_cast<std::size_t>(pages)), row);
        }
      },
      batch.pages.ids());
}

void check_all_ids(const Batch& batch) {
  for_each_row(batch, [&batch](auto ids, std::int32_t row) { check_row_ids(ids, row, batch.num_pages); });
}

}  // namespace

std::int64_t pages_used(const Batch& batch) {
  check_batch_shape(batch);
  std::int64_t used = 0;
  for_each_row(batch, [&used](auto ids, std::int32_t row) {
    const auto bits = bits_of(ids);
    if (bits.signs < 0 || bits.largest >= kPageIdLimit) check_row_ids(ids, row, kPageIdLimit);
    used = std::max(used, std::int64_t{bits.largest} + 1);
  });
  return used;
}

void check_batch_shape(const Batch& batch) {
  check_arrays(batch);
  check_lengths(batch);
  check_queries(batch);
  check_parents(batch);
}

void check_null_page(const char* name, std::int64_t null_page, std::int64_t num_pages) {
  if (num_pages == 0 || null_page < num_pages) return;
  fail(ErrorCode::kOutOfRange, name, " is ", null_page, "; ids must be in [0, ", num_pages, ")");
}

void check_batch(const Batch& batch, IdCheck ids, SlotScratch& scratch) {
  check_batch_shape(batch);
  check_null_page("null_page", batch.null_page, batch.num_pages);
  check_slots(batch, scratch);
  if (ids == IdCheck::kAllPages) check_all_ids(batch);
}

void check_batch(const Batch& batch, IdCheck ids) {
  SlotScratch scratch;
  check_batch(batch, ids, scratch);
}

}  // namespace trunkline
