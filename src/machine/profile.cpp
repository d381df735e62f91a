#include <algorithm>

#include "base/check.hpp"
#include "trunkline/machine.hpp"

namespace trunkline {
namespace {

// Figures of one core of a common server with the kernels of src/exec/cpu. Rates serve until they are measured, and are
// for planning only; the other figures are fitted to the runs in bench/results.
struct CoreFigures {
  double read_bytes_per_us;
  double flops_per_us;
  std::int32_t narrow_rows;
  std::int32_t row_quantum;  // half a vector: the rest of the rows goes to the kernel for few rows
};

CoreFigures core_figures(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kAvx512: return {12e3, 150e3, 10, 8};
    case CpuIsa::kAvx2: return {12e3, 80e3, 8, 4};
    case CpuIsa::kPortable: break;
  }
  return {12e3, 20e3, 4, 2};
}

// One socket saturates well before all its cores read: about ten cores' worth.
constexpr double kMaxReadBytesPerUs = 120e3;

}  // namespace

MachineProfile generic_cpu_profile(std::int32_t threads) {
  if (threads < 1) fail(ErrorCode::kInvalidArgument, "threads is ", threads, "; a profile needs at least 1");
  const CpuInfo info = cpu_info();
  const CoreFigures core = core_figures(info.isa);
  MachineProfile profile;
  profile.name = concat("generic cpu, ", name_of(info.isa));
  profile.device = Device::kCpu;
  profile.workers = threads;
  profile.read_bytes_per_us = std::min(core.read_bytes_per_us * threads, kMaxReadBytesPerUs);
  profile.flops_per_us = core.flops_per_us * threads;
  profile.launch_us = 3;
  profile.item_us = 1;
  profile.partial_us_per_kib = 0.2;
  profile.memory_overlap = 0.8;
  profile.flop_efficiency = 0.7;
  profile.narrow_rows = core.narrow_rows;
  profile.row_quantum = core.row_quantum;
  profile.llc_bytes = info.llc_bytes;
  for (const std::int32_t m : {16, 32, 64, 128}) profile.tiles.push_back({m, 32});
  return profile;
}

}  // namespace trunkline
