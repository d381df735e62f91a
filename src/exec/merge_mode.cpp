#include <string_view>

#include "base/check.hpp"
#include "trunkline/attention.hpp"

namespace trunkline {

const char* name_of(MergeMode mode) {
  return mode == MergeMode::kFused ? "fused" : "separate";
}

MergeMode merge_mode_from_name(std::string_view name) {
  for (const MergeMode mode : {MergeMode::kFused, MergeMode::kSeparate}) {
    if (name == name_of(mode)) return mode;
  }
  fail(ErrorCode::kInvalidArgument, "merge mode is \"", name, "\"; known: fused, separate");
}

}  // namespace trunkline
