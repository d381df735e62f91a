// Files of one JSON object a line; faults are named by file, line, field, index and value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "base/strict_json.hpp"
#include "base/text_file.hpp"

namespace trunkline {

/// Where a line is, for messages: `name:line: ...`.
struct LinePlace {
  const std::string& name;
  std::size_t line;
};

template <class... Parts>
[[noreturn]] void fail_at(const LinePlace& place, const Parts&... parts) {
  fail(ErrorCode::kParse, place.name, ":", place.line, ": ", parts...);
}

/// The object on a line. \throws Error(kParse) where it is not JSON, not an object, has a key twice or nests deeply.
nlohmann::json parse_object(std::string_view line, const LinePlace& place);

/// A field that must be there.
const nlohmann::json& field_of(const nlohmann::json& object, const char* field, const LinePlace& place);

/// A field that must be an array of at least one value.
const nlohmann::json& array_field(const nlohmann::json& object, const char* field, const LinePlace& place);

/// An integer in [low, high]; `what` names it and `meaning` says what is accepted.
template <class What>
std::int32_t integer_in(const nlohmann::json& value, std::int64_t low, std::int64_t high, const LinePlace& place,
                        const What& what, const char* meaning) {
  const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX};
  if (!value.is_number_integer() || huge || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high) {
    fail_at(place, what(), " is ", shown(value), "; ", meaning);
  }
  return static_cast<std::int32_t>(value.get<std::int64_t>());
}

/// integer_in of a field.
inline std::int32_t integer_field(const nlohmann::json& object, const char* field, std::int64_t low, std::int64_t high,
                                  const LinePlace& place, const char* meaning) {
  return integer_in(
      field_of(object, field, place), low, high, place, [&] { return concat("field \"", field, '"'); }, meaning);
}

/// A number of seconds or the like, from 0 to 1e12; `what` names it and `meaning` says what is accepted.
template <class What>
double amount_in(const nlohmann::json& value, const LinePlace& place, const What& what, const char* meaning) {
  constexpr double kMax = 1e12;
  if (!value.is_number() || !(value.get<double>() >= 0) || value.get<double>() > kMax) {
    fail_at(place, what(), " is ", shown(value), "; ", meaning);
  }
  return value.get<double>();
}

/// Reads each line that is not empty, up to `limit` of them. \throws Error(kParse) when there is none.
/// \param kind what a line holds, for that message
template <class Read>
auto parse_lines(std::string_view text, const std::string& name, std::size_t limit, const char* kind, Read read) {
  std::vector<decltype(read(text, LinePlace{name, 1}))> result;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    std::string_view content = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!content.empty() && content.back() == '\r') content.remove_suffix(1);
    if (content.find_first_not_of(" \t") == std::string_view::npos) continue;
    if (result.size() == limit) break;
    result.push_back(read(content, LinePlace{name, line}));
  }
  if (result.empty()) fail(ErrorCode::kParse, name, ": no ", kind, " in it; one JSON object a line is needed");
  return result;
}

}  // namespace trunkline
