// The rescaling threshold of the online softmax, in both kernels.
#pragma once

namespace trunkline::cpu {

/// Growth of a row's maximum, in powers of two, that is left in the weights instead of rescaling O: weights stay below
/// 2^8, far from overflow, and most blocks after the first need no rescale.
inline constexpr float kRescaleThreshold = 8.0F;

}  // namespace trunkline::cpu
