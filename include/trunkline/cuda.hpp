// Running plans on NVIDIA GPUs of compute capability 8.0 or newer. No CUDA header is needed: streams are `void*`
// (cudaStream_t, null for the legacy default stream), device memory is plain pointers. In a build without CUDA,
// cuda_status() says so and all other functions here throw Error(kUnsupported).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "trunkline/attention.hpp"
#include "trunkline/batch.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// Whether this process can use CUDA.
struct CudaStatus {
  bool usable = false;
  std::string reason;  ///< when not usable: what is missing, and what would help
  std::int32_t devices = 0;
};
/// Never throws. The first call loads the driver.
CudaStatus cuda_status();

/// Facts of a device.
struct CudaDeviceInfo {
  std::string name;
  std::int32_t major = 0;  ///< compute capability
  std::int32_t minor = 0;
  std::int32_t sms = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;
  std::int32_t driver_version = 0;  ///< CUDA version that the driver supports, 1000 * major + 10 * minor
  GpuLimits limits;
};
/// \throws Error(kUnsupported) with cuda_status().reason, Error(kOutOfRange) when there is no such device.
CudaDeviceInfo cuda_device_info(std::int32_t device);

/// The families of forward kernels. Each gives right results for every plan whose tiles it has; the results of two
/// families differ in their last bits.
enum class CudaKernels : std::uint8_t {
  kAuto,      ///< kHopper where it runs the shape; else kPortable
  kPortable,  ///< mma.sync: compute capability 8.0 and newer, head sizes 64, 128 and 256, tiles of 16, 32 and 64 rows
  kHopper,    ///< wgmma: compute capability 9.0, head sizes 64, 128 and 256, tiles of 64 and (not at 256) 128 rows
};
const char* name_of(CudaKernels kernels);
/// \throws Error(kInvalidArgument) with the known names.
CudaKernels cuda_kernels_from_name(std::string_view name);
/// The family that runs a shape on a device, never kAuto. \throws Error(kUnsupported) when `wanted` does not run it;
/// Error as cuda_device_info.
CudaKernels cuda_kernels(std::int32_t device, const AttentionShape& shape, CudaKernels wanted = CudaKernels::kAuto);

/// A profile for planning, with the tiles of this build's kernels for the shape. Its figures are measured for known
/// devices, and scaled from those of a similar device otherwise. \throws Error as cuda_kernels.
MachineProfile cuda_profile(std::int32_t device, const AttentionShape& shape, CudaKernels wanted = CudaKernels::kAuto);

class CudaExecutor;
namespace experimental {
struct CudaStudy;
struct CudaTaskTime;
void record_tasks(CudaExecutor& executor, void* workspace, CudaTaskTime* times, std::size_t count);
}  // namespace experimental

struct CudaOptions {
  std::int32_t device = 0;
  /// Each resolve() checks, in a kernel that it waits for, that all page ids within the batch's lengths are in [0,
  /// CudaBatch::num_pages). TRUNKLINE_CHECK=1 in the environment turns the check on for all executors.
  bool check_pages = false;
  CudaKernels kernels = CudaKernels::kAuto;
  std::shared_ptr<const experimental::CudaStudy> study = nullptr;  ///< null: the defaults
};

/// The page tables and lengths of a step in device memory.
struct CudaBatch {
  /// A table of device pointers, by PageTable::dense, csr_on_device or token_level_on_device. The host never reads it.
  PageTable pages;
  const std::int32_t* kv_lens = nullptr;  ///< [B] tokens of each request in the cache, on the device
  std::int64_t num_pages = 0;  ///< pages of the cache, or 0; for CudaOptions::check_pages and a planner's null_page
  /// [B + 1] on the device, prefix sums of query tokens; null: one query token for each row. Only CudaExecutor::plan
  /// reads it.
  const std::int32_t* query_start = nullptr;
  /// [T] on the device, draft trees as in Batch::query_parents; null: chains. Only CudaExecutor::plan reads it.
  const std::int32_t* query_parents = nullptr;
  /// With query_start: the maximum number of query tokens that it may count, which is T of the tensors of the runs. 0:
  /// the planner's capacity.
  std::int32_t queries = 0;
};

class CudaPlanner;

/// Runs plans on one device. Calls on one executor must not overlap in time on the host. The work that they enqueue may
/// overlap in several streams, each with a workspace of its own.
class CudaExecutor {
 public:
  /// \throws Error(kUnsupported) when CUDA, the device or an option cannot be used.
  explicit CudaExecutor(CudaOptions options = {});
  ~CudaExecutor();
  CudaExecutor(CudaExecutor&&) noexcept;
  CudaExecutor& operator=(CudaExecutor&&) noexcept;

  /// Whether this executor runs plans of a shape.
  Support supports(const AttentionShape& shape) const;

  /// Bytes of device memory, aligned to 256 bytes, that a workspace needs for this plan, and for any other plan within
  /// the same capacity where that limits queries, items, spans and partials. A list without a limit has the plan's
  /// size.
  std::size_t workspace_bytes(const Plan& plan) const;

