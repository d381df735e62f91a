// Azure's traces of LLM inference: a header, then TIMESTAMP,ContextTokens,GeneratedTokens. No prompt is known to share
// anything.
#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <utility>

#include "replay/formats/formats.hpp"

namespace trunkline::replay {
namespace {

constexpr std::string_view kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::optional<int> digits(std::string_view text, std::size_t begin, std::size_t count) {
  if (begin + count > text.size()) return std::nullopt;
  int value = 0;
  const char* const end = text.data() + begin + count;
  const auto [stop, error] = std::from_chars(text.data() + begin, end, value);
  if (error != std::errc() || stop != end || value < 0) return std::nullopt;
  return value;
}

// The seconds since midnight of a text like "18:15:46.6805900", or nothing.
std::optional<double> seconds_of_day(std::string_view text) {
  const std::optional<int> hour = digits(text, 0, 2);
  const std::optional<int> minute = digits(text, 3, 2);
  const std::optional<int> second = digits(text, 6, 2);
  if (!hour || !minute || !second || text[2] != ':' || text[5] != ':') return std::nullopt;
  if (*hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  double fraction = 0;
  if (text.size() > 8) {
    const std::optional<int> places = digits(text, 9, text.size() - 9);
    if (text[8] != '.' || text.size() > 18 || !places) return std::nullopt;
    fraction = *places;
    for (std::size_t i = 9; i < text.size(); ++i) fraction /= 10;
  }
  return *hour * 3600 + *minute * 60 + *second + fraction;
}

// The seconds since 1970 of a text like "2023-11-16 18:15:46.6805900", with or without "+00:00"; or nothing.
std::optional<double> seconds_of(std::string_view text) {
  constexpr std::string_view kUtc = "+00:00";
  if (text.size() > kUtc.size() && text.substr(text.size() - kUtc.size()) == kUtc) text.remove_suffix(kUtc.size());
  const std::optional<int> year = digits(text, 0, 4);
  const std::optional<int> month = digits(text, 5, 2);
  const std::optional<int> day = digits(text, 8, 2);
  if (!year || !month || !day || text.size() < 19 || text[4] != '-' || text[7] != '-' || text[10] != ' ') {
    return std::nullopt;
  }
  const std::chrono::year_month_day date(std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  const std::optional<double> time = seconds_of_day(text.substr(11));
  if (!date.ok() || !time) return std::nullopt;
  return static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count()) * 86400 + *time;
}

std::array<std::string_view, 3> split(std::string_view line, const LinePlace& place) {
  std::array<std::string_view, 3> columns;
  std::string_view rest = line;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::size_t comma = rest.find(',');
    const bool last = i + 1 == columns.size();
    if (last != (comma == std::string_view::npos)) {
      fail_at(place, "the line is \"", line.substr(0, 60), "\"; three columns are needed, ", kHeader);
    }
    columns[i] = rest.substr(0, comma);
    rest.remove_prefix(last ? rest.size() : comma + 1);
  }
  return columns;
}

std::int32_t tokens_of(std::string_view text, std::int64_t least, const char* column, const LinePlace& place) {
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < least || value > kMaxTokens) {
    fail_at(place, "column ", column, " is \"", text.substr(0, 40), "\"; ",
            least == 0 ? kOutputMeaning : kInputMeaning);
  }
  return static_cast<std::int32_t>(value);
}

}  // namespace

Trace read_azure(std::string_view text, const std::string& name, std::size_t limit) {
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) text.remove_prefix(kByteOrderMark.size());
  Trace trace;
  trace.recorded = true;
  trace.caution = "the format has no prefix identity: nothing is shared";
  bool header = true;
  double first = 0;
  double before = 0;
  const auto read = [&](std::string_view line, const LinePlace& place) {
    TraceRequest request;
    if (header) {
      if (line != kHeader) fail_at(place, "the header is \"", line.substr(0, 60), "\"; ", kHeader, " is needed");
      header = false;
      return request;
    }
    const std::array<std::string_view, 3> columns = split(line, place);
    const std::optional<double> time = seconds_of(columns[0]);
    if (!time) {
      fail_at(place, "column TIMESTAMP is \"", columns[0].substr(0, 40),
              "\"; a time as 2023-11-16 18:15:46.6805900 is needed");
    }
    if (first == 0) first = *time;
    check_order(before, *time - first, place, "column TIMESTAMP, in seconds since the first,");
    before = *time - first;
    request.arrival_s = before;
    request.input_tokens = tokens_of(columns[1], 1, "ContextTokens", place);
    request.output_tokens = tokens_of(columns[2], 0, "GeneratedTokens", place);
    return request;
  };
  const std::size_t lines = limit == kAllLines ? limit : limit + 1;
  std::vector<TraceRequest> requests = parse_lines(text, name, lines, "request", read);
  for (std::size_t i = 1; i < requests.size(); ++i) add_single(trace, std::move(requests[i]));
  if (trace.requests.empty()) fail(ErrorCode::kParse, name, ": no request below the header");
  return trace;
}

}  // namespace trunkline::replay
