// Whether the CUDA kernels support a shape; in builds without CUDA: none, with the reason.
#pragma once

#include "trunkline/attention.hpp"

namespace trunkline::cuda {

/// Checks a shape whose numbers are sound, and that this process can use CUDA.
Support supports_shape(const AttentionShape& shape);

}  // namespace trunkline::cuda
