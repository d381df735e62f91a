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

void page_keys(const TraceRequest& request, std::int32_t block_tokens, std::int32_t page_size,
               std::vector<std::uint64_t>& keys) {
  keys.clear();
  std::uint64_t prefix = 0;
  std::int64_t block_end = 0;
  std::int64_t page_end = page_size;
  for (const BlockRun& run : request.blocks) {
    for (std::int32_t i = 0; i < run.count; ++i) {
      prefix = mix_bits(prefix + mix_bits(run.space + mix_bits(static_cast<std::uint64_t>(run.first + i))));
      block_end = std::min<std::int64_t>(block_end + block_tokens, request.input_tokens);
      for (; page_end <= block_end; page_end += page_size) {
        keys.push_back(mix_bits(prefix + static_cast<std::uint64_t>(page_end)));
      }
    }
  }
}

void add_block(std::vector<BlockRun>& runs, std::uint64_t space, std::int64_t id) {
  if (!runs.empty() && runs.back().space == space && runs.back().first + runs.back().count == id) {
    ++runs.back().count;
  } else {
    runs.push_back({space, id, 1});
  }
}

}  // namespace trunkline::replay
