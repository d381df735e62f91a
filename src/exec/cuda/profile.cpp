// Profiles of CUDA devices: known ones as in data/machines, others scaled from the most similar of those.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/kernels/kernel_families.hpp"
#include "machine/known_profiles.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/profile_file.hpp"

namespace trunkline {
namespace {

// Efficiency of the portable kernels, fitted to bench/results/h200: at head size 128 an H200's SM takes 21 clocks for
// the arithmetic of a token and 64 rows, and hides about 0.6 of the shorter of that and loading from L2 (16).
constexpr double kFlopEfficiency = 0.46;
constexpr double kMemoryOverlap = 0.6;
// Efficiency of the Hopper kernels: 17 clocks for a token and 64 rows.
constexpr double kHopperFlopEfficiency = 0.55;
// At head dimension 256 both warpgroups compute all logits: 6 d FLOPs for a token and row, not 4 d.
constexpr double kHopperLogitsTwice = 4.0 / 6;
constexpr double kHopperItemUs = 2.5;
// The time of a KiB of partials, as a multiple of writing and reading it once at an SM's share: 0.17 us on an H200, not
// 0.058. Nothing hides an epilogue's stores, and merges wait for their reads. At 0.058 ragged forests took 4 % longer.
constexpr double kHopperPartials = 3;
// The fixed cost of a cut. With 5, and 0.23 us a KiB, one request's draft trees of 1,024 tokens stayed whole and took
// 27 to 47 % longer; no other case changed.
constexpr double kHopperCutUs = 3;
// An SM alone reads 1.2 times its even share, 42 GB/s on an H200: in 1 x 32768, 104 SMs read 2,521 tokens each in 30
// us.
constexpr double kHopperReadAlone = 1.2;

// A CTA alone reads 1.35 times its even share: 24 GB/s on an H200, by what its ring keeps in flight.
constexpr double kReadAlone = 1.35;

// Share of the nominal memory bandwidth that attention kernels reach: 92.3 to 94.2 % on an H100 (PAT, figure 8a).
constexpr double kReadShare = 0.93;

MachineProfile known_profile(std::string_view name) {
  for (const KnownProfile& known : known_profiles()) {
    if (known.name == name) return parse_profile(known.text, std::string(name));
  }
  fail(ErrorCode::kInternal, "no profile ", name, " is compiled in");
}

// Returns the profile of the same or the most similar processor: tensor cores and L2 changed with compute capability 9.
std::string_view nearest_profile(const CudaDeviceInfo& info) {
  if (info.name.find("H200") != std::string::npos) return "h200-sxm";
  if (info.major >= 9) return "h100-sxm";
  return "a100-80gb";
}

bool is_known(const CudaDeviceInfo& info, const MachineProfile& profile) {
  const bool same_name = info.name.find("H200") != std::string::npos || info.name.find("H100") != std::string::npos ||
                         info.name.find("A100") != std::string::npos;
  return same_name && info.sms == profile.gpu.sms;
}

// Returns bytes per microsecond by clock and width of the memory bus, two transfers a clock; 0 if the driver does not
// say.
double nominal_read_rate(std::int32_t device) {
  int kilohertz = 0;
  int bits = 0;
  cuda::check_cuda(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, device), "cudaDeviceGetAttribute");
  cuda::check_cuda(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, device), "cudaDeviceGetAttribute");
  return 2.0 * kilohertz / 1e3 * bits / 8;
}

// Scales work rates by the SMs and memory by its own rate; fixed times stay.
void scale(MachineProfile& profile, const CudaDeviceInfo& info, std::int32_t device) {
  const double sms = static_cast<double>(info.sms) / profile.gpu.sms;
  const double nominal = nominal_read_rate(device);
  const double read = nominal > 0 ? nominal * kReadShare : profile.read_bytes_per_us * sms;
  profile.name = info.name;
  profile.workers = info.sms;
  profile.read_bytes_per_us = read;
  profile.flops_per_us *= sms;
  profile.cache_bytes_per_us = std::max(profile.cache_bytes_per_us * sms, read);
  profile.partial_us_per_kib = 2.0 * 1024 * info.sms / read;  // written once and read once at an SM's share
  profile.llc_bytes = info.l2_bytes;
}

std::int32_t ctas_per_sm(const cuda::KernelFamily& family, const AttentionShape& shape, std::int32_t device) {
  const cuda::DeviceScope scope(device);
  const std::vector<cuda::KernelFacts> facts = family.facts(cuda::kernel_shape_of(shape));
  return facts.empty() ? 1 : std::max(facts.front().ctas_per_sm, 1);
}

// An H200's file describes kernels with the tiles of the Hopper kernels, one CTA on an SM. The Hopper kernels take
// 2,200 clocks for a stage of 64 tokens and two warpgroups of 64 rows, and a task costs 0.9 us more than the file says:
// this keeps 256 x 1,024 tokens 13 us from the memory's rate, in 15.5 tasks for each SM.
void use_hopper(std::int32_t head_dim, MachineProfile& profile) {
  profile.flop_efficiency = kHopperFlopEfficiency * (head_dim == 256 ? kHopperLogitsTwice : 1);
  profile.item_us = kHopperItemUs;
  profile.partial_us_per_kib *= kHopperPartials;
  profile.cut_us = kHopperCutUs;
  profile.worker_read_bytes_per_us = kHopperReadAlone * profile.read_bytes_per_us / profile.workers;
}

void use_portable(std::int32_t ctas, MachineProfile& profile) {
  profile.row_quantum = 16;
  profile.flop_efficiency = kFlopEfficiency;
  profile.memory_overlap = kMemoryOverlap;
  // Several CTAs share an SM's rates.
  profile.workers *= ctas;
  profile.worker_read_bytes_per_us = kReadAlone * profile.read_bytes_per_us / profile.workers;
  profile.partial_us_per_kib *= ctas;
}

}  // namespace

CudaKernels cuda_kernels(std::int32_t device, const AttentionShape& shape, CudaKernels wanted) {
  return cuda::family_for(wanted, cuda_device_info(device).major, shape).kernels;
}

MachineProfile cuda_profile(std::int32_t device, const AttentionShape& shape, CudaKernels wanted) {
  const CudaDeviceInfo info = cuda_device_info(device);
  const cuda::KernelFamily& family = cuda::family_for(wanted, info.major, shape);
  MachineProfile profile = known_profile(nearest_profile(info));
  if (!is_known(info, profile)) scale(profile, info, device);
  profile.gpu = info.limits;
  profile.workers = info.sms;
  // The tiles of this build's kernels: one n for each m.
  profile.tiles = family.tiles(shape.head_dim_qk);
  profile.tile_steps.clear();
  profile.half_rows = family.half_rows;
  if (family.kernels == CudaKernels::kPortable) {
    use_portable(ctas_per_sm(family, shape, device), profile);
  } else {
    use_hopper(shape.head_dim_qk, profile);
  }
  return profile;
}

}  // namespace trunkline
