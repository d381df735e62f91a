#include "trunkline/profile_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <ostream>
#include <string>
#include <string_view>

#include "support/expect_error.hpp"
#include "trunkline/error.hpp"

namespace trunkline {
namespace {

using testing::expect_error;

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

MachineProfile sample() {
  MachineProfile profile = generic_cpu_profile(3);
  profile.name = "a machine, \"quoted\"";
  profile.device = Device::kCuda;
  profile.read_bytes_per_us = 4.67e6;
  profile.cache_bytes_per_us = 7.9e6;
  profile.worker_read_bytes_per_us = 6e4;
  profile.latency_us = 0.1 + 0.2;  // has no short decimal form
  profile.tiles = {{16, 32}, {128, 64}};
  profile.tile_steps = {{0, 32}, {128, 64}};
  profile.cost_table = {128, {1, 64}, {64, 256}, {0.5, 1.5, 2.25, 1.0 / 3}};
  profile.gpu = {132, 233472, 232448, 65536, 255, 2048, 32};
  return profile;
}

FigureSources sample_sources() {
  FigureSources sources;
  for (const char* name : {"workers",
                           "read_bytes_per_us",
                           "flops_per_us",
                           "cache_bytes_per_us",
                           "worker_read_bytes_per_us",
                           "latency_us",
                           "launch_us",
                           "fill_us",
                           "item_us",
                           "cut_us",
                           "partial_us_per_kib",
                           "memory_overlap",
                           "flop_efficiency",
                           "narrow_rows",
                           "row_quantum",
                           "half_rows",
                           "llc_bytes",
                           "tiles",
                           "tile_steps",
                           "cost_table",
                           "padding.alpha",
                           "padding.beta",
                           "padding.gamma",
                           "gpu.sms",
                           "gpu.shared_bytes_per_sm",
                           "gpu.shared_bytes_per_cta",
                           "gpu.registers_per_sm",
                           "gpu.registers_per_thread",
                           "gpu.threads_per_sm",
                           "gpu.ctas_per_sm"}) {
    sources[name] = std::string("source of ") + name;
  }
  return sources;
}

std::string sample_text() {
  return profile_to_json(sample(), sample_sources());
}

TEST(ProfileFile, GivesBackWhatWasWritten) {
  FigureSources sources;
  const MachineProfile profile = parse_profile(sample_text(), "f.json", &sources);
  EXPECT_EQ(sources, sample_sources());
  EXPECT_EQ(profile_to_json(profile, sources), sample_text());
  EXPECT_EQ(profile.name, sample().name);
  EXPECT_EQ(profile.device, Device::kCuda);
  EXPECT_EQ(profile.workers, 3);
  EXPECT_EQ(profile.latency_us, 0.1 + 0.2);
  EXPECT_EQ(profile.tiles, sample().tiles);
  EXPECT_EQ(profile.tile_steps, sample().tile_steps);
  EXPECT_EQ(profile.cost_table.us, sample().cost_table.us);
  EXPECT_EQ(profile.cost_table.rows, sample().cost_table.rows);
  EXPECT_EQ(profile.padding.beta, sample().padding.beta);
  EXPECT_EQ(profile.gpu.shared_bytes_per_cta, 232448);
}

TEST(ProfileFile, StepsTableAndLimitsOfACpuMayBeAbsent) {
  MachineProfile cpu = generic_cpu_profile(2);
  const MachineProfile profile = parse_profile(profile_to_json(cpu, sample_sources()), "f.json");
  EXPECT_TRUE(profile.tile_steps.empty());
  EXPECT_TRUE(profile.cost_table.rows.empty());
  EXPECT_EQ(profile.gpu.sms, 0);
}

TEST(ProfileFile, OptionalFiguresHaveDefaults) {
  ASSERT_EQ(sample_text().find("slice_tokens"), std::string::npos);
  const MachineProfile profile = parse_profile(sample_text(), "f.json");
  EXPECT_EQ(profile.half_change_us, 0.15);
  EXPECT_EQ(profile.half_chunk_tokens, 128);
  EXPECT_EQ(profile.common_chunk_tokens, 64);
  EXPECT_EQ(profile.slice_tokens, 16);
  EXPECT_EQ(profile.slice_alignment, 8);
}

TEST(ProfileFile, OptionalFiguresAreReadAndWritten) {
  MachineProfile given = sample();
  given.slice_tokens = 32;
  FigureSources sources = sample_sources();
  expect_error(ErrorCode::kInvalidArgument, "sources has none for slice_tokens",
               [&] { profile_to_json(given, sources); });
  sources["slice_tokens"] = "source of slice_tokens";
  FigureSources found;
  const std::string text = profile_to_json(given, sources);
  EXPECT_EQ(parse_profile(text, "f.json", &found).slice_tokens, 32);
  EXPECT_EQ(found, sources);
  expect_error(ErrorCode::kParse, "f.json: slice_tokens is 48; supported are powers of two from 1 to 64", [&] {
    parse_profile(replaced(text, "\"slice_tokens\": {\"value\":32", "\"slice_tokens\": {\"value\":48"), "f.json");
  });
}

TEST(ProfileFile, IsNotWrittenWithoutSourcesOrWithBadFigures) {
  FigureSources sources = sample_sources();
  sources.erase("gpu.sms");
  expect_error(ErrorCode::kInvalidArgument, "sources has none for gpu.sms",
               [&] { profile_to_json(sample(), sources); });
  MachineProfile bad = sample();
  bad.item_us = -1;
  expect_error(ErrorCode::kInvalidArgument, "profile.item_us is -1", [&] { profile_to_json(bad, sample_sources()); });
}

TEST(ProfileFile, UnreadableFilesAreNamed) {
  expect_error(ErrorCode::kIo, "/nowhere/h200.json: cannot be opened", [] { load_profile("/nowhere/h200.json"); });
  expect_error(ErrorCode::kIo, "is a directory", [] { load_profile("/"); });
}

struct Fault {
  std::string name;
  std::string what;     // in the sample's text
  std::string by;       // what stands there instead
  std::string message;  // after the file's name
};

void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

class ProfileFileFaults : public ::testing::TestWithParam<Fault> {};

TEST_P(ProfileFileFaults, AreNamed) {
  const Fault& fault = GetParam();
  const std::string text = replaced(sample_text(), fault.what, fault.by);
  expect_error(ErrorCode::kParse, "f.json: " + fault.message, [&] { parse_profile(text, "f.json"); });
}

const std::string kLaunch = R"("launch_us": {"value":3.0,"source":"source of launch_us"})";

INSTANTIATE_TEST_SUITE_P(
    Each, ProfileFileFaults,
    ::testing::Values(
        Fault{"missing", "\"launch_us\"", "\"Launch_us\"", "field \"Launch_us\" is unknown; known are name, device"},
        Fault{"left_out", kLaunch + ",\n", "", "field \"launch_us\" is missing; {\"value\": ..., \"source\""},
        Fault{"negative", "\"value\":3.0", "\"value\":-3.5", "launch_us is -3.5; it must be >= 0"},
        Fault{"zero_rate", "\"value\":4670000.0", "\"value\":0", "read_bytes_per_us is 0; it must be > 0"},
        Fault{"nan", "\"value\":3.0", "\"value\":NaN", "not JSON at line 10, column"},
        Fault{"too_large", "\"value\":3.0", "\"value\":1e999", "number overflow"},
        Fault{"text_for_number", "\"value\":3.0", "\"value\":\"3\"", "launch_us is \"3\"; a number is needed"},
        Fault{"null_for_number", "\"value\":3.0", "\"value\":null", "launch_us is null; a number is needed"},
        Fault{"bare_number", kLaunch, "\"launch_us\": 3", "launch_us is 3; {\"value\": ..., \"source\": \"...\"} is"},
        Fault{"no_value", "\"value\":3.0,", "", "field \"launch_us.value\" is missing"},
        Fault{"no_source", ",\"source\":\"source of launch_us\"", "", "field \"launch_us.source\" is missing"},
        Fault{"empty_source", "source of launch_us", "", "launch_us.source is \"\"; a text that says where"},
        Fault{"number_source", "\"source of launch_us\"", "7", "launch_us.source is 7; a text that says where"},
        Fault{"extra_in_figure", "\"value\":3.0", "\"value\":3.0,\"unit\":\"us\"",
              "field \"launch_us.unit\" is unknown; known are value, source"},
        Fault{"fraction_of_a_worker", "\"value\":3,", "\"value\":3.5,", "workers is 3.5; an integer is needed"},
        Fault{"too_many_workers", "\"value\":3,", "\"value\":2147483648,",
              "workers is 2147483648; at most 2147483647 is supported"},
        Fault{"below_32_bits", "\"value\":3,", "\"value\":-2147483649,", "workers is -2147483649; at most"},
        Fault{"huge_bytes", "\"value\":233472", "\"value\":18446744073709551615",
              "gpu.shared_bytes_per_sm is 18446744073709551615; at most 9223372036854775807"},
        Fault{"negative_limit", "\"value\":132", "\"value\":-132", "gpu.sms is -132; it must be >= 0"},
        Fault{"missing_limit", "\"sms\"", "\"smx\"", "field \"gpu.smx\" is unknown; known are sms"},
        Fault{"no_gpu", "\"gpu\": {", "\"x\": {", "field \"x\" is unknown"},
        Fault{"gpu_number", "\"padding\": {", "\"padding\": 3, \"gpu\": {", "key \"gpu\" appears twice"},
        Fault{"twice", "\"fill_us\"", "\"launch_us\"", "key \"launch_us\" appears twice"},
        Fault{"device", "\"device\": \"cuda\"", "\"device\": \"tpu\"", "device is \"tpu\"; supported: cpu, cuda"},
        Fault{"device_number", "\"device\": \"cuda\"", "\"device\": 1", "device is 1; a text is needed"},
        Fault{"no_tiles", "[[16,32],[128,64]]", "[]", "tiles is empty; planning needs at least one tile"},
        Fault{"tiles_number", "[[16,32],[128,64]]", "64", "tiles is 64; an array of [m, n] is needed"},
        Fault{"tile_of_one", "[128,64]", "[128]", "tiles[1] is [128]; [m, n] is needed"},
        Fault{"tile_text", "[128,64]", "[128,\"64\"]", "tiles[1][1] is \"64\"; an integer is needed"},
        Fault{"tile_zero", "[128,64]", "[0,64]", "tiles[1] is 0 x 64; both must be from 1 to 4096"},
        Fault{"step_order", "[[0,32],[128,64]]", "[[0,32],[100,64]]", "tile_steps[1] is from 100 tokens on n = 64"},
        Fault{"table_shape", "[2.25,", "[", "cost_table.value.us[1] is ["},
        Fault{"table_rows", "\"rows\":[1,64]", "\"rows\":[64,1]", "cost_table.rows[1] is 1; they must be >= 1"},
        Fault{"table_part", "\"head_dim\"", "\"dim\"", "field \"cost_table.value.dim\" is unknown; known are head_dim"},
        Fault{"table_negative", "2.25", "-2.25", "cost_table.us[1][0] is -2.25; times must be > 0"},
        Fault{"deep", "\"value\":3.0", "\"value\":[[[[[[[[[[1]]]]]]]]]]", "nested more than 8 deep"},
        Fault{"comma", "\"launch_us\": {", "\"launch_us\" {", "not JSON at line 10, column"},
        Fault{"tail", "\n}\n", "\n}\n[]", "not JSON at line"}),
    [](const auto& each) { return each.param.name; });

// The parser takes a NUL byte for the end.
TEST(ProfileFile, TextBehindANulByteIsRefused) {
  const std::string text = sample_text();
  const auto lines = std::count(text.begin(), text.end(), '\n');
  for (const std::string& tail : {std::string("\0", 1), std::string("\0{\"more\":1}", 11)}) {
    expect_error(ErrorCode::kParse, "f.json: not JSON at line " + std::to_string(lines + 1) + ", column 1: a NUL byte",
                 [&] { parse_profile(text + tail, "f.json"); });
  }
}

TEST(ProfileFile, OtherTextsAreRefused) {
  for (const char* text :
       {"", "[]", "3", "null", "\"profile\"", "{}", "{\"name\":\"x\"}", "\xff\xfe", "{\"name\":\"\xff\"}"}) {
    SCOPED_TRACE(text);
    expect_error(ErrorCode::kParse, "f.json: ", [&] { parse_profile(text, "f.json"); });
  }
}

}  // namespace
}  // namespace trunkline
