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

/// Whether standard error is a terminal, where a progress bar makes sense.
bool stderr_is_terminal();

/// A progress bar that shows itself once the work has taken longer than `patience`, and clears itself in the end.
class Progress {
 public:
  /// \param shown false: never draws anything
  Progress(std::size_t total, std::ostream& out, bool shown,
           std::chrono::steady_clock::duration patience = std::chrono::seconds(1));
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Begins the next of the `total` steps.
  void step(std::string_view label);

 private:
  std::chrono::steady_clock::time_point first_draw_;
  std::ostream& out_;
  std::size_t total_;
  std::size_t done_ = 0;
  bool shown_;
  bool drawn_ = false;
};

}  // namespace trunkline::cli
