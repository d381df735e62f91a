// The readers of trace formats, one file each, and what they have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/json_lines.hpp"
#include "replay/formats/format_table.hpp"
#include "replay/trace.hpp"

namespace trunkline::replay {

Trace read_mooncake(std::string_view text, const std::string& name, std::size_t limit);
Trace read_azure(std::string_view text, const std::string& name, std::size_t limit);
Trace read_weka(std::string_view text, const std::string& name, std::size_t limit);
Trace read_lmcache(std::string_view text, const std::string& name, std::size_t limit);
Trace read_reasoning(std::string_view text, const std::string& name, std::size_t limit);

/// A request may be so long: lengths of 2^31 - 1 tokens are for nobody to serve, and sums of two still fit.
inline constexpr std::int64_t kMaxTokens = std::int64_t{1} << 30;
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
