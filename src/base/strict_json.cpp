#include "base/strict_json.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "base/check.hpp"

namespace trunkline {
namespace {

using Json = nlohmann::json;

// The parser's message without its own name for the error, and without the line where there is but one.
std::string reason_of(const Json::exception& error, bool several_lines) {
  std::string_view text = error.what();
  const std::size_t place = text.find(several_lines ? "line " : "column ");
  if (place != std::string_view::npos) return "not JSON at " + std::string(text.substr(place));
  const std::size_t bracket = text.find("] ");
  return std::string(bracket == std::string_view::npos ? text : text.substr(bracket + 2));
}

// The parser takes a NUL byte for the end of the text, and would not read on.
void refuse_nul(std::string_view text, const std::string& where) {
  const std::size_t nul = text.find('\0');
  if (nul == std::string_view::npos) return;
  const std::string_view before = text.substr(0, nul);
  const std::size_t column = nul - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  std::string place = concat("column ", column);
  if (text.find('\n') != std::string_view::npos) {
    place = concat("line ", 1 + std::count(before.begin(), before.end(), '\n'), ", ", place);
  }
  fail(ErrorCode::kParse, where, ": not JSON at ", place, ": a NUL byte");
}

}  // namespace

Json parse_strict_json(std::string_view text, const std::string& where, int max_depth) {
  refuse_nul(text, where);
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > max_depth) fail(ErrorCode::kParse, where, ": nested more than ", max_depth, " deep");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      fail(ErrorCode::kParse, where, ": key ", shown(value), " appears twice");
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::exception& error) {
    fail(ErrorCode::kParse, where, ": ", reason_of(error, text.find('\n') != std::string_view::npos));
  }
}

std::string shown(const Json& value) {
  constexpr std::size_t kShown = 40;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

}  // namespace trunkline
