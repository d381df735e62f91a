// Comparing runs of page ids, the only part of forest building whose cost grows with the length of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace trunkline {

/// The id that means "no page", where there is one.
template <class Id>
struct NullId {
  /// \param null_page negative for none; one that no Id can be is none as well
  explicit NullId(std::int64_t null_page)
      : id(static_cast<Id>(null_page)), exists(null_page >= 0 && std::int64_t{id} == null_page) {}
  Id id;
  bool exists;
};

/// Whether blocks of ids are equal and free of the null page.
template <std::int32_t kCount, class Id>
bool is_common_block(const Id* a, const Id* b, const NullId<Id>& null) {
  if (std::memcmp(a, b, kCount * sizeof(Id)) != 0) return false;
  if (!null.exists) return true;
  // Compares all ids: compilers vectorise a loop that has one exit.
  Id nulls = 0;
  for (std::int32_t i = 0; i < kCount; ++i) nulls |= static_cast<Id>(a[i] == null.id);
  return nulls == 0;
}

/// Whether the first `count` ids, at least one, are equal in both runs. Runs that differ mostly do in the last.
template <class Id>
bool are_equal(const Id* a, const Id* b, std::int32_t count) {
  const auto size = static_cast<std::size_t>(count);
  return a[size - 1] == b[size - 1] && std::memcmp(a, b, size * sizeof(Id)) == 0;
}

/// How many of the first `count` ids are equal in both runs and are not `null_page`.
template <class Id>
std::int32_t common_pages(const Id* a, const Id* b, std::int32_t count, std::int64_t null_page) {
  // The C library compares long blocks with the widest vectors of the machine, but does not say where they differ. So
  // the block that differs is searched by short ones, which compilers compare inline.
  constexpr auto kLong = static_cast<std::int32_t>(256 / sizeof(Id));
  constexpr auto kShort = static_cast<std::int32_t>(32 / sizeof(Id));
  const NullId<Id> null(null_page);
  std::int32_t i = 0;
  while (count - i >= kLong && is_common_block<kLong>(a + i, b + i, null)) i += kLong;
  while (count - i >= kShort && is_common_block<kShort>(a + i, b + i, null)) i += kShort;
  while (i < count && a[i] == b[i] && !(null.exists && a[i] == null.id)) ++i;
  return i;
}

}  // namespace trunkline
