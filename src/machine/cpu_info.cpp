#include <sched.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <thread>

#include "base/check.hpp"
#include "trunkline/machine.hpp"

namespace trunkline {
namespace {

std::string model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
  }
  return "unknown CPU";
}

// Cores' worth of time that the control group's quota (version 2, else 1) allows, rounded up: more threads than that
// would be stopped for part of every period. The largest value where there is no quota ("max", or -1).
std::int32_t quota_cores() {
  constexpr std::int32_t kNoQuota = std::numeric_limits<std::int32_t>::max();
  std::int64_t quota = 0;
  std::int64_t period = 0;
  std::ifstream both("/sys/fs/cgroup/cpu.max");
  if (!(both >> quota >> period)) {
    std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> quota;
    std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period;
  }
  if (quota <= 0 || period <= 0) return kNoQuota;
  return static_cast<std::int32_t>(std::min<std::int64_t>((quota - 1) / period + 1, kNoQuota));
}

std::int32_t allowed_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<std::int32_t>(std::max(1U, std::thread::hardware_concurrency()));
}

std::int32_t usable_cores() {
  return std::min(allowed_cores(), quota_cores());
}

// Bytes of the cache that /sys describes with this level, data or unified; 0 where there is none.
std::int64_t cache_bytes(int wanted_level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = concat("/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    std::ifstream level_file(folder + "level");
    std::ifstream type_file(folder + "type");
    std::ifstream size_file(folder + "size");
    int level = 0;
    std::string type;
    std::int64_t size = 0;
    std::string unit;
    if (!(level_file >> level) || !(type_file >> type) || !(size_file >> size)) continue;
    size_file >> unit;
    if (level != wanted_level || type == "Instruction") continue;
    return unit == "M" ? size << 20 : unit == "K" ? size << 10 : size;
  }
  return 0;
}

// A number of bytes in a file of one number; the largest value where there is none ("max" included).
std::int64_t bytes_in_file(const char* path) {
  std::ifstream file(path);
  std::int64_t bytes = 0;
  return file >> bytes ? bytes : std::numeric_limits<std::int64_t>::max();
}

// A line of /proc/meminfo, in bytes; 0 where it is missing.
std::int64_t meminfo(std::string_view key) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::int64_t kib = 0;
  std::string unit;
  while (file >> name >> kib) {
    if (name == key) return kib << 10;
    std::getline(file, unit);
  }
  return 0;
}

#if defined(__x86_64__)
// Clang 14 does not know "f16c" in __builtin_cpu_supports: bit 29 of ECX of leaf 1. (Usable where AVX is.)
bool has_f16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & (1U << 29)) != 0;
}
#endif

struct NamedFeature {
  const char* name;
  bool present;
};

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const NamedFeature features[] = {
      {"sse2", __builtin_cpu_supports("sse2") != 0},         {"avx2", __builtin_cpu_supports("avx2") != 0},
      {"fma", __builtin_cpu_supports("fma") != 0},           {"f16c", has_f16c()},
      {"avx512f", __builtin_cpu_supports("avx512f") != 0},   {"avx512bw", __builtin_cpu_supports("avx512bw") != 0},
      {"avx512dq", __builtin_cpu_supports("avx512dq") != 0}, {"avx512vl", __builtin_cpu_supports("avx512vl") != 0},
  };
  for (const NamedFeature& feature : features) {
    if (feature.present) names.emplace_back(feature.name);
  }
#endif
  return names;
}

CpuIsa best_isa(const std::vector<std::string>& names) {
  const auto has = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  const bool avx2 = has("avx2") && has("fma") && has("f16c");
  if (avx2 && has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl")) return CpuIsa::kAvx512;
  return avx2 ? CpuIsa::kAvx2 : CpuIsa::kPortable;
}

CpuIsa lowered_by_environment(CpuIsa best) {
  const char* wish = std::getenv("TRUNKLINE_ISA");
  if (wish == nullptr) return best;
  for (const CpuIsa isa : {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (std::string_view(wish) == name_of(isa)) return std::min(best, isa);
  }
  fail(ErrorCode::kInvalidArgument, "environment variable TRUNKLINE_ISA is \"", wish,
       "\"; it must be portable, avx2 or avx512");
}

}  // namespace

const char* name_of(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kPortable: return "portable";
    case CpuIsa::kAvx2: return "avx2";
    case CpuIsa::kAvx512: return "avx512";
  }
  return "unknown";
}

CpuInfo cpu_info() {
  CpuInfo info;
  info.model = model_name();
  info.cores = usable_cores();
  info.l1d_bytes = cache_bytes(1);
  info.l2_bytes = cache_bytes(2);
  info.llc_bytes = std::max(cache_bytes(3), info.l2_bytes);
  // A container's limit counts where it is below what the machine has (control groups, version 2 then 1).
  const std::int64_t limit = std::min(bytes_in_file("/sys/fs/cgroup/memory.max"),
                                      bytes_in_file("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  const std::int64_t installed = meminfo("MemTotal:");
  info.memory_bytes = std::min(installed, limit);
  info.memory_available_bytes = meminfo("MemAvailable:");
  if (limit < installed) {
    const std::int64_t used = std::min(bytes_in_file("/sys/fs/cgroup/memory.current"),
                                       bytes_in_file("/sys/fs/cgroup/memory/memory.usage_in_bytes"));
    info.memory_available_bytes = std::min(info.memory_available_bytes, limit - std::min(used, limit));
  }
  info.instruction_sets = instruction_sets();
  info.isa = lowered_by_environment(best_isa(info.instruction_sets));
  return info;
}

}  // namespace trunkline
