// What may not be possible here, without an error.
#pragma once

#include <optional>

#include "trunkline/error.hpp"

namespace trunkline {

/// What `make()` returns; none where it throws Error(kUnsupported).
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
