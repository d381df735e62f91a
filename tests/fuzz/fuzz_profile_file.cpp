// Any bytes as a machine profile: the loader refuses them with an Error that names the file, or gives a profile that
// can be planned with and that comes back from its own text.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "machine/profile_check.hpp"
#include "trunkline/error.hpp"
#include "trunkline/profile_file.hpp"

namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  trunkline::FigureSources sources;
  trunkline::MachineProfile profile;
  try {
    profile = trunkline::parse_profile(text, "fuzz", &sources);
  } catch (const trunkline::Error& error) {
    require(std::string_view(error.what()).starts_with("fuzz: "), "the message names the file");
    return 0;
  }
  require(text.find('\0') == std::string::npos, "nothing is read past a NUL byte");
  require(!trunkline::profile_fault(profile), "a profile that was accepted can be planned with");
  const std::string written = trunkline::profile_to_json(profile, sources);
  require(trunkline::profile_to_json(trunkline::parse_profile(written, "written"), sources) == written, "round trip");
  return 0;
}
