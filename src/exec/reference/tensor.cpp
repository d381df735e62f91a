#include "exec/reference/tensor.hpp"

#include <cmath>
#include <numbers>

#include "base/float8.hpp"
#include "base/half.hpp"

namespace trunkline::reference {

double read_element(const void* data, std::int64_t index, DType dtype) {
  switch (dtype) {
    case DType::kF16: return f16_to_f32(static_cast<const std::uint16_t*>(data)[index]);
    case DType::kBF16: return bf16_to_f32(static_cast<const std::uint16_t*>(data)[index]);
    case DType::kF8E4M3: return f8_to_f32(static_cast<const std::uint8_t*>(data)[index], kE4M3);
    case DType::kF8E5M2: return f8_to_f32(static_cast<const std::uint8_t*>(data)[index], kE5M2);
    case DType::kF32: break;
  }
  return static_cast<const float*>(data)[index];
}

double scale_of(const TensorScale& scale, std::int32_t head) {
  return static_cast<double>(scale.heads == nullptr ? scale.value : scale.heads[head * scale.head_stride]);
}

void read_cache_row(const CacheView& cache, const TensorScale& scale, const AttentionShape& shape, const Batch& batch,
                    std::int64_t ids_begin, std::int32_t position, std::int32_t head, std::span<double> to) {
  const auto entry = static_cast<std::size_t>(ids_begin + position / shape.page_size);
  const std::int64_t page = std::visit([entry](auto ids) { return std::int64_t{ids[entry]}; }, batch.pages.ids());
  const std::int64_t at =
      page * cache.page_stride + position % shape.page_size * cache.token_stride + head * cache.head_stride;
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] = read_element(cache.data, at + static_cast<std::int64_t>(i), shape.kv_dtype) * scale_of(scale, head);
  }
}

void read_query(const AttentionArgs& args, const AttentionShape& shape, std::int32_t token, std::int32_t head,
                std::span<double> to) {
  const std::int64_t at = token * args.q_token_stride + head * args.q_head_stride;
  const double scale = scale_of(args.q_scale, head / shape.group_size()) * static_cast<double>(*args.scale);
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] = read_element(args.q, at + static_cast<std::int64_t>(i), shape.q_dtype) * scale;
  }
}

double cap_logit(const AttentionArgs& args, double logit) {
  const auto cap = static_cast<double>(args.soft_cap);
  return cap > 0 ? cap * std::tanh(logit / cap) : logit;
}

void write_result(const AttentionArgs& args, std::int32_t token, std::int32_t head, std::span<const double> o,
                  double lse) {
  const std::int64_t at = token * args.out_token_stride + head * args.out_head_stride;
  for (std::size_t i = 0; i < o.size(); ++i) {
    const auto value = static_cast<float>(o[i]);
    const std::int64_t index = at + static_cast<std::int64_t>(i);
    switch (args.out_dtype) {
      case DType::kF32: static_cast<float*>(args.out)[index] = value; break;
      case DType::kF16: static_cast<std::uint16_t*>(args.out)[index] = f32_to_f16(value); break;
      case DType::kBF16: static_cast<std::uint16_t*>(args.out)[index] = f32_to_bf16(value); break;
      case DType::kF8E4M3:
      case DType::kF8E5M2: break;  // check_args() refuses 8 bits
    }
  }
  if (args.lse == nullptr) return;
  const double base = args.lse_base == LseBase::kTwo ? std::numbers::log2e_v<double> : 1.0;
  args.lse[token * args.lse_token_stride + head * args.lse_head_stride] = static_cast<float>(lse * base);
}

}  // namespace trunkline::reference
