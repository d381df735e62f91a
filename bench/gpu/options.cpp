#include "gpu/options.hpp"

#include <charconv>
#include <cstddef>
#include <memory>
#include <string_view>

#include "base/check.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::gpu_bench {

const char* const kUsage =
    R"(gpu_bench [OPTION ...] SUITE ... > rows.jsonl
Decode attention on a GPU: each case is checked against plain attention first, then timed with cold caches. Prints one
JSON object for each case and method, with the floor and the times of published kernels.

  --data DIR          the repository's data folder (data)
  --recorded FILE     times of published kernels, bench/recorded/h200.json
  --heads HQ/HKV      only cases of these heads
  --case NAME         only cases of this name; may be given again
  --dtype f16|bf16    of Q, and of K and V (f16)
  --kv-dtype TYPE     of K and V, f8_e4m3 or f8_e5m2 (that of --dtype)
  --soft-cap X        bound of the logits; 0: none (0)
  --sinks on|off      a sink of 1 for each query head (off)
  --head-dim D        of Q, K and V (128)
  --page-size N       in place of a suite's page sizes
  --as HQ/HKV         each tree once, with these heads in place of the suite's
  --pages ORDER       consecutive, as the recorded runs had them (the default), or shuffled, as ragged always is
  --repeat N          timed replays (25)
  --threads N         for making tensors and checking (8)
  --seconds N         stop after the case during which N seconds have passed
  --once              one run of each case between cudaProfilerStart and Stop; not checked, not timed
  --list              print the cases and stop; needs no GPU

How to plan and run, for suites that do not bring methods of their own:
  --policy NAME  --split NAME  --tile MxN  --profit-cost memory|compute  --phases on|off
  --mode persistent|streams|serial  --merge separate|fused

--kernels auto|portable|hopper    of all methods (auto)
)";

namespace {

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

int parse_count(const std::string& option, const std::string& value) {
  int count = 0;
  if (!read_number(value, count) || count < 1) {
    fail(ErrorCode::kInvalidArgument, option, " is '", value, "'; an integer >= 1 is needed");
  }
  return count;
}

double parse_seconds(const std::string& option, const std::string& value) {
  double seconds = 0;
  if (!read_number(value, seconds) || !(seconds > 0)) {
    fail(ErrorCode::kInvalidArgument, option, " is '", value, "'; a number > 0 is needed");
  }
  return seconds;
}

TileShape parse_tile(const std::string& value) {
  TileShape tile;
  const std::size_t cross = value.find('x');
  const std::string_view text = value;
  if (cross == std::string::npos || !read_number(text.substr(0, cross), tile.m) ||
      !read_number(text.substr(cross + 1), tile.n)) {
    fail(ErrorCode::kInvalidArgument, "--tile is '", value, "'; rows x tokens are needed, as in 64x64");
  }
  return tile;
}

void parse_heads(const std::string& value, GivenShape& shape) {
  const std::size_t slash = value.find('/');
  const std::string_view text = value;
  if (slash == std::string::npos || !read_number(text.substr(0, slash), shape.q_heads) ||
      !read_number(text.substr(slash + 1), shape.kv_heads) || shape.kv_heads < 1 || shape.q_heads < shape.kv_heads) {
    fail(ErrorCode::kInvalidArgument, "--as is '", value, "'; query heads / KV heads are needed, as in 32/8");
  }
}

DType parse_dtype(const std::string& value) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    if (value == name_of(dtype)) return dtype;
  }
  fail(ErrorCode::kInvalidArgument, "--dtype is '", value, "'; known are f16, bf16");
}

DType parse_kv_dtype(const std::string& value) {
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    if (value == name_of(dtype)) return dtype;
  }
  fail(ErrorCode::kInvalidArgument, "--kv-dtype is '", value, "'; known are f8_e4m3, f8_e5m2");
}

float parse_cap(const std::string& option, const std::string& value) {
  double cap = 0;
  if (!read_number(value, cap) || !(cap >= 0)) {
    fail(ErrorCode::kInvalidArgument, option, " is '", value, "'; a number >= 0 is needed");
  }
  return static_cast<float>(cap);
}

