// The trace formats that are known.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

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

}  // namespace trunkline::replay
