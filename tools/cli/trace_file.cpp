#include "cli/trace_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/check.hpp"
#include "base/strict_json.hpp"
#include "cli/task_trace.hpp"

namespace trunkline::cli {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 8;  // the format nests four deep

/// An event, and how messages name it.
class Event {
 public:
  Event(const Json& json, const std::string& file, std::size_t index) : json_(json), file_(file), index_(index) {
    if (!json.is_object()) fail(ErrorCode::kParse, place(""), " is ", shown(json), "; an object is needed");
  }

  bool is(const char* phase) const { return json_.contains("ph") && json_.at("ph") == phase; }
  std::size_t index() const { return index_; }
  std::int64_t integer(const char* field, bool in_args = false) const {
    const Json& value = at(field, in_args);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{INT32_MAX}) {
      wrong(field, in_args, value, "an integer from 0 to 2^31 - 1");
    }
    return value.get<std::int64_t>();
  }
  Nanoseconds nanoseconds(const char* field) const {
    const Json& value = at(field, false);
    constexpr double kMax = 1e15;  // eleven days; a double still resolves nanoseconds
    if (!value.is_number() || !(value.get<double>() >= 0) || value.get<double>() * 1e3 > kMax) {
      wrong(field, false, value, "microseconds >= 0");
    }
    return std::llround(value.get<double>() * 1e3);
  }
  std::string text(const char* field, bool in_args = false) const {
    const Json& value = at(field, in_args);
    if (!value.is_string()) wrong(field, in_args, value, "a string");
    return value.get<std::string>();
  }
  [[noreturn]] void wrong(const char* field, bool in_args, const Json& value, const char* needed) const {
    fail(ErrorCode::kParse, place(in_args ? concat(".args.", field) : concat(".", field)), " is ", shown(value), "; ",
         needed, " is needed, as `trunkline run --trace` writes it");
  }

 private:
  std::string place(const std::string& field) const { return concat(file_, ": traceEvents[", index_, "]", field); }
  const Json& at(const char* field, bool in_args) const {
    static const Json kNull;
    const Json* object = &json_;
    if (in_args) object = json_.contains("args") ? &json_.at("args") : &kNull;
    return object->is_object() && object->contains(field) ? object->at(field) : kNull;
  }

  const Json& json_;
  const std::string& file_;
  std::size_t index_;
};

std::vector<Event> events_of(const Json& content, const std::string& name) {
  const auto found = content.is_object() ? content.find("traceEvents") : content.end();
  if (!content.is_object() || found == content.end() || !found->is_array()) {
    fail(ErrorCode::kParse, name,
         ": has no array \"traceEvents\"; a trace that `trunkline run --trace` wrote is needed");
  }
  std::vector<Event> events;
  for (std::size_t i = 0; i < found->size(); ++i) events.emplace_back((*found)[i], name, i);
  return events;
}

/// "demo:1, SM 5" is of batch demo:1.
std::string batch_of(const Event& event) {
  const std::string name = event.text("name", true);
  const std::size_t end = name.rfind(", SM ");
  if (end == std::string::npos) event.wrong("name", true, name, "\"BATCH, SM N\"");
  return name.substr(0, end);
}

/// Which batch of the trace, counted from 0.
std::int64_t find_batch(const std::vector<Event>& events, const std::string& name, const std::string& batch) {
  std::map<std::int64_t, std::string> batches;
  for (const Event& event : events) {
    if (!event.is("M") || event.text("name") != "process_name") continue;
    const std::int64_t index = event.integer("pid") / kTraceIdsOfBatch;
    batches.emplace(index, batch_of(event));
  }
  std::string known;
  for (const auto& [index, found] : batches) {
    if (found == batch) return index;
    known += (known.empty() ? "" : ", ") + found;
  }
  fail(ErrorCode::kParse, name, ": has no batch \"", batch, "\"; it has ", known.empty() ? "none" : known);
}

/// "item 3 head 1"
void read_name(const Event& event, TracedTask& task) {
  const std::string name = event.text("name");
  const auto number_after = [&name](std::string_view word, std::size_t from, std::int32_t& value) {
    if (name.compare(from, word.size(), word) != 0) return std::string::npos;
    const char* const begin = name.data() + from + word.size();
    const auto [end, error] = std::from_chars(begin, name.data() + name.size(), value);
    return error == std::errc() && value >= 0 ? static_cast<std::size_t>(end - name.data()) : std::string::npos;
  };
  const std::size_t end = number_after("item ", 0, task.task.item);
  const bool right = end != std::string::npos && number_after(" head ", end, task.head) == name.size();
  if (!right) event.wrong("name", false, name, "\"item N head N\"");
}

