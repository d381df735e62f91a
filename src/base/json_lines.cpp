#include "base/json_lines.hpp"

namespace trunkline {
namespace {

// The formats nest three deep.
constexpr int kMaxDepth = 16;

}  // namespace

nlohmann::json parse_object(std::string_view line, const LinePlace& place) {
  nlohmann::json object = parse_strict_json(line, concat(place.name, ":", place.line), kMaxDepth);
  if (!object.is_object()) fail_at(place, "the line is ", shown(object), "; an object is needed");
  return object;
}

const nlohmann::json& field_of(const nlohmann::json& object, const char* field, const LinePlace& place) {
  const auto found = object.find(field);
  if (found == object.end()) fail_at(place, "field \"", field, "\" is missing");
  return *found;
}

const nlohmann::json& array_field(const nlohmann::json& object, const char* field, const LinePlace& place) {
  const nlohmann::json& found = field_of(object, field, place);
  if (!found.is_array()) fail_at(place, "field \"", field, "\" is ", shown(found), "; an array is needed");
  if (found.empty()) fail_at(place, "field \"", field, "\" is empty");
  return found;
}

}  // namespace trunkline
