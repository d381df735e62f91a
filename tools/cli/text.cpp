#include "cli/text.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>
#include <utility>

namespace trunkline::cli {
namespace {

template <class Value>
std::string formatted(const char* format, int digits, Value value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, digits, value);
  return text.data();
}

constexpr std::string_view kClearLine = "\r\033[K";

}  // namespace

std::string with_commas(std::int64_t value) {
  std::string text = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string human_bytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return fixed(bytes, unit == 0 ? 0 : 1) + " " + kUnits[unit];
}

std::string human_time(double us) {
  if (us < 1000) return fixed(us, us < 10 ? 2 : 1) + " us";
  return us < 1e6 ? fixed(us / 1e3, us < 1e4 ? 2 : 1) + " ms" : fixed(us / 1e6, 2) + " s";
}

std::string fixed(double value, int digits) {
  return formatted("%.*f", digits, value);
}

std::string scientific(double value) {
  return formatted("%.*e", 1, value);
}

std::string printable(std::string_view text, std::size_t width) {
  std::string shown(text.substr(0, width));
  std::replace_if(
      shown.begin(), shown.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  if (text.size() > width) std::fill_n(shown.end() - 3, 3, '.');
  return shown;
}

void Table::print(std::ostream& out) const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (i < left_ ? row[i] + padding : padding + row[i]);
    }
    out << line << '\n';
  }
}

bool stderr_is_terminal() {
  return isatty(STDERR_FILENO) == 1;
}

Progress::Progress(std::size_t total, std::ostream& out, bool shown, std::chrono::steady_clock::duration patience)
    : first_draw_(std::chrono::steady_clock::now() + patience), out_(out), total_(total), shown_(shown) {}

Progress::~Progress() {
  if (drawn_) out_ << kClearLine << std::flush;
}

void Progress::step(std::string_view label) {
  constexpr std::size_t kWidth = 30;
  constexpr std::size_t kLabelWidth = 60;
  const std::size_t done = std::min(done_++, total_);
  if (!shown_ || std::chrono::steady_clock::now() < first_draw_) return;
  drawn_ = true;
  const std::size_t filled = kWidth * done / std::max<std::size_t>(total_, 1);
  out_ << kClearLine << '[' << std::string(filled, '#') << std::string(kWidth - filled, ' ') << "] " << done << '/'
       << total_ << ' ' << printable(label, kLabelWidth) << std::flush;
}

}  // namespace trunkline::cli
