// Forks of this process. Of its threads, a child has only the one that called fork(): those of a pool are not there,
// and what another thread was changing stays half changed.
#pragma once

#include <cstdint>

namespace trunkline {

/// Grows by one in each child. What has threads compares it with what it was when they were started.
std::uint32_t forks() noexcept;

}  // namespace trunkline
