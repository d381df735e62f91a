// Running plans on NVIDIA GPUs of compute capability 8.0 or newer. No CUDA header is needed: streams are `void*`
// (cudaStream_t), device memory is plain pointers. In a build without CUDA everything here says so.
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

/// Whether CUDA can be used by this process. Never throws; the driver is looked for when first asked.
struct CudaStatus {
  bool usable = false;
  std::string reason;  ///< when not usable: what is missing, and what would help
  std::int32_t devices = 0;
};
CudaStatus cuda_status();

/// What a device is.
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
/// \throws Error(kUnsupported) with cuda_status().reason, Error(kOutOfRange) on a device that is not there.
CudaDeviceInfo cuda_device_info(std::int32_t device);

/// The families of forward kernels. All give right results for every plan whose tiles they have, but not the same bits.
enum class CudaKernels : std::uint8_t {
  kAuto,      ///< kHopper where it runs and pages are a multiple of 8 tokens; else kPortable
  kPortable,  ///< mma.sync: compute capability 8.0 and newer, head sizes 64, 128 and 256, tiles of 16, 32 and 64 rows
  kHopper,    ///< wgmma: compute capability 9.0, head size 128, tiles of 64 and 128 rows
};
const char* name_of(CudaKernels kernels);
/// \throws Error naming the known ones.
CudaKernels cuda_kernels_from_name(std::string_view name);
/// The family that runs a shape on a device: never kAuto. \throws Error(kUnsupported) where `wanted` does not; as
/// cuda_device_info.
CudaKernels cuda_kernels(std::int32_t device, const AttentionShape& shape, CudaKernels wanted = CudaKernels::kAuto);

/// A profile for planning: the measured figures of a known device, scaled from those of a similar one otherwise, with
/// the tiles that this build's kernels for the shape have. \throws Error as cuda_kernels.
MachineProfile cuda_profile(std::int32_t device, const AttentionShape& shape, CudaKernels wanted = CudaKernels::kAuto);

class CudaExecutor;
namespace experimental {
struct CudaStudy;
struct CudaTaskTime;
void record_tasks(CudaExecutor& executor, void* workspace, CudaTaskTime* times, std::size_t count);
}  // namespace experimental

struct CudaOptions {
  std::int32_t device = 0;
  /// Each resolve() checks in a kernel, and waits for it, that all page ids that the batch's lengths reach are of the
  /// cache. The environment's TRUNKLINE_CHECK=1 turns it on for all executors.
  bool check_pages = false;
  CudaKernels kernels = CudaKernels::kAuto;
  std::shared_ptr<const experimental::CudaStudy> study;  ///< null: the defaults
};

/// What a step's page tables and lengths are on the device.
struct CudaBatch {
  /// Made of device pointers, by PageTable::dense, csr_on_device or token_level_on_device; never read on the host.
  PageTable pages;
  const std::int32_t* kv_lens = nullptr;  ///< [B] on the device
  std::int64_t num_pages = 0;             ///< of the cache; read only with CudaOptions::check_pages
  /// [B + 1] on the device, prefix sums of query tokens; null: one a row. Read by CudaExecutor::plan alone.
  const std::int32_t* query_start = nullptr;
  /// With query_start, the most query tokens that it may count: the rows that Q and O of the runs have. 0: the
  /// planner's capacity.
  std::int32_t queries = 0;
};

class CudaPlanner;

/// Runs plans on one device. Calls on one executor must not overlap in time on the host; the work that they enqueue may
/// overlap in several streams, each with a workspace of its own.
class CudaExecutor {
 public:
  /// \throws Error(kUnsupported) when CUDA, the device or an option cannot be used.
  explicit CudaExecutor(CudaOptions options = {});
  ~CudaExecutor();
  CudaExecutor(CudaExecutor&&) noexcept;
  CudaExecutor& operator=(CudaExecutor&&) noexcept;

  /// Whether plans of a shape can be run, with reasons.
  Support supports(const AttentionShape& shape) const;

  /// Device memory, aligned to 256 bytes, for this plan and any other within its capacity, where that limits queries,
  /// items, spans and partials. Lists without a limit take what the plan has.
  std::size_t workspace_bytes(const Plan& plan) const;

