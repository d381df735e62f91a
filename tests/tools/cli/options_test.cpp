#include "cli/options.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/expect_error.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::cli {
namespace {

Options parse(const std::vector<std::string>& words) {
  std::vector<const char*> argv = {"trunkline"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  const std::optional<Options> options = parse_command_line(static_cast<int>(argv.size()), argv.data());
  if (!options) throw std::runtime_error("no options");
  return *options;
}

std::vector<std::string> run_with(std::vector<std::string> more) {
  std::vector<std::string> words = {"run", "--tree", "1/16"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void expect_refused(const std::vector<std::string>& more, ErrorCode code, const std::string& words) {
  testing::expect_error(code, words, [&] { parse(run_with(more)); });
}

const std::string kGpuProfile = TRUNKLINE_DATA "/machines/h200-sxm.json";

TEST(Options, GenericMachinesAndProfilesOfACpuAreOfTheCpu) {
  EXPECT_EQ(parse(run_with({"--machine", "generic"})).shape.device, Device::kCpu);
  EXPECT_EQ(parse(run_with({"--machine", TRUNKLINE_DATA "/machines/generic-cpu.json"})).shape.device, Device::kCpu);
  EXPECT_EQ(parse(run_with({"--device", "cpu"})).shape.device, Device::kCpu);
}

TEST(Options, AutoIsCudaWhereItCanBeUsedAndHasKernelsForTheShape) {
  const Device expected = cuda_status().usable ? Device::kCuda : Device::kCpu;
  EXPECT_EQ(parse(run_with({})).shape.device, expected);
  EXPECT_EQ(parse(run_with({"--machine", kGpuProfile})).shape.device, expected);
  EXPECT_EQ(parse(run_with({"--dtype", "f32"})).shape.device, Device::kCpu);
}

TEST(Options, CudaIsRefusedWithTheReasonWhereItCannotBeUsed) {
  if (cuda_status().usable) GTEST_SKIP() << "CUDA can be used here";
  expect_refused({"--device", "cuda"}, ErrorCode::kUnsupported, cuda_status().reason);
  expect_refused({"--device", "cuda:1"}, ErrorCode::kUnsupported, cuda_status().reason);
}

TEST(Options, DevicesAreNamedWellOrRefused) {
  for (const char* word : {"tpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda1", "CUDA"}) {
    SCOPED_TRACE(word);
    expect_refused({std::string("--device=") + word}, ErrorCode::kInvalidArgument,
                   std::string("--device is \"") + word + "\"; supported: auto, cpu, cuda, cuda:N");
  }
}

TEST(Options, ProfileAndDeviceMustAgree) {
  expect_refused({"--device", "cpu", "--machine", kGpuProfile}, ErrorCode::kUnsupported,
                 "is a profile of a cuda device, and --device is cpu");
  expect_refused({"--device", "cuda", "--machine", "generic"}, ErrorCode::kUnsupported,
                 "--machine generic is a profile of a cpu device, and --device is cuda");
}

TEST(Options, PredictionsForAGpuNeedNone) {
  const Options options = parse({"plan", "--tree", "1/16", "--device", "cuda", "--machine", kGpuProfile});
  EXPECT_EQ(options.profile, ProfileSource::kFile);
}

TEST(Options, MergeIsOfBothDevices) {
  EXPECT_EQ(parse(run_with({"--device", "cpu"})).merge, std::nullopt);
  EXPECT_EQ(parse(run_with({"--device", "cpu", "--merge", "separate"})).merge, MergeMode::kSeparate);
  EXPECT_EQ(parse(run_with({"--device", "cpu", "--merge", "fused"})).merge, MergeMode::kFused);
  expect_refused({"--merge", "late"}, ErrorCode::kInvalidArgument, "--merge is \"late\"; supported: fused, separate");
}

TEST(Options, LaunchesAreOfCudaAlone) {
  expect_refused({"--mode", "late"}, ErrorCode::kInvalidArgument,
                 "--mode is \"late\"; supported: persistent, streams, serial, fixed");
  for (const std::vector<std::string>& given :
       std::vector<std::vector<std::string>>{{"--mode", "serial"}, {"--check-pages"}, {"--trace", "t.json"}}) {
    std::vector<std::string> words = {"--device", "cpu"};
    words.insert(words.end(), given.begin(), given.end());
    expect_refused(words, ErrorCode::kUnsupported, given.front() + " needs --device cuda, and this runs on cpu");
  }
}

TEST(Options, LaunchesAreUnderstoodWhereCudaIs) {
  if (!cuda_status().usable) GTEST_SKIP() << cuda_status().reason;
  const Options serial = parse(run_with({"--device", "cuda", "--mode", "serial", "--check-pages"}));
  EXPECT_EQ(serial.forward, experimental::ForwardMode::kSerial);
  EXPECT_TRUE(serial.cuda.check_pages);
  EXPECT_FALSE(serial.one_tile);
  const Options fixed = parse(run_with({"--device", "cuda:0", "--mode", "fixed", "--trace", "t.json"}));
  EXPECT_EQ(fixed.forward, experimental::ForwardMode::kPersistent);
  EXPECT_TRUE(fixed.one_tile);
  EXPECT_EQ(fixed.trace, "t.json");
}

}  // namespace
}  // namespace trunkline::cli
