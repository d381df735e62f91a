// Checks of one tensor's pointer and strides, with one form of message.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.hpp"

namespace trunkline {

/// \param owner of the member, as in "args" \throws Error naming it
inline void check_pointer(const char* owner, const char* name, const void* data, std::size_t alignment) {
  if (data == nullptr) fail(ErrorCode::kInvalidArgument, owner, ".", name, " is null");
  if (reinterpret_cast<std::uintptr_t>(data) % alignment == 0) return;
  fail(ErrorCode::kInvalidArgument, owner, ".", name, " is ", data, "; it must be aligned to ", alignment, " bytes");
}

inline void check_stride(const char* owner, const char* name, std::int64_t stride) {
  if (stride >= 1) return;
  fail(ErrorCode::kInvalidArgument, owner, ".", name, " is ", stride, "; it must be at least 1");
}

}  // namespace trunkline
