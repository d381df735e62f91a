// Any bytes as a trace of any format: each reader refuses them with an Error that names the file, or gives a trace that
// can be served.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_file.hpp"
#include "replay/formats/format_table.hpp"
#include "trunkline/error.hpp"

namespace trunkline::replay {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

void check_request(const Trace& trace, const TraceRequest& request) {
  require(request.arrival_s >= 0 && request.input_tokens >= 1 && request.output_tokens >= 0, "amounts");
  constexpr std::int32_t kFewTokens = 1 << 16;
  if (request.input_tokens > kFewTokens) return;
  const std::vector<std::int32_t> ids = prompt_token_ids(request, trace.block_tokens);
  require(ids.size() <= static_cast<std::size_t>(request.input_tokens), "ids of the prompt alone");
}

void check_trace(const Trace& trace) {
  require(trace.size() > 0, "something to serve");
  std::int32_t next = 0;
  for (const TraceSession& session : trace.sessions) {
    require(session.first == next && session.count > 0, "sessions side by side");
    for (std::int32_t i = session.first; i < session.first + session.count; ++i) {
      const std::int32_t after = trace.requests[static_cast<std::size_t>(i)].after;
      require(after == -1 || (session.first <= after && after < i), "a turn follows on an earlier one of its session");
    }
    next += session.count;
  }
  require(static_cast<std::size_t>(next) == trace.requests.size(), "requests in sessions");
  for (const TraceRequest& request : trace.requests) check_request(trace, request);
  for (const DecodingTree& tree : trace.trees) require(tree.last[0] == 0, "node 0 is the prompt");
}

}  // namespace
}  // namespace trunkline::replay

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  for (const trunkline::replay::TraceFormat& format : trunkline::replay::trace_formats()) {
    try {
      trunkline::replay::check_trace(format.read(text, "fuzz", trunkline::kAllLines));
      trunkline::replay::require(text.find('\0') == std::string::npos, "nothing is read past a NUL byte");
    } catch (const trunkline::Error& error) {
      trunkline::replay::require(std::string_view(error.what()).starts_with("fuzz:"), "the message names the file");
    }
  }
  return 0;
}
