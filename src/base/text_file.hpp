// Reading a whole file.
#pragma once

#include <string>

namespace trunkline {

/// The bytes of a file. \throws Error(kIo) when it cannot be read.
std::string read_text_file(const std::string& path);

}  // namespace trunkline
