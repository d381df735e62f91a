// Page tables and batches of the C interface as those of the C++ one, checked as far as their arrays' sizes go.
#pragma once

#include "trunkline/batch.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/trunkline.h"

namespace trunkline::capi {

enum class Ids {
  kRead,       ///< ids are in host memory
  kNeverRead,  ///< ids may be NULL
  kOnDevice,   ///< all arrays are in device memory
};

PageTable page_table(const trunkline_page_table* pages, Ids ids);

/// A view of the caller's arrays, in host memory but for what `ids` says.
Batch batch_of(const trunkline_batch* batch, Ids ids = Ids::kRead);

/// A view of the caller's arrays in device memory.
CudaBatch cuda_batch_of(const trunkline_cuda_batch* batch);

}  // namespace trunkline::capi
