#include <string_view>

#include "base/check.hpp"
#include "trunkline/cuda.hpp"

namespace trunkline {
namespace {

constexpr ForwardMode kModes[] = {ForwardMode::kPersistent, ForwardMode::kStreams, ForwardMode::kSerial};

}  // namespace

const char* name_of(ForwardMode mode) {
  switch (mode) {
    case ForwardMode::kPersistent: return "persistent";
    case ForwardMode::kStreams: return "streams";
    case ForwardMode::kSerial: return "serial";
  }
  return "unknown";
}

ForwardMode forward_mode_from_name(std::string_view name) {
  for (const ForwardMode mode : kModes) {
    if (name == name_of(mode)) return mode;
  }
  fail(ErrorCode::kInvalidArgument, "forward mode is \"", name, "\"; known: persistent, streams, serial");
}

}  // namespace trunkline
