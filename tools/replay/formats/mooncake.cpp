// Mooncake's traces: {"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [...]}. An id is one block of
// 512 tokens with all before it; the last block of a prompt is part-filled.
#include <utility>

#include "replay/formats/formats.hpp"

namespace trunkline::replay {
namespace {

constexpr std::int32_t kBlockTokens = 512;

void read_ids(const nlohmann::json& ids, const LinePlace& place, TraceRequest& request) {
  const std::int64_t needed = (std::int64_t{request.input_tokens} + kBlockTokens - 1) / kBlockTokens;
  if (static_cast<std::int64_t>(ids.size()) != needed) {
    fail_at(place, "field \"hash_ids\" has ", ids.size(), " ids; input_length ", request.input_tokens, " needs ",
            needed, ", one for each ", kBlockTokens, " tokens");
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto named = [&] { return concat("hash_ids[", i, "]"); };
    add_block(request.blocks, 0, integer_in(ids[i], 0, INT32_MAX, place, named, "an id from 0 to 2^31 - 1 is needed"));
  }
}

}  // namespace

Trace read_mooncake(std::string_view text, const std::string& name, std::size_t limit) {
  Trace trace;
  trace.block_tokens = kBlockTokens;
  trace.recorded = true;
  double before = 0;
  const auto read = [&](std::string_view line, const LinePlace& place) {
    const nlohmann::json object = parse_object(line, place);
    const char* field = "field \"timestamp\"";
    const double ms = amount_in(
        field_of(object, "timestamp", place), place, [&] { return field; }, "milliseconds from 0 to 1e12 are needed");
    check_order(before, ms, place, field);
    before = ms;
    TraceRequest request;
    request.arrival_s = ms / 1e3;
    request.input_tokens = integer_field(object, "input_length", 1, kMaxTokens, place, kInputMeaning);
    request.output_tokens = integer_field(object, "output_length", 0, kMaxTokens, place, kOutputMeaning);
    read_ids(array_field(object, "hash_ids", place), place, request);
    return request;
  };
  for (TraceRequest& request : parse_lines(text, name, limit, "request", read)) add_single(trace, std::move(request));
  return trace;
}

}  // namespace trunkline::replay
