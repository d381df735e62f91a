#include <cstdint>
#include <numbers>

#include "base/check.hpp"
#include "exec/check_merge.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/kernels/any/merge.hpp"
#include "trunkline/cuda.hpp"

namespace trunkline {
namespace {

// Lanes read and write up to 16 bytes at a time.
constexpr std::int64_t kAlignment = 16;

void check_alignment(const void* data, DType dtype, std::int64_t row_stride, std::int64_t head_stride,
                     const char* name) {
  const std::int64_t elements = kAlignment / static_cast<std::int64_t>(size_of(dtype));
  if (reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0 && row_stride % elements == 0 &&
      head_stride % elements == 0) {
    return;
  }
  fail(ErrorCode::kInvalidArgument, "states.", name, " is at ", data, " with strides (", row_stride, ", ", head_stride,
       "); on cuda it must be aligned to ", kAlignment, " bytes, with strides that are multiples of ", elements,
       " elements");
}

}  // namespace

void cuda_merge_states(const MergeStates& given, std::int32_t device, void* stream) {
  const MergeStates states = check_merge_states(given);
  cuda::check_device(device);
  if (states.rows == 0) return;
  // The number of slots is on the device: the host can only check that the list of slots does not begin in an output.
  check_merge_overlaps(states, 1);
  check_alignment(states.states, states.states_dtype, states.state_stride, states.state_head_stride, "states");
  check_alignment(states.out, states.out_dtype, states.out_row_stride, states.out_head_stride, "out");
  const bool natural = states.lse_base == LseBase::kNatural;
  const cuda::MergeStatesArgs args{.states = states.states,
                                   .lse = states.state_lse,
                                   .state_stride = states.state_stride,
                                   .state_head_stride = states.state_head_stride,
                                   .lse_stride = states.state_lse_stride,
                                   .lse_head_stride = states.state_lse_head_stride,
                                   .begin = states.begin,
                                   .slots = states.slots,
                                   .out = states.out,
                                   .out_lse = states.lse,
                                   .out_row_stride = states.out_row_stride,
                                   .out_head_stride = states.out_head_stride,
                                   .out_lse_row_stride = states.lse_row_stride,
                                   .out_lse_head_stride = states.lse_head_stride,
                                   .to_base_two = natural ? std::numbers::log2e_v<float> : 1.0F,
                                   .from_base_two = natural ? std::numbers::ln2_v<float> : 1.0F,
                                   .rows = states.rows,
                                   .q_heads = states.q_heads,
                                   .states_dtype = states.states_dtype,
                                   .out_dtype = states.out_dtype};
  const cuda::DeviceScope scope(device);
  int sms = 0;
  cuda::check_cuda(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  cuda::check_cuda(cuda::launch_merge_states(args, states.head_dim, sms, static_cast<cudaStream_t>(stream)),
                   "launching the merge kernel");
}

}  // namespace trunkline
