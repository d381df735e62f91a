// Turns Error(kUnsupported) into an empty optional, for features that a machine may lack.
#pragma once

#include <optional>

#include "trunkline/error.hpp"

namespace trunkline {

/// Calls `make()`. \return its result, or nothing when it throws Error(kUnsupported)
template <class Make>
auto if_supported(const Make& make) -> std::optional<decltype(make())> {
  try {
    return make();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return std::nullopt;
  }
}

}  // namespace trunkline
