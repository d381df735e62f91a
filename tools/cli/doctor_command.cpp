// `trunkline doctor`: what this machine has, and what will be used.
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.hpp"
#include "cli/measure.hpp"
#include "cli/program.hpp"
#include "cli/text.hpp"
#include "cli/version.hpp"
#include "cli/with_cuda.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/threads.hpp"

namespace trunkline::cli {
namespace {

std::string size_or_unknown(std::int64_t bytes) {
  return bytes > 0 ? human_bytes(static_cast<double>(bytes)) : "unknown";
}

// A device's facts, and a line for each kernel.
std::string device_text(std::int32_t device) {
  const CudaDeviceInfo info = cuda_device_info(device);
  const CudaDetails details = cuda_details(device);
  const std::int32_t driver = info.driver_version;
  std::string text =
      concat("cuda:", device, " ", info.name, ", compute capability ", info.major, ".", info.minor, ", ", info.sms,
             " SMs, ", size_or_unknown(info.memory_bytes), ", L2 ", size_or_unknown(info.l2_bytes),
             "; driver for CUDA ", driver / 1000, ".", driver % 1000 / 10, ", built with ", details.runtime);
  for (const CudaKernelFacts& kernel : details.kernels) {
    text += concat("\n  ", kernel.name, ": tiles ", kernel.tiles, ", ", kernel.registers, " registers, ",
                   size_or_unknown(kernel.shared_bytes), " shared, ", kernel.ctas_per_sm, " CTAs an SM");
  }
  return text;
}

std::string cuda_text() {
  const CudaStatus status = cuda_status();
  if (!status.usable) return status.reason;
  std::string text;
  for (std::int32_t device = 0; device < status.devices; ++device) {
    text += (device == 0 ? "" : "\nCUDA               ") + device_text(device);
  }
  return text;
}

nlohmann::ordered_json device_json(std::int32_t device) {
  const CudaDeviceInfo info = cuda_device_info(device);
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const CudaKernelFacts& kernel : cuda_details(device).kernels) {
    kernels.push_back({{"name", kernel.name},
                       {"tiles", kernel.tiles},
                       {"registers", kernel.registers},
                       {"shared_bytes", kernel.shared_bytes},
                       {"ctas_per_sm", kernel.ctas_per_sm}});
  }
  return {{"name", info.name},
          {"compute_capability", concat(info.major, ".", info.minor)},
          {"sms", info.sms},
          {"memory_bytes", info.memory_bytes},
          {"l2_bytes", info.l2_bytes},
          {"driver_version", info.driver_version},
          {"kernels", std::move(kernels)}};
}

nlohmann::ordered_json cuda_json() {
  const CudaStatus status = cuda_status();
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (std::int32_t device = 0; device < status.devices; ++device) devices.push_back(device_json(device));
  return {{"usable", status.usable},
          {"reason", status.reason},
          {"devices", status.devices},
          {"device_list", std::move(devices)}};
}

void print_text(const CpuInfo& cpu, const MachineProfile& measured) {
  std::cout << "trunkline " << version() << " (" << commit() << ")\n"
            << "CPU                " << cpu.model << '\n'
            << "cores usable       " << cpu.cores << '\n'
            << "caches             L1d " << size_or_unknown(cpu.l1d_bytes) << ", L2 " << size_or_unknown(cpu.l2_bytes)
            << ", last level " << size_or_unknown(cpu.llc_bytes) << '\n'
            << "memory             " << size_or_unknown(cpu.memory_bytes) << ", available "
            << size_or_unknown(cpu.memory_available_bytes) << '\n'
            << "instruction sets  ";
  for (const std::string& name : cpu.instruction_sets) std::cout << ' ' << name;
  std::cout << "\nkernels used       " << name_of(cpu.isa) << " (TRUNKLINE_ISA=portable|avx2|avx512 lowers this)\n"
            << "threads used       " << measured.workers << " (--threads changes this)\n"
            << "read bandwidth     " << fixed(measured.read_bytes_per_us / 1e3, 1) << " GB/s, measured, all threads\n"
            << "fp32 FMA rate      " << fixed(measured.flops_per_us / 1e3, 1) << " GFLOP/s, measured, all threads\n"
            << "CUDA               " << cuda_text() << '\n';
}

void print_json(const CpuInfo& cpu, const MachineProfile& measured) {
  nlohmann::ordered_json row;
  row["version"] = version();
  row["commit"] = commit();
  row["device"] = cpu.model;
  row["cores"] = cpu.cores;
  row["l1d_bytes"] = cpu.l1d_bytes;
  row["l2_bytes"] = cpu.l2_bytes;
  row["llc_bytes"] = cpu.llc_bytes;
  row["memory_bytes"] = cpu.memory_bytes;
  row["memory_available_bytes"] = cpu.memory_available_bytes;
  row["instruction_sets"] = cpu.instruction_sets;
  row["isa"] = name_of(cpu.isa);
  row["threads"] = measured.workers;
  row["read_bytes_per_us"] = measured.read_bytes_per_us;
  row["flops_per_us"] = measured.flops_per_us;
  row["cuda"] = cuda_json();
  std::cout << row.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

}  // namespace

int doctor_command(const Options& options) {
  ThreadPool workers(options.threads);
  const MachineProfile measured = measure_machine(workers);
  if (options.json) {
    print_json(cpu_info(), measured);
  } else {
    print_text(cpu_info(), measured);
  }
  return kExitOk;
}

}  // namespace trunkline::cli
