#include "cli/plan_inputs.hpp"

#include "base/check.hpp"
#include "cli/measure.hpp"
#include "cli/text.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/profile_file.hpp"

namespace trunkline::cli {

MachineProfile planning_profile(const Options& options, Workers& workers) {
  if (options.profile == ProfileSource::kMeasured) {
    return options.shape.device == Device::kCuda
               ? cuda_profile(options.cuda.device, options.shape, options.cuda.kernels)
               : measure_machine(workers);
  }
  if (options.profile == ProfileSource::kGeneric) return generic_cpu_profile(workers.size());
  MachineProfile profile = load_profile(options.profile_file);
  const bool runs =
      options.command == Command::kRun || (options.command == Command::kReplay && options.replay.execute > 0);
  if (runs && profile.device != options.shape.device) {
    fail(ErrorCode::kUnsupported, "--machine ", options.profile_file, " is a profile of a ", name_of(profile.device),
         " device, and this runs on ", name_of(options.shape.device),
         "; give a profile of that, or let `plan` or `compare` predict");
  }
  return profile;
}

Planner planner_of(const Options& options) {
  ThreadPool workers(options.threads);
  return Planner(planning_profile(options, workers));
}

void check_table_memory(const std::vector<DecodeBatch>& batches, const Options& options) {
  const std::int64_t available = cpu_info().memory_available_bytes;
  for (const DecodeBatch& batch : batches) {
    const std::int64_t needed = 2 * paged_batch_size(batch.tree, options.shape.page_size).table_bytes();
    if (needed <= available) continue;
    fail(ErrorCode::kInvalidArgument, batch.tree.name, ": its page table needs ", needed, " bytes of memory (",
         human_bytes(static_cast<double>(needed)), ") and ", available,
         " are available; give a larger --page-size, or a smaller batch");
  }
}

}  // namespace trunkline::cli
