// Comparing the page ids of two rows by a warp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"

namespace trunkline {

/// Which ids are "no page".
template <class Id>
struct TeamNullId {
  TRUNKLINE_HOST_DEVICE explicit TeamNullId(std::int64_t null_page)
      : id(static_cast<Id>(null_page)), exists(null_page >= 0 && std::int64_t{id} == null_page) {}
  TRUNKLINE_HOST_DEVICE bool is(Id other) const { return exists && other == id; }

  Id id;
  bool exists;
};

/// Ids that are read at once.
template <class Id>
struct alignas(16) TeamIds {
  static constexpr std::int32_t kCount = 16 / sizeof(Id);
  Id at[16 / sizeof(Id)];

  TRUNKLINE_HOST_DEVICE static bool may_read(const Id* ids) { return reinterpret_cast<std::uintptr_t>(ids) % 16 == 0; }
};

/// Of pages [begin, end), one by one.
template <class Lanes, class Id>
TRUNKLINE_HOST_DEVICE std::int32_t first_parting_one_by_one(const Lanes& lanes, const Id* a, const Id* b,
                                                            std::int32_t begin, std::int32_t end,
                                                            const TeamNullId<Id>& null) {
  constexpr std::size_t kLoads = 32 / sizeof(Id);
  const auto per_step = static_cast<std::int32_t>(kLoads) * lanes.count();
  for (std::int32_t step = begin; step < end; step += least(per_step, end - step)) {
    // Beyond the end the last page is read once more: a load that might be skipped would wait for the one before it.
    const auto page = [&](std::size_t k) {
      return step + least(static_cast<std::int32_t>(k) * lanes.count() + lanes.index(), end - 1 - step);
    };
    Id of_a[kLoads];
    Id of_b[kLoads];
    for (std::size_t k = 0; k < kLoads; ++k) {
      of_a[k] = a[page(k)];
      of_b[k] = b[page(k)];
    }
    std::int32_t first = end;
    for (std::size_t k = kLoads; k-- > 0;) {
      if (of_a[k] != of_b[k] || null.is(of_a[k])) first = page(k);
    }
    first = lanes.least(first);
    if (first < end) return first;
  }
  return end;
}

/// Of units [begin, end) of TeamIds::kCount pages each. \return a page; that after the last unit if none
template <class Lanes, class Id>
TRUNKLINE_HOST_DEVICE std::int32_t first_parting_at_once(const Lanes& lanes, const Id* a, const Id* b,
                                                         std::int32_t begin, std::int32_t end,
                                                         const TeamNullId<Id>& null) {
  using Ids = TeamIds<Id>;
  constexpr std::size_t kLoads = 4;
  const auto* const a_ids = reinterpret_cast<const Ids*>(a);
  const auto* const b_ids = reinterpret_cast<const Ids*>(b);
  const auto per_step = static_cast<std::int32_t>(kLoads) * lanes.count();
  const std::int32_t none = end * Ids::kCount;
  for (std::int32_t step = begin; step < end; step += least(per_step, end - step)) {
    const auto unit = [&](std::size_t k) {
      return step + least(static_cast<std::int32_t>(k) * lanes.count() + lanes.index(), end - 1 - step);
    };
    Ids of_a[kLoads];
    Ids of_b[kLoads];
    for (std::size_t k = 0; k < kLoads; ++k) {
      of_a[k] = a_ids[unit(k)];
      of_b[k] = b_ids[unit(k)];
    }
    // Mostly none does: an instruction for each id, and not four, shows it.
    Id differ = 0;
    bool have_null = false;
    for (std::size_t k = 0; k < kLoads; ++k) {
      for (std::int32_t i = 0; i < Ids::kCount; ++i) differ |= of_a[k].at[i] ^ of_b[k].at[i];
    }
    if (null.exists) {
      for (const Ids& ids : of_a) {
        for (const Id id : ids.at) have_null = have_null || id == null.id;
      }
    }
    if (!lanes.any(differ != 0 || have_null)) continue;
    std::int32_t first = none;
    for (std::size_t k = kLoads; k-- > 0;) {
      for (std::int32_t i = Ids::kCount; i-- > 0;) {
        if (of_a[k].at[i] != of_b[k].at[i] || null.is(of_a[k].at[i])) first = unit(k) * Ids::kCount + i;
      }
    }
    return lanes.least(first);
  }
  return none;
}

/// The first page in [begin, end) that differs in two rows or is null; `end` if none. All lanes call it alike and get
/// the result. Rows that are aligned, as those of most tables, have 2 x 4 reads of 16 bytes a lane on their way: a row
/// of 512 pages takes one latency of reading.
template <class Lanes, class Id>
TRUNKLINE_HOST_DEVICE std::int32_t first_parting(const Lanes& lanes, const Id* a, const Id* b, std::int32_t begin,
                                                 std::int32_t end, const TeamNullId<Id>& null) {
  constexpr std::int32_t kUnit = TeamIds<Id>::kCount;
  if (end - begin < 2 * kUnit || !TeamIds<Id>::may_read(a) || !TeamIds<Id>::may_read(b)) {
    return first_parting_one_by_one(lanes, a, b, begin, end, null);
  }
  const std::int32_t units_begin = ceil_div(begin, kUnit);
  const std::int32_t units_end = end / kUnit;
  // The edges first, whose reads are few.
  const std::int32_t before = units_begin * kUnit - begin;
  const std::int32_t edges = before + end - units_end * kUnit;
  std::int32_t edge = end;
  TRUNKLINE_ROLLED
  for (std::int32_t i = lanes.index(); i < edges; i += lanes.count()) {
    const std::int32_t page = i < before ? begin + i : units_end * kUnit + i - before;
    if (a[page] != b[page] || null.is(a[page])) edge = least(edge, page);
  }
  edge = lanes.least(edge);
  if (edge < units_begin * kUnit) return edge;
  const std::int32_t found = first_parting_at_once(lanes, a, b, units_begin, units_end, null);
  return found < units_end * kUnit ? found : edge;
}

}  // namespace trunkline
