// Text for people: numbers with units, aligned tables, a progress bar.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace trunkline::cli {

/// 1234567 -> "1,234,567".
std::string with_commas(std::int64_t value);
/// 1536 -> "1.5 KiB".
std::string human_bytes(double bytes);
/// 1536 -> "1.54 ms".
std::string human_time(double us);
/// Fixed-point with so many digits.
std::string fixed(double value, int digits);
/// Small values such as errors: "3.1e-06".
std::string scientific(double value);
/// At most `width` characters, control characters replaced: text from a file may go to a terminal.
std::string printable(std::string_view text, std::size_t width);

/// Columns as wide as their widest cell; the first `left` to the left, the others to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header, std::size_t left = 1) : rows_{std::move(header)}, left_(left) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void print(std::ostream& out) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::size_t left_;
};

/// A progress bar on standard error: only where that is a terminal, and only once the work has taken a second.
class Progress {
 public:
  explicit Progress(std::size_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(std::string_view label);

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::size_t total_;
  std::size_t done_ = 0;
  bool terminal_;
  bool shown_ = false;
};

}  // namespace trunkline::cli
