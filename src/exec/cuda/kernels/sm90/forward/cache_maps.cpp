#include "exec/cuda/kernels/sm90/forward/cache_maps.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <numeric>

#include "exec/cuda/kernels/sm90/forward/config.hpp"

namespace trunkline::cuda::sm90 {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// Looks the function up by the runtime, which loads the driver: nothing links against the driver.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function) : nullptr;
}

// Encodes a map whose outermost dimension counts octets of the whole cache: pages are a fixed number of octets apart.
// To copy runs, it counts tokens at which an octet may begin: octets overlap then, and pages lie one behind another.
// Elements of 8 bits are copied as bytes, a row as one panel without a swizzle, for the wideners.
bool encode(Encode function, const void* base, const CacheStrides& strides, std::int32_t kv_heads, DType kv_dtype,
            std::int32_t head_dim, std::int32_t page_size, CacheMap& map) {
  constexpr cuuint64_t kOctets = cuuint64_t{1}
                                 << 31;  // the bound of 32-bit coordinates: page ids are the caller's contract
  const bool runs = copies_runs(page_size);
  const std::int64_t octet = runs ? strides.token : kOctetRows * strides.token;
  if (octet <= 0 || (runs ? strides.page != page_size * octet : strides.page % octet != 0)) return false;
  map.page_octets = strides.page / octet;
  const bool narrow = size_of(kv_dtype) == 1;
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<cuuint64_t>(elements) * static_cast<cuuint64_t>(size_of(kv_dtype));
  };
  const auto panel = static_cast<std::uint32_t>(narrow ? head_dim : kPanelElements);
  const auto panels = static_cast<std::uint32_t>(head_dim) / panel;
  const auto heads = static_cast<cuuint64_t>(kv_heads);
  const cuuint64_t sizes[] = {panel, kOctetRows, panels, heads, kOctets};
  const cuuint64_t steps[] = {bytes(strides.token), bytes(panel), bytes(kv_heads > 1 ? strides.head : head_dim),
                              bytes(octet)};
  const cuuint32_t tma_tile[] = {panel, kOctetRows, panels, 1, static_cast<cuuint32_t>(octets_of_tma_tile(page_size))};
  const CUtensorMapDataType type = narrow                    ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                   : kv_dtype == DType::kF16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                             : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const auto make = [&](CUtensorMap& to, const cuuint64_t* of, const cuuint64_t* by, const cuuint32_t* box) {
    const cuuint32_t every[] = {1, 1, 1, 1, 1};
    return function(&to, type, 5, const_cast<void*>(base), of, by, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
                    narrow ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
  };
  if (!make(map.tensor, sizes, steps, tma_tile)) return false;
  if (!runs || (kv_heads > 1 && strides.head != head_dim)) return true;
  const cuuint64_t slice_sizes[] = {panel, kOctetRows, panels * heads, kSliceOctets, kOctets};
  const cuuint64_t slice_steps[] = {bytes(strides.token), bytes(panel), bytes(kOctetRows * strides.token),
                                    bytes(strides.token)};
  const cuuint32_t slice_tile[] = {panel, kOctetRows, panels, kSliceOctets, 1};
  map.pairs = make(map.slice, slice_sizes, slice_steps, slice_tile) ? 1 : 0;
  return true;
}

RowSteps steps_of(std::int64_t page, std::int64_t token, std::int64_t head, std::size_t element_bytes) {
  const std::int64_t common = std::gcd(std::gcd(page, token), head);
  const std::int64_t divisor = common > 0 ? common : 1;  // one row: all strides may be 0
  const auto in_units = [&](std::int64_t stride) { return static_cast<std::uint32_t>(stride / divisor); };
  return {in_units(page), in_units(token), in_units(head),
          static_cast<std::uint32_t>(divisor * static_cast<std::int64_t>(element_bytes))};
}

RowSteps steps_of(const CacheStrides& strides, std::int32_t heads, DType dtype) {
  return steps_of(strides.page, strides.token, heads > 1 ? strides.head : 0, size_of(dtype));
}

}  // namespace

CacheMaps make_cache_maps(const ForwardArgs& args, const KernelShape& shape) {
  static const Encode function = find_encode();
  CacheMaps maps{};
  const std::int32_t page_size = args.pages.page_size;
  const LayerArgs& layer = args.layer;
  maps.k_steps = steps_of(layer.k_strides, layer.kv_heads, shape.kv_dtype);
  maps.v_steps = steps_of(layer.v_strides, layer.kv_heads, shape.kv_dtype);
  maps.q_steps = steps_of(0, layer.q_token, layer.q_head, 2);
  if (function == nullptr) return maps;
  const bool both =
      encode(function, layer.k, layer.k_strides, layer.kv_heads, shape.kv_dtype, shape.head_dim, page_size, maps.k) &&
      encode(function, layer.v, layer.v_strides, layer.kv_heads, shape.kv_dtype, shape.head_dim, page_size, maps.v);
  maps.octets = both ? octets_of_tma_tile(page_size) : 0;
  return maps;
}

}  // namespace trunkline::cuda::sm90
