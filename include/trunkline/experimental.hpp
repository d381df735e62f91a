// Options for studies: ways of published systems to cut, order, launch and merge, and records of when tasks ran. They
// are for measurements and ablations. Nothing here is part of the stable interface: any release may change it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trunkline/attention.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::experimental {

/// Values of PlanOptions::split besides the stable ones. Packs longer than the mean are cut into equal parts of at most
/// the mean (PAT, section 6).
inline constexpr KvSplit kSplitMean{3};
/// Packs are cut into parts of at most 1,024 tokens, of 128 where workers would idle (FastTree, section 4.3).
inline constexpr KvSplit kSplitLong{4};

/// When policy `profit` lets a child take its queries out of its parent's pack and carry the parent's tokens along.
enum class ProfitCost : std::uint8_t {
  kMemory,   ///< when the partials that it saves outweigh the tokens that are read once more (PAT, equations 1 and 2)
  kCompute,  ///< by FastTree's costs, equations 5 to 11: the ablation PAT-compute
};
const char* name_of(ProfitCost cost);
/// \throws Error(kInvalidArgument) with the known names.
ProfitCost profit_cost_from_name(std::string_view name);

/// Whether policy `trunk` moves prefixes into items of their own, at the price of partials.
enum class TrunkHoist : std::uint8_t {
  kByDevice,  ///< kByCost on a CPU, kNever on a GPU
  kByCost,    ///< where the cost model says that reading a prefix again costs more
  kNever,
};
const char* name_of(TrunkHoist hoist);
/// \throws Error(kInvalidArgument) with the known names.
TrunkHoist trunk_hoist_from_name(std::string_view name);

/// Variants of single policies, for PolicyOptions::study.
struct PolicyStudy {
  ProfitCost profit_cost = ProfitCost::kMemory;  ///< `profit`
  /// `greedy`: small tiles for nodes of few queries, where each tile fills the machine (FastTree, section 5).
  bool greedy_phases = true;
  TrunkHoist trunk_hoist = TrunkHoist::kByDevice;  ///< `trunk`
};

/// How the items of a plan are launched on a GPU; the results have the same bits.
enum class ForwardMode : std::uint8_t {
  kPersistent,  ///< one launch, sized to the device, with a queue of the items of all tiles
  kStreams,     ///< one launch for each tile of the plan, each on a stream forked from the caller's (PAT)
  kSerial,      ///< the launches of kStreams one after another on the caller's stream
};
const char* name_of(ForwardMode mode);
/// \throws Error(kInvalidArgument) with the known names.
ForwardMode forward_mode_from_name(std::string_view name);

/// Variants of runs on a GPU, for CudaOptions::study.
struct CudaStudy {
  ForwardMode forward = ForwardMode::kPersistent;
  /// kSeparate is a second launch, of all SMs at once. kFused saves it, but few warps merge then: it takes 1.04x
  /// to 1.74x the time of portable kernels on the six trees with partials that were measured (bench/results/h200,
  /// suite `merge`). On Hopper's kernels, in one run without committed rows, it took 2 to 6 % less for 1 to 8 requests
  /// alone, and at most 1.5x for drafts.
  MergeMode merge = MergeMode::kSeparate;
  /// Runs on kernels that need no more shared memory for a CTA, as on a device that has no more: 99 KiB on compute
  /// capability 8.6, 8.9 and 12.0. 0: what the device has.
  std::size_t shared_bytes = 0;
};

/// When a run worked on one (item, KV head), and where. Times are nanoseconds of the device's clock (%globaltimer),
/// whose resolution depends on the device.
struct CudaTaskTime {
  std::uint64_t begin_ns;  ///< of its first copy, which a worker begins before it has ended the task before
  std::uint64_t end_ns;    ///< of its output
  std::int32_t item;       ///< index into Plan::items
  std::int32_t head;       ///< KV head
  std::int32_t sm;
  std::int32_t worker;  ///< CTA of the launch
};

/// From now on, runs on this workspace write when and where each task ran, and so do graphs captured from now on.
/// \param times device memory of `count` records, at least one for each (item, KV head) of any plan that is uploaded:
/// the record of schedule position i and head h is i * kv_heads + h. Null: runs record no more.
/// \throws Error(kWorkspace) when the workspace holds no plan, or the plan has more tasks than `count`.
void record_tasks(CudaExecutor& executor, void* workspace, CudaTaskTime* times, std::size_t count);

}  // namespace trunkline::experimental
