// Agentic sessions (kv-cache-tester, re-encoded): {"id", "tool_tokens", "system_tokens", "reqs": [[t, input, output,
// api time or null, agent, runs], ...]}, with runs of 64-token blocks whose ids hold within the session.
#include <algorithm>
#include <map>
#include <utility>

#include "base/random.hpp"
#include "replay/formats/formats.hpp"

namespace trunkline::replay {
namespace {

constexpr std::int32_t kBlockTokens = 64;
constexpr std::int32_t kSideBySide = 24;
constexpr std::size_t kColumns = 6;

struct Session {
  std::vector<TraceRequest> requests;
  // Tools and system prompt: the blocks that lie in them as a whole, with the ids of the session's first request; and a
  // space that is the same for all sessions with these tools and this system prompt.
  std::int64_t head_first = 0;
  std::int64_t head_blocks = 0;
  std::uint64_t head_space = 0;
};

// The part of a prompt that is the session's head gets ids that other sessions have too: the i-th block of these tools
// and this system prompt is the same block. What comes after it stays the session's own.
void share_head(const Session& session, std::vector<BlockRun>& blocks) {
  std::vector<BlockRun> result;
  std::int64_t at = 0;
  bool same = true;
  for (const BlockRun& run : blocks) {
    const bool in_head = same && at < session.head_blocks && session.head_first + at == run.first;
    const std::int64_t shared = in_head ? std::min<std::int64_t>(run.count, session.head_blocks - at) : 0;
    if (shared > 0) result.push_back({session.head_space, at, static_cast<std::int32_t>(shared)});
    if (shared < run.count) {
      result.push_back({run.space, run.first + shared, run.count - static_cast<std::int32_t>(shared)});
      same = false;
    }
    at += run.count;
  }
  blocks = std::move(result);
}

TraceRequest read_request(const nlohmann::json& row, std::size_t index, const LinePlace& place, std::uint64_t space) {
  const auto named = [&](std::size_t column) { return concat("reqs[", index, "][", column, "]"); };
  if (!row.is_array() || row.size() != kColumns) {
    fail_at(place, "reqs[", index, "] is ", shown(row),
            "; [t, input, output, api time or null, agent, runs] is needed");
  }
  TraceRequest request;
  request.arrival_s = amount_in(
      row[0], place, [&] { return named(0); }, "seconds from 0 to 1e12 are needed");
  request.input_tokens = integer_in(
      row[1], 1, kMaxTokens, place, [&] { return named(1); }, kInputMeaning);
  request.output_tokens = integer_in(
      row[2], 0, kMaxTokens, place, [&] { return named(2); }, kOutputMeaning);
  check_blocks(read_runs(row[5], space, place, named(5), request.blocks), kBlockTokens, request.input_tokens, place,
               named(5));
  return request;
}

// Each request follows on the one before of the same agent.
void read_requests(const nlohmann::json& rows, const LinePlace& place, std::uint64_t space, Session& session) {
  std::map<std::int32_t, std::int32_t> last_of_agent;
  double before = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    TraceRequest request = read_request(rows[i], i, place, space);
    check_order(before, request.arrival_s, place, concat("reqs[", i, "][0]"));
    before = request.arrival_s;
    const std::int32_t agent = integer_in(
        rows[i][4], 0, INT32_MAX, place, [&] { return concat("reqs[", i, "][4]"); }, "an agent is 0 or more");
    const auto [last, first_of_agent] = last_of_agent.try_emplace(agent, -1);
    request.after = last->second;
    last->second = static_cast<std::int32_t>(i);
    session.requests.push_back(std::move(request));
  }
}

Session read_session(std::string_view line, const LinePlace& place) {
  const nlohmann::json object = parse_object(line, place);
  Session session;
  const auto tokens = [&](const char* field) {
    return integer_field(object, field, 0, kMaxTokens, place, kOutputMeaning);
  };
  const std::int32_t tools = tokens("tool_tokens");
  const std::int32_t system = tokens("system_tokens");
  // Spaces of sessions and of heads differ in the lowest bit.
  const std::uint64_t space = mix_bits(place.line) | 1;
  session.head_space =
      mix_bits(static_cast<std::uint64_t>(tools) << 32 | static_cast<std::uint64_t>(system)) & ~std::uint64_t{1};
  session.head_blocks = (std::int64_t{tools} + system) / kBlockTokens;
  read_requests(array_field(object, "reqs", place), place, space, session);
  const std::vector<BlockRun>& first = session.requests.front().blocks;
  session.head_first = first.empty() ? 0 : first.front().first;
  session.head_blocks = std::min<std::int64_t>(session.head_blocks, first.empty() ? 0 : first.front().count);
  for (TraceRequest& request : session.requests) share_head(session, request.blocks);
  return session;
}

}  // namespace

Trace read_weka(std::string_view text, const std::string& name, std::size_t limit) {
  Trace trace;
  trace.block_tokens = kBlockTokens;
  trace.side_by_side = kSideBySide;
  trace.caution =
      "sessions with the same numbers of tool and system tokens are taken to share that prefix; the source hides it";
  for (Session& session : parse_lines(text, name, limit, "session", read_session)) {
    const auto first = static_cast<std::int32_t>(trace.requests.size());
    trace.sessions.push_back({0, first, static_cast<std::int32_t>(session.requests.size())});
    for (TraceRequest& request : session.requests) {
      if (request.after >= 0) request.after += first;
      trace.requests.push_back(std::move(request));
    }
  }
  return trace;
}

}  // namespace trunkline::replay
