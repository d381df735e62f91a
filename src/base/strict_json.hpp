// JSON of which nothing is silently dropped.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace trunkline {

/// \param where begins every message: a file's name, or name:line
/// \throws Error(kParse) on text that is not JSON (with column, and line where there are several), on a NUL byte, on a
/// key that appears twice in an object, and on nesting deeper than `max_depth`, which is an attack on the reader's
/// memory.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where, int max_depth);

/// A value as it stood in the file, short enough for a message.
std::string shown(const nlohmann::json& value);

}  // namespace trunkline
