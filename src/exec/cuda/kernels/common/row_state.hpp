// The state of a row's online softmax: plain data for host and device.
#pragma once

namespace trunkline::cuda {

/// The maximal logit in base 2, and the sum of 2^(logit - max).
struct RowState {
  float max;
  float sum;
};

}  // namespace trunkline::cuda
