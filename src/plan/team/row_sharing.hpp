// What each row of a batch shares with earlier rows, and what finding that needs (sharing_search.hpp).
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/team_memory.hpp"

namespace trunkline {

/// What each row shares with earlier ones. A row owns the tokens that it is the first to have.
class RowSharing {
 public:
  static constexpr std::int32_t kInside = -1;
  static constexpr std::int32_t kOpen = -2;
  static constexpr std::int32_t kApart = -3;  ///< once looked at: it goes on with a null page, that nobody shares
  static constexpr std::int32_t kUnfit = -4;  ///< once looked at: its length or its queries are wrong
  static constexpr std::int32_t kColumns = 6;

  RowSharing() = default;
  /// \param columns of which these are the first
  TRUNKLINE_HOST_DEVICE RowSharing(TeamColumns<std::int32_t> columns, std::int32_t row_count)
      : rows(row_count), columns_(columns) {}

  TRUNKLINE_HOST_DEVICE std::int32_t& kv_len(std::int32_t row) const { return columns_(0, row); }
  /// Leading tokens that some earlier row has too.
  TRUNKLINE_HOST_DEVICE std::int32_t& shared(std::int32_t row) const { return columns_(1, row); }
  /// The row that owns the last of these; -1 where there is none.
  TRUNKLINE_HOST_DEVICE std::int32_t& owner(std::int32_t row) const { return columns_(2, row); }
  /// Of a row with tokens of its own: how many owners are above it. kInside if it has none. While it is not known,
  /// kOpen; then owner and shared are those of the group that the row is in.
  TRUNKLINE_HOST_DEVICE std::int32_t& level(std::int32_t row) const { return columns_(3, row); }
  TRUNKLINE_HOST_DEVICE bool owns_tokens(std::int32_t row) const { return level(row) >= 0; }
  /// The page of token shared(row), of a row that has one.
  TRUNKLINE_HOST_DEVICE std::int64_t& next_id(std::int32_t row) const { return columns_.wide<std::int64_t>(4, row); }

  std::int32_t rows = 0;

 private:
  TeamColumns<std::int32_t> columns_;
};

/// What looking at a row has found (row_look.hpp).
struct alignas(16) SeenRow {
  std::int64_t next_id = 0;  ///< RowSharing's, as those below; kv_len is -1 where that does not fit
  std::int32_t kv_len = 0;
  std::int32_t shared = 0;
  std::int32_t owner = -1;
  std::int32_t level = 0;
  std::int32_t reshaped = 0;  ///< 1: the forest has another shape than the last one
};

/// A row to be compared with the head of its group.
struct SharingTask {
  std::int64_t begin = 0;       ///< its first entry
  std::int64_t head_begin = 0;  ///< the head's
  std::int32_t row = 0;
  std::int32_t head = 0;
  std::int32_t kv_len = 0;
  std::int32_t head_kv_len = 0;
  std::int32_t page = 0;  ///< the first that is not known to be common
  std::int32_t level = 0;
};

/// What finding it needs besides.
class SharingScratch {
 public:
  static constexpr std::int32_t kColumns = 5;

  SharingScratch() = default;
  /// \param its_tasks [rows]
  TRUNKLINE_HOST_DEVICE SharingScratch(TeamMemory& memory, SharingTask* its_tasks, TeamColumns<std::int32_t> columns,
                                       std::int32_t first_column, std::int32_t rows)
      : tasks(its_tasks), columns_(columns), first_column_(first_column) {
    // Half full at most, a quarter where there is room, so that probes are short.
    slot_count = power_of_two(most<std::uint32_t>(64, (rows <= kFewRows ? 4 : 2) * static_cast<std::uint32_t>(rows)));
    slots = memory.take<std::uint32_t>(slot_count);
  }

  /// The row's first entry.
  TRUNKLINE_HOST_DEVICE std::int64_t& begin(std::int32_t row) const {
    return columns_.wide<std::int64_t>(first_column_ + 3, row);
  }
  /// Where the row's group is in slots.
  TRUNKLINE_HOST_DEVICE std::int32_t& place(std::int32_t row) const { return columns_(first_column_, row); }
  /// Rows of this round and, by turns, of the next.
  TRUNKLINE_HOST_DEVICE std::int32_t& listed(std::int32_t turn, std::int32_t i) const {
    return columns_(first_column_ + 1 + turn % 2, i);
  }

  static constexpr std::uint32_t kEmptySlot = 0xFFFFFFFFu;

  SharingTask* tasks = nullptr;    ///< [rows]
  std::uint32_t* slots = nullptr;  ///< [slot_count] round and least row of a group
  std::uint32_t slot_count = 0;    ///< a power of two

 private:
  static constexpr std::int32_t kFewRows = 1024;

  /// The least that is no less than a number below 2^31, in as many steps for all.
  TRUNKLINE_HOST_DEVICE static std::uint32_t power_of_two(std::uint32_t number) {
    std::uint32_t below = number - 1;
    for (int bits = 1; bits < 32; bits *= 2) below |= below >> bits;
    return below + 1;
  }

  TeamColumns<std::int32_t> columns_;
  std::int32_t first_column_ = 0;
};

/// Whether owners were guessed to be those of the last step (row_look.hpp).
enum class OwnerGuess : std::uint8_t {
  kNone,
  kWrong,
  kRight,
  kSameShape,  ///< right, and all but the ends of rows is as it was
};

TRUNKLINE_HOST_DEVICE inline bool is_right(OwnerGuess guess) {
  return guess == OwnerGuess::kRight || guess == OwnerGuess::kSameShape;
}

}  // namespace trunkline
