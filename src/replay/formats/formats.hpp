// The readers of trace formats, one file each, and the table of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/json_lines.hpp"
#include "replay/trace.hpp"

namespace trunkline::replay {

/// Reads at most `limit` requests, sessions or trees. \param name for messages, `name:line: ...`
/// \throws Error(kParse) naming line, field and value of the first fault.
using TraceReader = Trace (*)(std::string_view text, const std::string& name, std::size_t limit);

struct TraceFormat {
  std::string_view name;
  std::string_view holds;  ///< what it is, for people
  std::string_view mark;   ///< what the first line of such a file has, and no other format's
  TraceReader read;
};

/// All of them. A new format is one file and one row.
std::span<const TraceFormat> trace_formats();

/// Reads a trace. \param format a name of the table; empty: the one whose mark the first line has
/// \throws Error(kIo) when the file cannot be read, Error(kInvalidArgument) on an unknown format, Error(kParse) when no
/// format is recognised, and as TraceReader.
Trace load_trace(const std::string& path, std::string_view format, std::size_t limit);

Trace read_mooncake(std::string_view text, const std::string& name, std::size_t limit);
Trace read_azure(std::string_view text, const std::string& name, std::size_t limit);
Trace read_weka(std::string_view text, const std::string& name, std::size_t limit);
Trace read_lmcache(std::string_view text, const std::string& name, std::size_t limit);
Trace read_reasoning(std::string_view text, const std::string& name, std::size_t limit);

/// A request may be so long: lengths of 2^31 - 1 tokens are for nobody to serve, and sums of two still fit.
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;
inline constexpr const char* kInputMeaning = "an integer from 1 to 2^30 is needed";
inline constexpr const char* kOutputMeaning = "an integer from 0 to 2^30 is needed";

/// `[[first id, count], ...]`, added to the runs of a request. \return the blocks that they have
std::int64_t read_runs(const nlohmann::json& runs, std::uint64_t space, const LinePlace& place, const std::string& what,
                       std::vector<BlockRun>& blocks);

/// \throws Error(kParse) unless the blocks of so many tokens lie within the prompt.
void check_blocks(std::int64_t blocks, std::int32_t block_tokens, std::int32_t input_tokens, const LinePlace& place,
                  const std::string& what);

/// \throws Error(kParse) where a time comes before the one of the line before.
void check_order(double before, double now, const LinePlace& place, const std::string& what);

}  // namespace trunkline::replay
