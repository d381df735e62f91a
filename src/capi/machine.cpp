// Facts of this machine, and machine profiles.
#include <memory>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "capi/convert.hpp"
#include "capi/objects.hpp"
#include "capi/structs.hpp"
#include "machine/known_profiles.hpp"
#include "trunkline/attention.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/profile_file.hpp"

using namespace trunkline;
using namespace trunkline::capi;

namespace {

trunkline_profile* publish_profile(MachineProfile profile, FigureSources sources = {}) {
  return static_cast<trunkline_profile*>(
      publish(std::make_shared<ProfileObject>(std::move(profile), std::move(sources))));
}

trunkline_profile* parsed(std::string_view text, const std::string& name) {
  FigureSources sources;
  MachineProfile profile = parse_profile(text, name, &sources);
  return publish_profile(std::move(profile), std::move(sources));
}

std::string known_names() {
  std::string names;
  for (const KnownProfile& known : known_profiles()) names += (names.empty() ? "" : ", ") + std::string(known.name);
  return names;
}

}  // namespace

trunkline_status trunkline_supports(const trunkline_shape* shape) {
  return guard([&] {
    const Support support = supports(shape_of(shape));
    if (!support) fail(ErrorCode::kUnsupported, support.reason);
  });
}

trunkline_status trunkline_get_cpu_info(trunkline_cpu_info* info) {
  return guard([&] {
    const CpuInfo from = cpu_info();
    trunkline_cpu_info to{};
    copy_text(from.model, to.model);
    std::string sets;
    for (const std::string& set : from.instruction_sets) sets += (sets.empty() ? "" : " ") + set;
    copy_text(sets, to.instruction_sets);
    to.cores = from.cores;
    to.isa = static_cast<trunkline_isa>(from.isa) + TRUNKLINE_ISA_PORTABLE;
    to.l1d_bytes = from.l1d_bytes;
    to.l2_bytes = from.l2_bytes;
    to.llc_bytes = from.llc_bytes;
    to.memory_bytes = from.memory_bytes;
    to.memory_available_bytes = from.memory_available_bytes;
    write_struct(info, "info", to);
  });
}

trunkline_status trunkline_cuda_status(int32_t* devices) {
  return guard([&] {
    const CudaStatus status = cuda_status();
    if (devices != nullptr) *devices = status.usable ? status.devices : 0;
    if (!status.usable) fail(ErrorCode::kUnsupported, status.reason);
  });
}

trunkline_status trunkline_get_cuda_info(int32_t device, trunkline_cuda_info* info) {
  return guard([&] {
    checked_size(info, "info");
    const CudaDeviceInfo from = cuda_device_info(device);
    trunkline_cuda_info to{};
    copy_text(from.name, to.name);
    to.major = from.major;
    to.minor = from.minor;
    to.sms = from.sms;
    to.driver_version = from.driver_version;
    to.memory_bytes = from.memory_bytes;
    to.l2_bytes = from.l2_bytes;
    write_struct(info, "info", to);
  });
}

trunkline_status trunkline_cuda_kernels_for(int32_t device, const trunkline_shape* shape, trunkline_kernels wanted,
                                            trunkline_kernels* kernels) {
  return guard([&] {
    need(kernels, "kernels");
    *kernels = static_cast<trunkline_kernels>(cuda_kernels(device, shape_of(shape), kernels_of(wanted, "wanted")));
  });
}

trunkline_status trunkline_profile_generic_cpu(int32_t threads, trunkline_profile** profile) {
  return guard([&] {
    need(profile, "profile");
    if (threads < 1) fail(ErrorCode::kInvalidArgument, "threads is ", threads, "; it must be >= 1");
    *profile = publish_profile(generic_cpu_profile(threads));
  });
}

trunkline_status trunkline_profile_measure_cpu(trunkline_workers* workers, trunkline_profile** profile) {
  return guard([&] {
    need(profile, "profile");
    const auto held = shared<WorkersObject>(workers);
    const WorkersUse use(*held);
    *profile = publish_profile(measure_cpu_profile(*held->workers));
  });
}

trunkline_status trunkline_profile_named(const char* name, trunkline_profile** profile) {
  return guard([&] {
    need(name, "name");
    need(profile, "profile");
    for (const KnownProfile& known : known_profiles()) {
      if (known.name != name) continue;
      *profile = parsed(known.text, name);
      return;
    }
    fail(ErrorCode::kInvalidArgument, "name is \"", name, "\"; known profiles: ", known_names());
  });
}

trunkline_status trunkline_profile_load(const char* path, trunkline_profile** profile) {
  return guard([&] {
    need(path, "path");
    need(profile, "profile");
    FigureSources sources;
    MachineProfile from = load_profile(path, &sources);
    *profile = publish_profile(std::move(from), std::move(sources));
  });
}

trunkline_status trunkline_profile_parse(const char* json, size_t length, const char* name,
                                         trunkline_profile** profile) {
  return guard([&] {
    need(json, "json");
    need(name, "name");
    need(profile, "profile");
    *profile = parsed({json, length}, name);
  });
}

trunkline_status trunkline_profile_cuda(int32_t device, const trunkline_shape* shape, trunkline_kernels wanted,
                                        trunkline_profile** profile) {
  return guard([&] {
    need(profile, "profile");
    *profile = publish_profile(cuda_profile(device, shape_of(shape), kernels_of(wanted, "wanted")));
  });
}

trunkline_status trunkline_profile_get_info(const trunkline_profile* profile, trunkline_profile_info* info) {
  return guard([&] {
    const auto held = shared<ProfileObject>(profile);
    const MachineProfile& from = held->profile;
    trunkline_profile_info to{};
    copy_text(from.name, to.name);
    to.device = number_of(from.device);
    to.workers = from.workers;
    to.read_bytes_per_us = from.read_bytes_per_us;
    to.flops_per_us = from.flops_per_us;
    to.launch_us = from.launch_us;
    to.llc_bytes = from.llc_bytes;
    write_struct(info, "info", to);
  });
}

trunkline_status trunkline_profile_json(const trunkline_profile* profile, trunkline_text** json) {
  return guard([&] {
    need(json, "json");
    const auto held = shared<ProfileObject>(profile);
    if (held->sources.empty()) {
      fail(ErrorCode::kUnsupported, "profile ", held->profile.name,
           " was made without a file, so its figures have no sources; supported: profiles from files, texts and names");
    }
    *json = publish_text(profile_to_json(held->profile, held->sources));
  });
}

trunkline_status trunkline_profile_destroy(trunkline_profile* profile) {
  return destroy<ProfileObject>(profile);
}
