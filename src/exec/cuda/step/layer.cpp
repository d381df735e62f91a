#include "exec/cuda/step/layer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "base/check.hpp"

namespace trunkline::cuda {
namespace {

void check_pointer(const void* data, const char* name) {
  if (reinterpret_cast<std::uintptr_t>(data) % kTensorAlignment == 0) return;
  fail(ErrorCode::kInvalidArgument, "args.", name, " is ", data, "; on cuda it must be aligned to ", kTensorAlignment,
       " bytes");
}

void check_stride(std::int64_t stride, const char* name) {
  if (stride % kStrideMultiple == 0) return;
  fail(ErrorCode::kInvalidArgument, "args.", name, " is ", stride, "; on cuda it must be a multiple of ",
       kStrideMultiple, " elements");
}

void check_cache(const CacheView& cache, const char* name, DType kv_dtype) {
  check_pointer(cache.data, name);
  const auto multiple = static_cast<std::int64_t>(kTensorAlignment / size_of(kv_dtype));
  for (const std::int64_t stride : {cache.page_stride, cache.token_stride, cache.head_stride}) {
    if (stride % multiple == 0) continue;
    fail(ErrorCode::kInvalidArgument, "args.", name, " has strides (", cache.page_stride, ", ", cache.token_stride,
         ", ", cache.head_stride, "); on cuda they must be multiples of ", multiple, " elements of ",
         name_of(kv_dtype));
  }
}

// Scales of KV heads are read by kernels of 8-bit K and V alone: others have no register for a scale of each task.
void check_head_scales(const AttentionArgs& args, DType kv_dtype) {
  if (size_of(kv_dtype) == 1) return;
  const struct {
    const char* name;
    const TensorScale& scale;
  } given[] = {{"q_scale", args.q_scale}, {"k_scale", args.k_scale}, {"v_scale", args.v_scale}};
  for (const auto& [name, scale] : given) {
    if (scale.heads == nullptr) continue;
    fail(ErrorCode::kUnsupported, "args.", name, ".heads are given with K and V of ", name_of(kv_dtype),
         "; supported on cuda: a value for all heads, or heads with K and V of 8 bits");
  }
}

HeadScale head_scale(const TensorScale& scale) {
  return {scale.heads, scale.head_stride};
}
float factor_of_all(const TensorScale& scale) {
  return scale.heads == nullptr ? scale.value : 1.0F;
}

// Returns the factor of the logits, which must not be 0: kernels mask tokens by logits of -inf and multiply by it. The
// smallest normal float instead of 0 rounds the weights of all visible tokens to 1, as 0 does: logits of fp16 and bf16
// in fp32 times it are below 1e-24 unless they are beyond 1e14.
float factor_of(float scale) {
  constexpr float kMin = std::numeric_limits<float>::min();
  const float factor = scale * std::numbers::log2e_v<float>;
  return std::abs(factor) < kMin ? kMin : factor;
}

// The logits' factor, and what a soft cap multiplies Q K by before it (LayerArgs). Without a cap, or with one that no
// logit comes near, the latter is 0.
struct Factors {
  float scale_log2;
  float cap_factor;
};
Factors factors_of(float scale, float soft_cap) {
  constexpr float kMax = 1e30F;  // a larger factor times a logit of 0, or cap times log2(e), may be NaN or infinite
  if (soft_cap <= 0 || soft_cap > kMax) return {factor_of(scale), 0.0F};
  const float cap_factor = std::min(kMax, std::abs(scale) / soft_cap);
  if (cap_factor < std::numeric_limits<float>::min()) return {factor_of(scale), 0.0F};
  return {std::copysign(factor_of(soft_cap), scale), cap_factor};
}

CacheStrides strides_of(const CacheView& cache) {
  return {cache.page_stride, cache.token_stride, cache.head_stride};
}

}  // namespace

LayerArgs layer_args(const AttentionArgs& args, const AttentionShape& shape) {
  if (args.out_dtype != DType::kF32 && args.out_dtype != shape.q_dtype) {
    fail(ErrorCode::kUnsupported, "args.out_dtype is ", name_of(args.out_dtype), "; supported on cuda with ",
         name_of(shape.q_dtype), " inputs: f32, ", name_of(shape.q_dtype));
  }
  check_pointer(args.q, "q");
  check_pointer(args.out, "out");
  check_cache(args.k, "k.data", shape.kv_dtype);
  check_cache(args.v, "v.data", shape.kv_dtype);
  check_head_scales(args, shape.kv_dtype);
  check_stride(args.q_token_stride, "q_token_stride");
  check_stride(args.q_head_stride, "q_head_stride");
  check_stride(args.out_token_stride, "out_token_stride");
  check_stride(args.out_head_stride, "out_head_stride");
  const float scale = *args.scale * factor_of_all(args.q_scale) * factor_of_all(args.k_scale);
  const Factors factors = factors_of(scale, args.soft_cap);
  return {.q = args.q,
          .k = args.k.data,
          .v = args.v.data,
          .out = args.out,
          .lse = args.lse,
          .q_token = args.q_token_stride,
          .q_head = args.q_head_stride,
          .k_strides = strides_of(args.k),
          .v_strides = strides_of(args.v),
          .out_token = args.out_token_stride,
          .out_head = args.out_head_stride,
          .lse_token = args.lse_token_stride,
          .lse_head = args.lse_head_stride,
          .sinks = args.sinks,
          .scale_log2 = factors.scale_log2,
          .cap_factor = factors.cap_factor,
          .v_factor = factor_of_all(args.v_scale),
          .lse_factor = args.lse_base == LseBase::kNatural ? std::numbers::ln2_v<float> : 1.0F,
          .out_f32 = args.out_dtype == DType::kF32 ? 1 : 0,
          .q_heads = shape.q_heads,
          .kv_heads = shape.kv_heads,
          .group_size = shape.group_size(),
          .kv_e5m2 = shape.kv_dtype == DType::kF8E5M2 ? 1 : 0,
          .q_scale = head_scale(args.q_scale),
          .k_scale = head_scale(args.k_scale),
          .v_scale = head_scale(args.v_scale)};
}

}  // namespace trunkline::cuda
