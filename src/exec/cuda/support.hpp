// Which shapes the CUDA kernels take; in builds without CUDA: none, and why.
#pragma once

#include "trunkline/attention.hpp"

namespace trunkline::cuda {

/// For a shape whose numbers are sound. Includes whether CUDA can be used by this process.
Support supports_shape(const AttentionShape& shape);

}  // namespace trunkline::cuda
