// A file that a command writes.
#pragma once

#include <fstream>
#include <string>
#include <utility>

#include "base/check.hpp"

namespace trunkline::cli {

/// Opened before the work begins, so that a path that cannot be written is no late surprise.
/// \throws Error(kIo) naming the option and the path, here and from each call.
class OutputFile {
 public:
  OutputFile(const char* option, std::string path)
      : option_(option), path_(std::move(path)), file_(path_, std::ios::binary) {
    check();
  }
  void write(const std::string& text) {
    file_ << text;
    check();
  }
  void finish() {
    file_ << std::flush;
    check();
  }

 private:
  void check() const {
    if (!file_) fail(ErrorCode::kIo, option_, " ", path_, ": cannot be written");
  }

  const char* option_;
  std::string path_;
  std::ofstream file_;
};

}  // namespace trunkline::cli
