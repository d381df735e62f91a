#include "cli/device_choice.hpp"

#include <charconv>
#include <optional>

#include "base/check.hpp"
#include "trunkline/attention.hpp"
#include "trunkline/profile_file.hpp"

namespace trunkline::cli {
namespace {

// The N of "cuda:N", 0 of "cuda".
std::optional<std::int32_t> cuda_index(std::string_view word) {
  constexpr std::string_view kName = "cuda";
  if (word == kName) return 0;
  if (word.substr(0, kName.size() + 1) != "cuda:") return std::nullopt;
  const std::string_view digits = word.substr(kName.size() + 1);
  std::int32_t index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc() || end != digits.data() + digits.size() || index < 0) return std::nullopt;
  return index;
}

Support supports_on_cuda(AttentionShape shape) {
  shape.device = Device::kCuda;
  return supports(shape);
}

// The device of the profile that --machine names; nothing where the machine is measured.
std::optional<Device> device_of_profile(const Options& options) {
  if (options.profile == ProfileSource::kGeneric) return Device::kCpu;
  if (options.profile == ProfileSource::kMeasured) return std::nullopt;
  return load_profile(options.profile_file).device;
}

void check_same_device(std::string_view word, Device asked, Device profiled, const Options& options) {
  if (asked == profiled) return;
  const std::string machine = options.profile == ProfileSource::kGeneric ? "generic" : options.profile_file;
  fail(ErrorCode::kUnsupported, "--machine ", machine, " is a profile of a ", name_of(profiled),
       " device, and --device is ", word);
}

}  // namespace

void choose_device(std::string_view word, Options& options) {
  const std::optional<std::int32_t> index = cuda_index(word);
  const bool any = word == "auto";
  if (!any && word != "cpu" && !index) {
    fail(ErrorCode::kInvalidArgument, "--device is \"", word, "\"; supported: auto, cpu, cuda, cuda:N");
  }
  options.cuda.device = index.value_or(0);
  const std::optional<Device> profiled = device_of_profile(options);
  if (!any && profiled) check_same_device(word, index ? Device::kCuda : Device::kCpu, *profiled, options);
  const bool predicts = options.command == Command::kPlan || options.command == Command::kCompare ||
                        (options.command == Command::kReplay && options.replay.execute == 0);
  if (predicts && options.profile == ProfileSource::kFile) return;
  const bool cuda = any ? profiled != Device::kCpu && supports_on_cuda(options.shape).ok : index.has_value();
  options.shape.device = cuda ? Device::kCuda : Device::kCpu;
}

}  // namespace trunkline::cli
