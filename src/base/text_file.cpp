#include "base/text_file.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/check.hpp"

namespace trunkline {

std::string read_text_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail(ErrorCode::kIo, path, ": is a directory; a file is needed");
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::kIo, path, ": cannot be opened for reading");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) fail(ErrorCode::kIo, path, ": reading failed");
  return text;
}

}  // namespace trunkline
