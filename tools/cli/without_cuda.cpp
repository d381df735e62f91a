// The functions of cli/with_cuda.hpp in a build without CUDA.
#include "base/check.hpp"
#include "cli/with_cuda.hpp"
#include "trunkline/cuda.hpp"

namespace trunkline::cli {
namespace {

[[noreturn]] void refuse() {
  fail(ErrorCode::kUnsupported, cuda_status().reason);
}

}  // namespace

std::unique_ptr<RunBackend> make_cuda_backend(const Options&, const std::vector<DecodeBatch>&) {
  refuse();
}

Tuned tune_cuda(std::int32_t) {
  refuse();
}

CudaDetails cuda_details(std::int32_t) {
  refuse();
}

}  // namespace trunkline::cli
