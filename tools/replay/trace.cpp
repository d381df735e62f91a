#include "replay/trace.hpp"

#include <algorithm>
#include <utility>

#include "base/random.hpp"

namespace trunkline::replay {

void add_single(Trace& trace, TraceRequest request) {
  const auto index = static_cast<std::int32_t>(trace.requests.size());
  trace.sessions.push_back({request.arrival_s, index, 1});
  request.arrival_s = 0;
  trace.requests.push_back(std::move(request));
}

std::vector<std::int32_t> prompt_token_ids(const TraceRequest& request, std::int32_t block_tokens) {
  std::vector<std::int32_t> ids;
  for (const BlockRun& run : request.blocks) {
    for (std::int32_t i = 0; i < run.count; ++i) {
      RandomBits bits(mix_bits(run.space + mix_bits(static_cast<std::uint64_t>(run.first + i))));
      for (std::int32_t token = 0; token < block_tokens; ++token) {
        if (ids.size() == static_cast<std::size_t>(request.input_tokens)) return ids;
        ids.push_back(static_cast<std::int32_t>(bits.next() >> 33));
      }
    }
  }
  return ids;
}

void add_block(std::vector<BlockRun>& runs, std::uint64_t space, std::int64_t id) {
  if (!runs.empty() && runs.back().space == space && runs.back().first + runs.back().count == id) {
    ++runs.back().count;
  } else {
    runs.push_back({space, id, 1});
  }
}

}  // namespace trunkline::replay
