#include "capi/tensors.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>

#include "base/check.hpp"
#include "capi/convert.hpp"
#include "capi/structs.hpp"

namespace trunkline::capi {
namespace {

constexpr std::size_t kMaxDimensions = 4;
using Strides = std::array<std::int64_t, kMaxDimensions>;

template <class Values>
std::string listed(const Values& values, std::size_t count) {
  std::string text = "[";
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::to_string(*(values + i));
  return text + "]";
}

std::string place_name(Device device, std::int32_t index) {
  return device == Device::kCuda ? concat("cuda:", index) : "cpu";
}

/// A tensor, and how messages call it.
struct Named {
  const trunkline_tensor& tensor;
  const char* name;

  std::int64_t size(std::size_t dimension) const { return tensor.shape[dimension]; }
};

void check_device(const Named& named, Device device, std::int32_t index) {
  const Device kind = device_kind(named.tensor.device, named.name);
  if (kind == device && (kind == Device::kCpu || named.tensor.device_index == index)) return;
  fail(ErrorCode::kInvalidArgument, named.name, " is on ", place_name(kind, named.tensor.device_index),
       "; expected: ", place_name(device, index));
}

void check_dimensions(const Named& named, std::size_t dimensions, const char* form) {
  if (named.tensor.ndim != static_cast<std::int32_t>(dimensions)) {
    fail(ErrorCode::kInvalidArgument, named.name, " has ", named.tensor.ndim, " dimensions; expected: ", form);
  }
  if (named.tensor.shape == nullptr) fail(ErrorCode::kInvalidArgument, named.name, ".shape is NULL");
}

[[noreturn]] void refuse_shape(const Named& named, std::initializer_list<std::int64_t> expected, const char* form) {
  fail(ErrorCode::kInvalidArgument, named.name, " has shape ",
       listed(named.tensor.shape, static_cast<std::size_t>(named.tensor.ndim)), "; expected: ", form, " = ",
       listed(expected.begin(), expected.size()));
}

void check_shape(const Named& named, std::initializer_list<std::int64_t> expected, const char* form) {
  check_dimensions(named, expected.size(), form);
  const std::int64_t* at = named.tensor.shape;
  for (const std::int64_t size : expected) {
    if (*at++ != size) refuse_shape(named, expected, form);
  }
}

void check_dtype(const Named& named, DType dtype) {
  const trunkline_dtype given = named.tensor.dtype;
  if (given == number_of(dtype)) return;
  const bool is_float =
      (given >= TRUNKLINE_F32 && given <= TRUNKLINE_BF16) || given == TRUNKLINE_F8E4M3 || given == TRUNKLINE_F8E5M2;
  fail(ErrorCode::kInvalidArgument, named.name, " has dtype ",
       is_float ? name_of(float_type(given, named.name)) : std::to_string(given), "; expected: ", name_of(dtype));
}

/// In elements; row-major where none are given, and where none are used: libraries put anything into the strides of
/// empty tensors and of dimensions of one element.
Strides strides_of(const Named& named) {
  const std::int64_t* sizes = named.tensor.shape;
  const bool given =
      named.tensor.strides != nullptr && std::find(sizes, sizes + named.tensor.ndim, 0) == sizes + named.tensor.ndim;
  Strides strides{};
  std::int64_t compact = 1;
  for (auto i = static_cast<std::size_t>(named.tensor.ndim); i-- > 0;) {
    strides[i] = given && named.tensor.shape[i] > 1 ? named.tensor.strides[i] : compact;
    if (i > 0) compact *= named.tensor.shape[i];  // all but the first are checked
  }
  return strides;
}

[[noreturn]] void refuse_stride(const Named& named, std::size_t dimension, std::int64_t stride, const char* expected) {
  fail(ErrorCode::kInvalidArgument, named.name, ".strides[", dimension, "] is ", stride, "; expected: ", expected);
}

void check_unit_stride(const Named& named, const Strides& strides, std::size_t dimension) {
  if (strides[dimension] != 1) refuse_stride(named, dimension, strides[dimension], "1, without gaps in the head size");
}

/// The strides of the first two dimensions for those whose default is 0, which then stands where there is no step.
struct RowStrides {
  std::int64_t row = 0;
  std::int64_t head = 0;
};

std::int64_t step_of(const Named& named, const Strides& strides, std::size_t dimension, std::int64_t without_step) {
  if (named.size(dimension) <= 1) return without_step;
  if (strides[dimension] < 1) refuse_stride(named, dimension, strides[dimension], "at least 1");
  return strides[dimension];
}

/// Checks shape, device and strides of a [rows, heads, d] tensor. \return its strides
RowStrides checked_rows(const Named& named, std::initializer_list<std::int64_t> shape, const char* form, Device device,
                        std::int32_t device_index) {
  check_shape(named, shape, form);
  check_device(named, device, device_index);
  const Strides strides = strides_of(named);
  check_unit_stride(named, strides, 2);
  return {step_of(named, strides, 0, 0), step_of(named, strides, 1, 0)};
}

/// Checks shape, type, device and strides of a [rows, heads] tensor of log-sum-exps. \return its strides
RowStrides checked_lse(const Named& lse, std::int64_t rows, std::int64_t heads, const char* form, Device device,
                       std::int32_t device_index) {
  check_shape(lse, {rows, heads}, form);
  check_dtype(lse, DType::kF32);
  check_device(lse, device, device_index);
  const Strides strides = strides_of(lse);
  return {step_of(lse, strides, 0, 1), step_of(lse, strides, 1, 1)};
}

CacheView cache_view(const Named& cache, std::int32_t head_dim, std::int32_t layout, const LayerPlace& place) {
  const AttentionShape& shape = place.shape;
  const bool hnd = layout == TRUNKLINE_HND;
  const char* form = hnd ? "[pages, kv_heads, page_size, head_dim]" : "[pages, page_size, kv_heads, head_dim]";
  check_dimensions(cache, 4, form);
  const std::int64_t pages = cache.size(0);
  check_shape(cache, {pages, hnd ? shape.kv_heads : shape.page_size, hnd ? shape.page_size : shape.kv_heads, head_dim},
              form);
  if (pages < place.num_pages) {
    fail(ErrorCode::kOutOfRange, cache.name, " has ", pages, " pages; the batch's num_pages is ", place.num_pages);
  }
  check_dtype(cache, shape.kv_dtype);
  check_device(cache, shape.device, place.device_index);
  const Strides strides = strides_of(cache);
  check_unit_stride(cache, strides, 3);
  return {cache.tensor.data, strides[0], hnd ? strides[2] : strides[1], hnd ? strides[1] : strides[2]};
}

TensorScale scale_of(const trunkline_scale& from, const char* name, const char* reserved, const LayerPlace& place) {
  check_reserved(from.reserved, reserved);
  TensorScale scale;
  if (from.value != 0) scale.value = from.value;
  if (from.heads.data == nullptr) return scale;
  const Named heads{from.heads, name};
  const bool of_all =
      heads.tensor.ndim == 0 || (heads.tensor.ndim == 1 && heads.tensor.shape != nullptr && heads.size(0) == 1);
  if (!of_all) check_shape(heads, {place.shape.kv_heads}, "[kv_heads] or [1]");
  check_dtype(heads, DType::kF32);
  check_device(heads, place.shape.device, place.device_index);
  scale.heads = static_cast<const float*>(from.heads.data);
  scale.head_stride = of_all ? 0 : strides_of(heads)[0];
  return scale;
}

const float* sinks_of(const trunkline_tensor& tensor, const LayerPlace& place) {
  if (tensor.data == nullptr) return nullptr;
  const Named sinks{tensor, "layer.sinks"};
  check_shape(sinks, {place.shape.q_heads}, "[q_heads]");
  check_dtype(sinks, DType::kF32);
  check_device(sinks, place.shape.device, place.device_index);
  const Strides strides = strides_of(sinks);
  if (strides[0] != 1) refuse_stride(sinks, 0, strides[0], "1, without gaps");
  return static_cast<const float*>(tensor.data);
}

void read_variants(const trunkline_attention& layer, const LayerPlace& place, AttentionArgs& args) {
  args.q_scale = scale_of(layer.q_scale, "layer.q_scale.heads", "layer.q_scale.reserved", place);
  args.k_scale = scale_of(layer.k_scale, "layer.k_scale.heads", "layer.k_scale.reserved", place);
  args.v_scale = scale_of(layer.v_scale, "layer.v_scale.heads", "layer.v_scale.reserved", place);
  if (truth(layer.has_window_left, "layer.has_window_left") || layer.window_left != 0) {
    args.window_left = layer.window_left;
  }
  args.soft_cap = layer.soft_cap;
  check_reserved(layer.reserved, "layer.reserved");
  args.sinks = sinks_of(layer.sinks, place);
}

}  // namespace

AttentionArgs attention_args(const trunkline_attention* given, const LayerPlace& place) {
  const trunkline_attention layer = read_struct(given, "layer");
  const AttentionShape& shape = place.shape;
  check_choice(layer.kv_layout, TRUNKLINE_NHD, TRUNKLINE_HND, "layer.kv_layout");
  AttentionArgs args;

  constexpr const char* kRows = "[query tokens, q_heads, head_dim]";
  const Named q{layer.q, "layer.q"};
  const RowStrides of_q =
      checked_rows(q, {place.queries, shape.q_heads, shape.head_dim_qk}, kRows, shape.device, place.device_index);
  check_dtype(q, shape.q_dtype);
  args.q = layer.q.data;
  args.q_token_stride = of_q.row;
  args.q_head_stride = of_q.head;

  args.k = cache_view({layer.k, "layer.k"}, shape.head_dim_qk, layer.kv_layout, place);
  args.v = cache_view({layer.v, "layer.v"}, shape.head_dim_v, layer.kv_layout, place);

  const RowStrides of_out = checked_rows({layer.out, "layer.out"}, {place.queries, shape.q_heads, shape.head_dim_v},
                                         kRows, shape.device, place.device_index);
  args.out = layer.out.data;
  args.out_dtype = float_type(layer.out.dtype, "layer.out.dtype");
  args.out_token_stride = of_out.row;
  args.out_head_stride = of_out.head;

  if (layer.lse.data != nullptr) {
    const RowStrides of_lse = checked_lse({layer.lse, "layer.lse"}, place.queries, shape.q_heads,
                                          "[query tokens, q_heads]", shape.device, place.device_index);
    args.lse = static_cast<float*>(layer.lse.data);
    args.lse_token_stride = of_lse.row;
    args.lse_head_stride = of_lse.head;
  }
  args.lse_base = lse_base(layer.lse_base, "layer.lse_base");
  if (truth(layer.has_scale, "layer.has_scale") || layer.scale != 0) args.scale = layer.scale;
  args.max_queries = layer.max_queries;
  read_variants(layer, place, args);
  return args;
}

namespace {

/// One that fits 32 bits, and two of which can be multiplied.
std::int64_t checked_size(const Named& named, std::size_t dimension) {
  constexpr std::int64_t kMax = std::int64_t{1} << 30;
  const std::int64_t size = named.size(dimension);
  if (size >= 0 && size <= kMax) return size;
  fail(ErrorCode::kInvalidArgument, named.name, ".shape[", dimension, "] is ", size, "; it must be in [0, ", kMax, "]");
}

}  // namespace

MergeStates merge_args(const trunkline_merge* given, Device device, std::int32_t device_index) {
  const trunkline_merge merge = read_struct(given, "merge");
  check_reserved(merge.reserved, "merge.reserved");
  MergeStates args;

  const Named states{merge.states, "merge.states"};
  check_dimensions(states, 3, "[states, q_heads, head_dim]");
  const std::int64_t heads = checked_size(states, 1);
  const std::int64_t head_dim = checked_size(states, 2);
  const RowStrides of_states =
      checked_rows(states, {states.size(0), heads, head_dim}, "[states, q_heads, head_dim]", device, device_index);
  args.states = merge.states.data;
  args.states_dtype = float_type(merge.states.dtype, "merge.states.dtype");
  args.state_stride = of_states.row;
  args.state_head_stride = of_states.head;

  const RowStrides of_state_lse = checked_lse({merge.state_lse, "merge.state_lse"}, states.size(0), heads,
                                              "[states, q_heads]", device, device_index);
  args.state_lse = static_cast<const float*>(merge.state_lse.data);
  args.state_lse_stride = of_state_lse.row;
  args.state_lse_head_stride = of_state_lse.head;

  const Named out{merge.out, "merge.out"};
  check_dimensions(out, 3, "[rows, q_heads, head_dim]");
  const std::int64_t rows = checked_size(out, 0);
  const RowStrides of_out =
      checked_rows(out, {rows, heads, head_dim}, "[rows, q_heads, head_dim]", device, device_index);
  args.out = merge.out.data;
  args.out_dtype = float_type(merge.out.dtype, "merge.out.dtype");
  args.out_row_stride = of_out.row;
  args.out_head_stride = of_out.head;

  if (merge.lse.data != nullptr) {
    const RowStrides of_lse =
        checked_lse({merge.lse, "merge.lse"}, rows, heads, "[rows, q_heads]", device, device_index);
    args.lse = static_cast<float*>(merge.lse.data);
    args.lse_row_stride = of_lse.row;
    args.lse_head_stride = of_lse.head;
  }
  args.rows = static_cast<std::int32_t>(rows);
  args.count = checked_size(states, 0);
  args.q_heads = static_cast<std::int32_t>(heads);
  args.head_dim = static_cast<std::int32_t>(head_dim);
  if (rows > 0) need(merge.begin, "merge.begin");
  args.begin = merge.begin;
  args.slots = merge.slots;
  args.lse_base = lse_base(merge.lse_base, "merge.lse_base");
  return args;
}

}  // namespace trunkline::capi
