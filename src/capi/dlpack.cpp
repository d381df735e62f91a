// Tensors from DLPack. The structures below mirror the layout that the standard fixes
// (https://dmlc.github.io/dlpack/latest/c_api.html); they are read, never made.
#include <cstdint>

#include "base/check.hpp"
#include "capi/status.hpp"
#include "trunkline/trunkline.h"

using namespace trunkline;
using namespace trunkline::capi;

namespace {

struct DlDevice {
  std::int32_t type;
  std::int32_t index;
};

struct DlType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DlTensor {
  void* data;
  DlDevice device;
  std::int32_t ndim;
  DlType dtype;
  const std::int64_t* shape;
  const std::int64_t* strides;
  std::uint64_t byte_offset;
};
static_assert(sizeof(DlTensor) == 48);

/// The layout of DLPack 1. Another major version may have another one after `version`.
struct DlManagedVersioned {
  struct {
    std::uint32_t major;
    std::uint32_t minor;
  } version;
  void* context;
  void (*deleter)(DlManagedVersioned*);
  std::uint64_t flags;
  DlTensor tensor;
};
constexpr std::uint64_t kReadOnly = 1;

enum DlCode : std::uint8_t { kInt = 0, kFloat = 2, kBfloat = 4, kF8E4M3 = 10, kF8E5M2 = 12 };
enum DlDeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };

trunkline_dtype dtype_of(const DlType& type) {
  if (type.lanes == 1) {
    if (type.code == kFloat && type.bits == 32) return TRUNKLINE_F32;
    if (type.code == kFloat && type.bits == 16) return TRUNKLINE_F16;
    if (type.code == kBfloat && type.bits == 16) return TRUNKLINE_BF16;
    if (type.code == kF8E4M3 && type.bits == 8) return TRUNKLINE_F8E4M3;
    if (type.code == kF8E5M2 && type.bits == 8) return TRUNKLINE_F8E5M2;
    if (type.code == kInt && type.bits == 32) return TRUNKLINE_I32;
    if (type.code == kInt && type.bits == 64) return TRUNKLINE_I64;
  }
  fail(ErrorCode::kUnsupported, "the tensor's dtype has code ", int{type.code}, ", ", int{type.bits}, " bits and ",
       type.lanes, " lanes; supported: f32, f16, bf16, f8_e4m3, f8_e5m2, int32, int64");
}

trunkline_device device_of(const DlDevice& device) {
  switch (device.type) {
    case kCpu:
    case kCudaHost: return TRUNKLINE_CPU;
    case kCuda:
    case kCudaManaged: return TRUNKLINE_CUDA;
    default:
      fail(ErrorCode::kUnsupported, "the tensor's device has type ", device.type,
           "; supported: CPU (1), CUDA (2), pinned (3) and managed (13) memory");
  }
}

trunkline_tensor view_of(const DlTensor& from) {
  if (from.ndim < 0) fail(ErrorCode::kInvalidArgument, "the tensor has ", from.ndim, " dimensions");
  trunkline_tensor tensor{};
  tensor.data = from.data == nullptr ? nullptr : static_cast<char*>(from.data) + from.byte_offset;
  tensor.dtype = dtype_of(from.dtype);
  tensor.device = device_of(from.device);
  tensor.device_index = tensor.device == TRUNKLINE_CUDA ? from.device.index : 0;
  tensor.ndim = from.ndim;
  tensor.shape = from.shape;
  tensor.strides = from.strides;
  return tensor;
}

}  // namespace

trunkline_status trunkline_tensor_from_dlpack(const void* dl_tensor, trunkline_tensor* tensor) {
  return guard([&] {
    need(dl_tensor, "dl_tensor");
    need(tensor, "tensor");
    *tensor = view_of(*static_cast<const DlTensor*>(dl_tensor));
  });
}

trunkline_status trunkline_tensor_from_dlpack_versioned(const void* managed, trunkline_tensor* tensor,
                                                        int32_t* read_only) {
  return guard([&] {
    need(managed, "managed");
    need(tensor, "tensor");
    const auto& from = *static_cast<const DlManagedVersioned*>(managed);
    if (from.version.major != 1) {
      fail(ErrorCode::kUnsupported, "the tensor is of DLPack ", from.version.major, ".", from.version.minor,
           "; supported: 1");
    }
    *tensor = view_of(from.tensor);
    if (read_only != nullptr) *read_only = (from.flags & kReadOnly) != 0 ? 1 : 0;
  });
}
