#include "replay/formats/format_table.hpp"

#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>

#include "base/check.hpp"
#include "base/text_file.hpp"
#include "replay/formats/formats.hpp"

namespace trunkline::replay {
namespace {

constexpr std::array<TraceFormat, 5> kFormats = {{
    {"mooncake", "requests with ids of 512-token blocks, JSON lines", "\"hash_ids\"", read_mooncake},
    {"azure", "arrivals and lengths, CSV, nothing shared", "TIMESTAMP,", read_azure},
    {"weka", "agentic sessions with runs of 64-token blocks, JSON lines", "\"reqs\"", read_weka},
    {"lmcache", "agents' requests with runs of 64-byte blocks, JSON lines", "\"hash_runs\"", read_lmcache},
    {"reasoning", "search trees with branch and prune records, JSON lines", "\"nodes\"", read_reasoning},
}};

std::string names() {
  std::string list;
  for (const TraceFormat& format : kFormats) list += (list.empty() ? "" : ", ") + std::string(format.name);
  return list;
}

const TraceFormat& named_format(std::string_view name) {
  const auto found =
      std::find_if(kFormats.begin(), kFormats.end(), [&](const TraceFormat& format) { return format.name == name; });
  if (found == kFormats.end()) {
    fail(ErrorCode::kInvalidArgument, "--format is \"", name, "\"; supported: ", names());
  }
  return *found;
}

const TraceFormat& recognised_format(std::string_view text, const std::string& name) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  const std::string_view rest = begin == std::string_view::npos ? std::string_view() : text.substr(begin);
  const std::string_view line = rest.substr(0, rest.find('\n'));
  const auto found = std::find_if(kFormats.begin(), kFormats.end(), [&](const TraceFormat& format) {
    return line.find(format.mark) != std::string_view::npos;
  });
  if (found == kFormats.end()) {
    fail(ErrorCode::kParse, name, ":1: ", line.empty() ? "the file is empty" : "the line is of no known trace format",
         "; --format names one of ", names());
  }
  return *found;
}

}  // namespace

std::span<const TraceFormat> trace_formats() {
  return kFormats;
}

Trace load_trace(const std::string& path, std::string_view format, std::size_t limit) {
  if (!format.empty()) named_format(format);  // a name that is wrong is, whatever the file
  const std::string text = read_text_file(path);
  const TraceFormat& chosen = format.empty() ? recognised_format(text, path) : named_format(format);
  Trace trace = chosen.read(text, path, limit);
  trace.name = path;
  trace.format = chosen.name;
  return trace;
}

std::int64_t read_runs(const nlohmann::json& runs, std::uint64_t space, const LinePlace& place, const std::string& what,
                       std::vector<BlockRun>& blocks) {
  if (!runs.is_array()) fail_at(place, what, " is ", shown(runs), "; an array of [first id, count] is needed");
  std::int64_t total = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto named = [&](const char* part) { return concat(what, "[", i, "]", part); };
    if (!runs[i].is_array() || runs[i].size() != 2) {
      fail_at(place, named(""), " is ", shown(runs[i]), "; [first id, count] is needed");
    }
    BlockRun run{space, 0, 0};
    run.first = integer_in(
        runs[i][0], 0, INT32_MAX, place, [&] { return named("[0]"); }, "an id from 0 to 2^31 - 1 is needed");
    run.count = integer_in(
        runs[i][1], 1, kMaxTokens, place, [&] { return named("[1]"); }, "a count from 1 to 2^30 is needed");
    total += run.count;
    blocks.push_back(run);
  }
  return total;
}

void check_blocks(std::int64_t blocks, std::int32_t block_tokens, std::int32_t input_tokens, const LinePlace& place,
                  const std::string& what) {
  if (blocks * block_tokens <= input_tokens) return;
  fail_at(place, what, " has ", blocks, " blocks of ", block_tokens, " tokens; the prompt has ", input_tokens,
          " tokens");
}

void check_order(double before, double now, const LinePlace& place, const std::string& what) {
  if (now >= before) return;
  std::ostringstream text;
  text << std::setprecision(12) << what << " is " << now << ", before the " << before;
  fail_at(place, text.str(), " that comes ahead of it; times must not fall");
}

}  // namespace trunkline::replay
