// Structs that begin with their size: those of callers that were compiled with another version of the header are read
// and written as far as both know them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "base/check.hpp"
#include "capi/status.hpp"
#include "trunkline/trunkline.h"

namespace trunkline::capi {

/// Bytes that a struct had in the first version of the interface. One that grows gets a specialisation here.
template <class Struct>
inline constexpr std::size_t kFirstSize = sizeof(Struct);

/// Beyond any struct of any version: a size that was never set.
inline constexpr std::size_t kMaxStructSize = 1U << 16;

template <class Struct>
std::size_t checked_size(const Struct* given, const char* name) {
  static_assert(std::is_trivially_copyable_v<Struct> && offsetof(Struct, struct_size) == 0);
  need(given, name);
  const std::size_t size = given->struct_size;
  if (size < kFirstSize<Struct> || size > kMaxStructSize) {
    fail(ErrorCode::kInvalidArgument, name, ".struct_size is ", size, "; set it to the struct's sizeof, here ",
         sizeof(Struct));
  }
  return size;
}

/// A copy of a caller's struct, with zeros for fields that it does not have.
template <class Struct>
Struct read_struct(const Struct* given, const char* name) {
  const std::size_t size = checked_size(given, name);
  Struct copy{};
  std::memcpy(&copy, given, std::min(size, sizeof(Struct)));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] == 0) continue;
    fail(ErrorCode::kUnsupported, name, " has byte ", i, " set, which this library does not know: it was built with ",
         sizeof(Struct), " bytes for it; use a library that is as new as the header");
  }
  return copy;
}

template <class Struct>
Struct read_options(const Struct* given, const char* name) {
  return given == nullptr ? Struct{} : read_struct(given, name);
}

/// Fills a caller's struct: zeros where it has more fields than are known here. Its size stays.
template <class Struct>
void write_struct(Struct* given, const char* name, Struct value) {
  const std::size_t size = checked_size(given, name);
  value.struct_size = size;
  std::memcpy(given, &value, std::min(size, sizeof(Struct)));
  if (size > sizeof(Struct))
    std::memset(reinterpret_cast<unsigned char*>(given) + sizeof(Struct), 0, size - sizeof(Struct));
}

/// Copies a text into an array of a struct, cut off where it is too long.
template <std::size_t N>
void copy_text(const std::string& text, char (&array)[N]) {
  const std::size_t length = std::min(text.size(), N - 1);
  std::memcpy(array, text.data(), length);
  array[length] = '\0';
}

inline void check_reserved(std::int32_t value, const char* name) {
  if (value != 0) fail(ErrorCode::kUnsupported, name, " is ", value, "; it must be 0");
}

}  // namespace trunkline::capi