  /// Once a plan: copies it to the workspace, asynchronously, through pinned memory of the executor's own that is used
  /// again only after an event. Slots become rows here: `batch` gives rows, slots, generations, query counts and
  /// lengths on the host; its page ids are not read. A captured graph of resolve() and run() replays with what was
  /// uploaded last, so once a workspace is part of a graph it keeps its layout until release(). Not capturable itself.
  /// Until the step's last run the workspace is this plan's alone: where another executor uploads or plans in any of
  /// it, resolve() and run() are refused. Replays of captured graphs are not: nothing is asked on the host there, so
  /// graphs whose replays must not meet another plan have workspaces of their own.
  /// \throws Error(kStale) when a slot of the plan is missing or has another generation, Error(kWorkspace) when the
  /// workspace is too small, or is part of a graph and was laid out for another shape or a lesser capacity;
  /// Error(kUnsupported) when an item's tile is not compiled.
  void upload(const Plan& plan, const Batch& batch, void* workspace, std::size_t bytes, void* stream);

  /// The same for plans that a planner makes on the device. \throws Error(kUnsupported) where its shape is.
  std::size_t workspace_bytes(const CudaPlanner& planner) const;

  /// Instead of upload(), once a step: plans the batch on the device, in a kernel or two, or keeps the plan that it
  /// made for this workspace last where that still fits (CudaPlanner). Nothing of the batch is read on the host; no row
  /// may have a draft tree. Capturable: a replay plans what is in device memory then, of as many rows, of which those
  /// of length 0 are padding. The planner outlives such graphs. resolve() and run() follow on the stream. Where the
  /// batch has query_start, Q and O have rows for PlanCapacity::queries query tokens. \throws Error(kInvalidArgument)
  /// when the batch has more rows than the planner has room for or another page size, or the planner is bound to no
  /// memory or of another device; Error(kWorkspace) as upload().
  void plan(CudaPlanner& planner, const CudaBatch& batch, void* workspace, std::size_t bytes, void* stream);

  /// Once a step: fits the uploaded plan to live lengths, in a kernel. Page ids are read here or by run(): the table
  /// stays as it is until the step's last run is done. Capturable, but not with
  /// CudaOptions::check_pages, where it waits for the stream. \throws Error(kOutOfRange) there, naming the first row
  /// and entry of the table that is no page, or the first length that the table has no pages for.
  void resolve(const CudaBatch& batch, void* workspace, void* stream);

  /// Once a layer: launches only. Tensors are on the device. Capturable in every mode.
  /// \throws Error on null, misaligned or mistyped tensors before the first launch; Error(kWorkspace) when the
  /// workspace holds no plan, or another executor's since; Error(kInternal) with CUDA's name
  /// of the failure and the kernel's name when a launch fails.
  void run(const AttentionArgs& args, void* workspace, void* stream);

  /// Whether runs of the batch that the workspace was planned for take the kernel of a lone query, a single one of all
  /// requests, which knows no items: with CudaKernels::kAuto, at head size 128 on compute
  /// capability 9.0 and later, with up to 66 KV heads on 132 SMs. Not while tasks are recorded, nor plans of policy
  /// `invariant`. Captured runs take it where no batch of more may come: AttentionArgs::max_queries, or a plan's
  /// capacity.
  bool runs_single_query(const void* workspace) const;

  /// Forgets a workspace whose captured graphs are gone: its memory may be laid out anew, or freed.
  void release(void* workspace);

 private:
  friend void experimental::record_tasks(CudaExecutor& executor, void* workspace, experimental::CudaTaskTime* times,
                                         std::size_t count);
  struct State;
  std::unique_ptr<State> state_;
};

/// Merges attention states on a device, on a stream: merge_states of trunkline/attention.hpp, all pointers on the
/// device. Launches only; capturable. States and outputs must be aligned to 16 bytes, with strides that are multiples
/// of 16 bytes. \throws Error as merge_states, but lists and slots on the device are not read; on misaligned
/// tensors; when CUDA or the device cannot be used.
void cuda_merge_states(const MergeStates& states, std::int32_t device, void* stream);

}  // namespace trunkline
