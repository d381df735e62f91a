// Reading a whole file.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

namespace trunkline {

/// As a limit of what is read from a file: none.
inline constexpr std::size_t kAllLines = std::numeric_limits<std::size_t>::max();

/// The bytes of a file. \throws Error(kIo) when it cannot be read.
std::string read_text_file(const std::string& path);

}  // namespace trunkline