  /// Copies a plan to the workspace; call it once a plan. The copy is asynchronous, from pinned memory of the executor;
  /// the plan may be overwritten when the call returns. The plan's slots become rows here: `batch` gives rows, slots,
  /// generations, query counts and lengths in host memory; its page ids are not read. The call cannot be captured. A
  /// captured graph of resolve() and run() replays with the plan that was uploaded last, so a workspace that is part of
  /// a graph keeps its layout until release().
  ///
  /// The workspace belongs to this plan until the step's last run: resolve() and run() are refused after another
  /// executor uploaded or planned in any part of it. Replays of captured graphs cannot be refused, as they do not call
  /// the library: graphs whose replays must not meet another plan need workspaces of their own. \throws Error(kStale)
  /// when a slot of the plan is missing or has another generation; Error(kWorkspace) when the workspace is too small,
  /// or is part of a graph and was laid out for another shape or a smaller capacity; Error(kUnsupported) when an item's
  /// tile is not compiled.
  void upload(const Plan& plan, const Batch& batch, void* workspace, std::size_t bytes, void* stream);

  /// Bytes of device memory, aligned to 256 bytes, that a workspace needs for the plans of a planner on the device.
  /// \throws Error(kUnsupported) when supports() refuses the planner's shape.
  std::size_t workspace_bytes(const CudaPlanner& planner) const;

  /// Plans the batch on the device; call it once a step in place of upload(), before resolve() and run() on the same
  /// stream. It launches one or two kernels, and reuses the plan that the planner made last for this workspace where
  /// that still fits (CudaPlannerOptions::growth). The host reads nothing of the batch.
  /// Where the batch has query_start, the tensors of the runs have CudaBatch::queries query tokens. The call can be
  /// captured: a replay plans what device memory holds then, for the same number of rows, of which those of length 0
  /// are padding. The planner must outlive such graphs. \throws Error(kInvalidArgument) when the batch has more rows
  /// than the planner's capacity or another page size, or the planner has no memory or is of another device;
  /// Error(kWorkspace) as upload().
  void plan(CudaPlanner& planner, const CudaBatch& batch, void* workspace, std::size_t bytes, void* stream);

  /// Fits the plan in the workspace to the batch's lengths, in a kernel; call it once a step. Page ids are read here or
  /// by run(), so the table must not change until the step's last run is done. The call can be captured, but not with
  /// CudaOptions::check_pages, where it waits for the stream.
  /// \throws Error(kWorkspace) when the workspace holds no plan, or another executor's; with check_pages
  /// Error(kOutOfRange) naming the first row and entry of the table that is no page, or the first length that exceeds
  /// the table.
  void resolve(const CudaBatch& batch, void* workspace, void* stream);

  /// Computes attention with the plan in the workspace; call it once a layer. It only launches kernels, and can be
  /// captured. Tensors are on the device, aligned to 16 bytes, with strides that are multiples of 8 elements.
  /// \throws Error, before the first launch: kInvalidArgument naming the tensor or number that is wrong, kUnsupported
  /// for one that no kernel has, kWorkspace when the workspace holds no plan, is not resolved, or holds another
  /// executor's plan; Error(kInternal) with CUDA's name of the failure and the kernel's name when a launch fails.
  void run(const AttentionArgs& args, void* workspace, void* stream);

  /// Whether runs of the batch that the workspace was planned for take the kernel for a single query token, which uses
  /// no items of the plan. They do when the whole batch has one query token, with CudaKernels::kAuto and the default
  /// study, at head size 128, up to 16 query heads for each KV head and compute capability 9.0 or newer, with up to 66
  /// KV heads on 132 SMs; but not with plans of policy `invariant`, nor while tasks are recorded. A captured run takes
  /// it when AttentionArgs::max_queries, or the plan's capacity, is 1. \throws Error(kWorkspace) when the workspace
  /// holds no plan.
  bool runs_single_query(const void* workspace) const;

  /// Forgets a workspace that no captured graph uses any more: its memory may be laid out anew, or freed.
  void release(void* workspace);

 private:
  friend void experimental::record_tasks(CudaExecutor& executor, void* workspace, experimental::CudaTaskTime* times,
                                         std::size_t count);
  struct State;
  std::unique_ptr<State> state_;
};

/// Merges attention states on a device, as merge_states; all pointers of `states` are device pointers. It only launches
/// a kernel, and can be captured. States and outputs must be aligned to 16 bytes, with strides that are multiples of 16
/// bytes. The host does not read `begin` and `slots`, so their values are not checked.
/// \throws Error as merge_states; Error(kInvalidArgument) on misaligned tensors; Error(kUnsupported) when CUDA or the
/// device cannot be used.
void cuda_merge_states(const MergeStates& states, std::int32_t device, void* stream);

}  // namespace trunkline
