// The profiles of data/machines, compiled in: the library needs no file at run time.
#pragma once

#include <span>
#include <string_view>

namespace trunkline {

struct KnownProfile {
  std::string_view name;  ///< "h200-sxm"
  std::string_view text;  ///< of the file
};
std::span<const KnownProfile> known_profiles();

}  // namespace trunkline
