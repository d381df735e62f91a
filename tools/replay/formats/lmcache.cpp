// Agents' requests (lmcache-agent-trace, derived): {"session", "t" since the session's begin, "input_length",
// "output_length", "hash_runs"}, with runs of 64-byte blocks, about 16 tokens, whose ids hold in the whole file.
#include <utility>

#include "replay/formats/formats.hpp"

namespace trunkline::replay {
namespace {

constexpr std::int32_t kBlockTokens = 16;
constexpr std::int32_t kSideBySide = 4;

struct Turn {
  std::int32_t session = 0;
  TraceRequest request;
};

Turn read_turn(std::string_view line, const LinePlace& place) {
  const nlohmann::json object = parse_object(line, place);
  Turn turn;
  turn.session = integer_field(object, "session", 0, INT32_MAX, place, "an integer from 0 to 2^31 - 1 is needed");
  turn.request.arrival_s = amount_in(
      field_of(object, "t", place), place, [] { return "field \"t\""; }, "seconds from 0 to 1e12 are needed");
  turn.request.input_tokens = integer_field(object, "input_length", 1, kMaxTokens, place, kInputMeaning);
  turn.request.output_tokens = integer_field(object, "output_length", 0, kMaxTokens, place, kOutputMeaning);
  const std::string what = "field \"hash_runs\"";
  const std::int64_t blocks = read_runs(field_of(object, "hash_runs", place), 0, place, what, turn.request.blocks);
  check_blocks(blocks, kBlockTokens, turn.request.input_tokens, place, what);
  return turn;
}

}  // namespace

// Lines of a session stand together, and each of its turns follows on the one before.
Trace read_lmcache(std::string_view text, const std::string& name, std::size_t limit) {
  Trace trace;
  trace.block_tokens = kBlockTokens;
  trace.side_by_side = kSideBySide;
  trace.caution = "lengths are bytes / 4, not tokens";
  std::int32_t last_session = -1;
  double before = 0;
  const auto read = [&](std::string_view line, const LinePlace& place) {
    Turn turn = read_turn(line, place);
    if (turn.session < last_session) {
      fail_at(place, "field \"session\" is ", turn.session, ", after session ", last_session,
              "; the lines of a session must stand together, sessions rising");
    }
    if (turn.session == last_session) check_order(before, turn.request.arrival_s, place, "field \"t\"");
    last_session = turn.session;
    before = turn.request.arrival_s;
    return turn;
  };
  std::int32_t session = -1;
  for (Turn& turn : parse_lines(text, name, kAllLines, "request", read)) {
    if (turn.session != session && trace.sessions.size() == limit) break;
    const auto index = static_cast<std::int32_t>(trace.requests.size());
    if (turn.session != session) trace.sessions.push_back({0, index, 0});
    if (turn.session == session) turn.request.after = index - 1;
    session = turn.session;
    ++trace.sessions.back().count;
    trace.requests.push_back(std::move(turn.request));
  }
  return trace;
}

}  // namespace trunkline::replay