PageOrder parse_order(const std::string& value) {
  if (value == "consecutive") return PageOrder::kConsecutive;
  if (value == "shuffled") return PageOrder::kShuffled;
  fail(ErrorCode::kInvalidArgument, "--pages is '", value, "'; known are consecutive, shuffled");
}

bool parse_switch(const std::string& option, const std::string& value) {
  if (value != "on" && value != "off") {
    fail(ErrorCode::kInvalidArgument, option, " is '", value, "'; known are on, off");
  }
  return value == "on";
}

/// \return whether the option is one of planning and running.
bool read_method(const std::string& option, const std::string& value, Method& method) {
  const auto& given = method.plan.policies.study;
  experimental::PolicyStudy study = given == nullptr ? experimental::PolicyStudy{} : *given;
  if (option == "--policy") {
    method.plan.policy = policy_from_name(value);
  } else if (option == "--split") {
    method.plan.split = split_from_name(value);
  } else if (option == "--tile") {
    method.plan.tile = parse_tile(value);
  } else if (option == "--profit-cost") {
    study.profit_cost = experimental::profit_cost_from_name(value);
  } else if (option == "--phases") {
    study.greedy_phases = parse_switch(option, value);
  } else if (option == "--mode") {
    method.launch.forward = experimental::forward_mode_from_name(value);
  } else if (option == "--merge") {
    method.launch.merge = merge_mode_from_name(value);
  } else {
    return false;
  }
  method.plan.policies.study = std::make_shared<experimental::PolicyStudy>(study);
  method.name += concat(method.name.empty() ? "" : ", ", option.substr(2), " ", value);
  return true;
}

void read_value(const std::string& option, const std::string& value, Options& options) {
  if (option == "--data") {
    options.data = value;
  } else if (option == "--recorded") {
    options.recorded = value;
  } else if (option == "--heads") {
    options.heads = value;
  } else if (option == "--case") {
    options.cases.push_back(value);
  } else if (option == "--dtype") {
    options.shape.dtype = parse_dtype(value);
  } else if (option == "--kv-dtype") {
    options.shape.kv_dtype = parse_kv_dtype(value);
  } else if (option == "--soft-cap") {
    options.soft_cap = parse_cap(option, value);
  } else if (option == "--sinks") {
    options.sinks = parse_switch(option, value);
  } else if (option == "--head-dim") {
    options.shape.head_dim = parse_count(option, value);
  } else if (option == "--page-size") {
    options.shape.page_size = parse_count(option, value);
  } else if (option == "--as") {
    parse_heads(value, options.shape);
  } else if (option == "--pages") {
    options.pages = parse_order(value);
  } else if (option == "--repeat") {
    options.repeat = parse_count(option, value);
  } else if (option == "--threads") {
    options.threads = parse_count(option, value);
  } else if (option == "--seconds") {
    options.seconds = parse_seconds(option, value);
  } else if (option == "--kernels") {
    options.kernels = cuda_kernels_from_name(value);
  } else if (read_method(option, value, options.method)) {
    options.method_given = true;
  } else {
    fail(ErrorCode::kInvalidArgument, "unknown option ", option, "; --help lists them");
  }
}

}  // namespace

Options parse_options(std::span<const char* const> words) {
  Options options;
  options.method.name.clear();
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    if (word.rfind("--", 0) != 0) {
      options.suites.push_back(word);
    } else if (word == "--once") {
      options.once = true;
    } else if (word == "--list") {
      options.list = true;
    } else if (i + 1 == words.size()) {
      fail(ErrorCode::kInvalidArgument, word, " needs a value");
    } else {
      read_value(word, words[++i], options);
    }
  }
  if (!options.method_given) options.method.name = "default";
  if (options.suites.empty()) fail(ErrorCode::kInvalidArgument, "no suite is given; --help lists the options");
  return options;
}

}  // namespace trunkline::gpu_bench
