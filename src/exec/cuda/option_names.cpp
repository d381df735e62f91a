#include <string_view>

#include "base/check.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline {
namespace {

constexpr CudaKernels kKernels[] = {CudaKernels::kAuto, CudaKernels::kPortable, CudaKernels::kHopper};
using experimental::ForwardMode;
constexpr ForwardMode kModes[] = {ForwardMode::kPersistent, ForwardMode::kStreams, ForwardMode::kSerial};

}  // namespace

const char* name_of(CudaKernels kernels) {
  switch (kernels) {
    case CudaKernels::kAuto: return "auto";
    case CudaKernels::kPortable: return "portable";
    case CudaKernels::kHopper: return "hopper";
  }
  return "unknown";
}

CudaKernels cuda_kernels_from_name(std::string_view name) {
  for (const CudaKernels kernels : kKernels) {
    if (name == name_of(kernels)) return kernels;
  }
  fail(ErrorCode::kInvalidArgument, "kernels are \"", name, "\"; known: auto, portable, hopper");
}

namespace experimental {

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

}  // namespace experimental

}  // namespace trunkline