TracedTask read_task(const Event& event) {
  TracedTask task;
  task.event = event.index();
  read_name(event, task);
  task.task.worker = static_cast<std::int32_t>(event.integer("tid"));
  task.task.begin = event.nanoseconds("ts");
  task.task.end = task.task.begin + event.nanoseconds("dur");
  task.rows = event.integer("rows", true);
  task.tokens = event.integer("tokens", true);
  task.tile = event.text("tile", true);
  return task;
}

std::int64_t tokens_of(const Plan& plan, const WorkItem& item,
                       const std::unordered_map<std::int32_t, std::int32_t>& lengths) {
  std::int64_t tokens = 0;
  for (std::int32_t i = item.spans.begin; i < item.spans.end; ++i) {
    const KvSpan& span = plan.spans[static_cast<std::size_t>(i)];
    tokens += span.at(lengths.at(span.slot)).size();
  }
  return tokens;
}

/// Describes the first misfit between the traced tasks and a plan; nothing where all tasks fit.
std::optional<std::string> find_misfit(const std::vector<TracedTask>& tasks, const Forest& forest, const Plan& plan) {
  std::unordered_map<std::int32_t, std::int32_t> lengths;
  for (const ForestRequest& request : forest.requests) lengths[request.slot] = request.kv_len;
  std::set<std::pair<std::int32_t, std::int32_t>> done;
  for (const TracedTask& traced : tasks) {
    const auto place = [&traced] {
      return concat("traceEvents[", traced.event, "], item ", traced.task.item, " head ", traced.head, ",");
    };
    const auto index = static_cast<std::size_t>(traced.task.item);
    if (index >= plan.items.size() || traced.head >= plan.shape.kv_heads) {
      return concat(place(), " is not among ", plan.items.size(), " items of ", plan.shape.kv_heads, " KV heads");
    }
    const WorkItem& item = plan.items[index];
    const std::int64_t rows = std::int64_t{item.queries.size()} * plan.shape.group_size();
    const std::int64_t tokens = tokens_of(plan, item, lengths);
    const std::string tile = concat(item.tile.m, "x", item.tile.n);
    if (traced.rows != rows || traced.tokens != tokens || traced.tile != tile) {
      return concat(place(), " has ", traced.rows, " rows, ", traced.tokens, " tokens and tile ", traced.tile,
                    "; the plan's has ", rows, ", ", tokens, " and ", tile);
    }
    if (!done.emplace(traced.task.item, traced.head).second) return concat(place(), " is there twice");
  }
  const std::size_t wanted = plan.items.size() * static_cast<std::size_t>(plan.shape.kv_heads);
  if (done.size() != wanted) return concat("it has ", done.size(), " tasks of the batch; the plan has ", wanted);
  return std::nullopt;
}

}  // namespace

std::vector<TracedTask> parse_task_trace(std::string_view text, const std::string& name, const std::string& batch) {
  const Json content = parse_strict_json(text, name, kMaxDepth);
  const std::vector<Event> events = events_of(content, name);
  const std::int64_t wanted = find_batch(events, name, batch);
  std::vector<TracedTask> tasks;
  for (const Event& event : events) {
    if (event.is("X") && event.integer("pid") / kTraceIdsOfBatch == wanted) tasks.push_back(read_task(event));
  }
  return tasks;
}

report::MeasuredRun match_trace(const std::vector<TracedTask>& tasks, const std::string& name, const Forest& forest,
                                const std::vector<Plan>& plans, Policy chosen) {
  std::string misfit;
  std::vector<const Plan*> candidates;
  for (const Plan& plan : plans) {
    candidates.insert(plan.policy == chosen ? candidates.begin() : candidates.end(), &plan);
  }
  for (const Plan* plan : candidates) {
    const std::optional<std::string> found = find_misfit(tasks, forest, *plan);
    if (!found) {
      report::MeasuredRun run{name, plan->policy, {}};
      for (const TracedTask& traced : tasks) run.tasks.push_back(traced.task);
      return run;
    }
    if (misfit.empty()) misfit = *found;
  }
  fail(ErrorCode::kInvalidArgument, "--trace ", name, " is not of a plan that is made here: ", misfit, " (policy ",
       name_of(chosen), "); give the options and the machine of the run");
}

}  // namespace trunkline::cli
