#include "replay/pat_style.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.hpp"

namespace trunkline::replay {
namespace {

bool is_kept(const TraceRequest& request, const PatStyle& style) {
  const bool root_zero = !request.blocks.empty() && request.blocks.front().first == 0;
  return !(style.drop_root_zero && root_zero) && request.input_tokens <= style.max_tokens - style.output_tokens;
}

// Leaves the first `blocks` of them.
void keep_blocks(std::vector<BlockRun>& runs, std::int64_t blocks) {
  std::vector<BlockRun> kept;
  for (BlockRun run : runs) {
    run.count = static_cast<std::int32_t>(std::min<std::int64_t>(run.count, blocks));
    if (run.count > 0) kept.push_back(run);
    blocks -= run.count;
  }
  runs = std::move(kept);
}

}  // namespace

void apply_pat_style(Trace& trace, const PatStyle& style) {
  if (trace.block_tokens == 0 || !trace.recorded || trace.searches()) {
    fail(ErrorCode::kInvalidArgument, "--pat-style needs a trace of single requests with ids of blocks, as mooncake; ",
         trace.name, " is of format ", trace.format);
  }
  const std::vector<TraceRequest> all = std::exchange(trace.requests, {});
  const std::vector<TraceSession> sessions = std::exchange(trace.sessions, {});
  for (const TraceSession& session : sessions) {
    TraceRequest request = all[static_cast<std::size_t>(session.first)];
    if (!is_kept(request, style)) continue;
    request.arrival_s = session.begin_s;
    request.output_tokens = style.output_tokens;
    keep_blocks(request.blocks, request.input_tokens / trace.block_tokens);
    add_single(trace, std::move(request));
  }
  if (trace.requests.empty()) {
    fail(ErrorCode::kInvalidArgument, "--pat-style leaves none of the ", all.size(), " requests of ", trace.name,
         "; --pat-max-tokens is ", style.max_tokens);
  }
}

}  // namespace trunkline::replay
