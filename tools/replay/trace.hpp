// A trace of requests or of searches, whatever file it came from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "synthetic/decoding_tree.hpp"

namespace trunkline::replay {

/// Blocks of a prompt, one after another: the i-th is block `first + i` among those of `space`. Blocks with equal space
/// and id hold the same tokens after the same tokens.
struct BlockRun {
  std::uint64_t space = 0;
  std::int64_t first = 0;
  std::int32_t count = 0;
};

struct TraceRequest {
  double arrival_s = 0;     ///< since the begin of the trace, or of the request's session
  std::int32_t after = -1;  ///< an earlier request of the session that must have ended, as the turn before; -1: none
  std::int32_t input_tokens = 0;
  std::int32_t output_tokens = 0;  ///< the first of them comes from the prompt's last chunk
  std::vector<BlockRun> blocks;    ///< of the prompt's first tokens; what they do not cover is nobody else's
};

/// Requests that begin together: a conversation, an agent and its helpers, or one request alone.
struct TraceSession {
  double begin_s = 0;  ///< where Trace::recorded
  std::int32_t first = 0;
  std::int32_t count = 0;  ///< requests, side by side in Trace::requests
};

struct Trace {
  std::string name;     ///< the file's
  std::string format;   ///< as in the table of formats
  std::string caution;  ///< what is assumed where the source is silent; may be empty
  std::int32_t block_tokens = 0;
  std::vector<TraceRequest> requests;
  std::vector<TraceSession> sessions;
  std::vector<DecodingTree> trees;  ///< searches; then requests and sessions are empty
  bool recorded = false;            ///< sessions have a recorded begin
  std::int32_t side_by_side = 1;    ///< sessions or trees that are live at once, unless an option sets it

  bool searches() const { return !trees.empty(); }
  std::int32_t size() const { return static_cast<std::int32_t>(searches() ? trees.size() : sessions.size()); }
};

/// Adds a request that is a session by itself.
void add_single(Trace& trace, TraceRequest request);

/// Token ids of the prompt's tokens that blocks cover: hashes of space, block and token, as traces do not have the real
/// ones. Equal blocks have equal ids.
std::vector<std::int32_t> prompt_token_ids(const TraceRequest& request, std::int32_t block_tokens);

/// Appends a block of a list of ids to runs.
void add_block(std::vector<BlockRun>& runs, std::uint64_t space, std::int64_t id);

}  // namespace trunkline::replay
