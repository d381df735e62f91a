// The functions of trunkline/cuda.hpp in a build without CUDA: each reports that CUDA is not built in.
#include <cstddef>

#include "base/check.hpp"
#include "exec/cuda/support.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/cuda_planner.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline {
namespace {

constexpr const char* kReason =
    "CUDA is not built into this binary: nvcc was not found when it was built, or it was configured with "
    "-DTRUNKLINE_CUDA=OFF";

[[noreturn]] void refuse() {
  fail(ErrorCode::kUnsupported, kReason);
}

}  // namespace

namespace cuda {

Support supports_shape(const AttentionShape&) {
  return {false, concat("device cuda cannot be used: ", kReason, "; supported: cpu")};
}

}  // namespace cuda

CudaStatus cuda_status() {
  return {false, kReason, 0};
}
CudaDeviceInfo cuda_device_info(std::int32_t) {
  refuse();
}
MachineProfile cuda_profile(std::int32_t, const AttentionShape&, CudaKernels) {
  refuse();
}

CudaKernels cuda_kernels(std::int32_t, const AttentionShape&, CudaKernels) {
  refuse();
}

// No executor can be made, so its functions are never reached.
struct CudaExecutor::State {};
CudaExecutor::CudaExecutor(CudaOptions) {
  refuse();
}
CudaExecutor::~CudaExecutor() = default;
CudaExecutor::CudaExecutor(CudaExecutor&&) noexcept = default;
CudaExecutor& CudaExecutor::operator=(CudaExecutor&&) noexcept = default;
Support CudaExecutor::supports(const AttentionShape& shape) const {
  return cuda::supports_shape(shape);
}
std::size_t CudaExecutor::workspace_bytes(const Plan&) const {
  refuse();
}
std::size_t CudaExecutor::workspace_bytes(const CudaPlanner&) const {
  refuse();
}
void CudaExecutor::plan(CudaPlanner&, const CudaBatch&, void*, std::size_t, void*) {
  refuse();
}
void CudaExecutor::upload(const Plan&, const Batch&, void*, std::size_t, void*) {
  refuse();
}
void CudaExecutor::resolve(const CudaBatch&, void*, void*) {
  refuse();
}
void CudaExecutor::run(const AttentionArgs&, void*, void*) {
  refuse();
}
void experimental::record_tasks(CudaExecutor&, void*, CudaTaskTime*, std::size_t) {
  refuse();
}
bool CudaExecutor::runs_single_query(const void*) const {
  refuse();
}
void CudaExecutor::release(void*) {}

namespace cuda {
class DevicePlanner {};
}  // namespace cuda
CudaPlanner::CudaPlanner(const MachineProfile&, const AttentionShape&, const CudaPlannerOptions&) {
  refuse();
}
CudaPlanner::~CudaPlanner() = default;
CudaPlanner::CudaPlanner(CudaPlanner&&) noexcept = default;
CudaPlanner& CudaPlanner::operator=(CudaPlanner&&) noexcept = default;
std::size_t CudaPlanner::memory_bytes() const {
  refuse();
}
void CudaPlanner::bind(void*, std::size_t, void*) {
  refuse();
}
const AttentionShape& CudaPlanner::shape() const {
  refuse();
}
const CudaPlannerOptions& CudaPlanner::options() const {
  refuse();
}
CudaPlanReport CudaPlanner::report() const {
  refuse();
}

void cuda_merge_states(const MergeStates&, std::int32_t, void*) {
  refuse();
}

}  // namespace trunkline
