#include "replay/routing/superposition.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "base/check.hpp"
#include "base/random.hpp"

namespace trunkline::replay {
namespace {

// Ours: the blocks of samples in traces that have no blocks. As long as the pages of most engines.
constexpr std::int32_t kSampleBlockTokens = 16;
// A constant of no meaning, apart from the spaces of files: those are numbers from 0 on, and hashes.
constexpr std::uint64_t kOwnSpaces = 0x9e3779b97f4a7c15;

std::uint64_t block_key(std::uint64_t space, std::int64_t id) {
  return mix_bits(space + mix_bits(static_cast<std::uint64_t>(id)));
}

void check_count(const char* name, std::int32_t value, std::int32_t most) {
  if (value >= 1 && value <= most) return;
  fail(ErrorCode::kInvalidArgument, name, " is ", value, "; 1 to ", most, " are supported");
}

void check(const Trace& trace, const SuperpositionOptions& options) {
  constexpr std::int32_t kMaxCopies = 10000;
  constexpr std::int32_t kMaxSamples = 1024;
  check_count("--copies", options.copies, kMaxCopies);
  check_count("--samples", options.samples, kMaxSamples);
  if (!(options.common_share > 0 && options.common_share <= 1)) {
    fail(ErrorCode::kInvalidArgument, "--common-share is ", options.common_share,
         "; a share above 0, at most 1, is supported");
  }
  if (options.samples > 1 && trace.searches()) {
    fail(ErrorCode::kUnsupported, "--samples is ", options.samples, "; it is for traces of requests, and ", trace.name,
         " has searches");
  }
  // Indices of requests are 32 bits wide; 2^28 requests are past what memory holds.
  constexpr std::size_t kMaxRequests = std::size_t{1} << 28;
  const std::size_t one = std::max(trace.requests.size(), trace.trees.size());
  const auto factor = static_cast<std::size_t>(options.copies) * static_cast<std::size_t>(options.samples);
  if (one * factor > kMaxRequests) {
    fail(ErrorCode::kInvalidArgument, "--copies is ", options.copies, " and --samples ", options.samples, ", of ", one,
         " requests; at most ", kMaxRequests, " requests in all are supported");
  }
}

/// How many sessions have each block.
class BlockUse {
 public:
  BlockUse(const Trace& trace, double common_share)
      : common_(std::max(2.0, std::ceil(common_share * static_cast<double>(trace.sessions.size())))) {
    for (std::size_t session = 0; session < trace.sessions.size(); ++session) {
      const TraceSession& given = trace.sessions[session];
      for (std::int32_t i = given.first; i < given.first + given.count; ++i) {
        for (const BlockRun& run : trace.requests[static_cast<std::size_t>(i)].blocks) add(run, session);
      }
    }
  }
  bool common(std::uint64_t space, std::int64_t id) const {
    return static_cast<double>(uses_.at(block_key(space, id)).sessions) >= common_;
  }

 private:
  struct Use {
    std::size_t last = SIZE_MAX;
    std::int64_t sessions = 0;
  };

  void add(const BlockRun& run, std::size_t session) {
    for (std::int32_t i = 0; i < run.count; ++i) {
      Use& use = uses_[block_key(run.space, run.first + i)];
      if (use.last == session) continue;
      use.last = session;
      ++use.sessions;
    }
  }

  double common_;
  std::unordered_map<std::uint64_t, Use> uses_;
};

std::vector<BlockRun> blocks_of_copy(const std::vector<BlockRun>& blocks, const BlockUse& use, std::int32_t copy) {
  std::vector<BlockRun> own;
  for (const BlockRun& run : blocks) {
    const std::uint64_t space = mix_bits(run.space + static_cast<std::uint64_t>(copy));
    for (std::int32_t i = 0; i < run.count; ++i) {
      const std::int64_t id = run.first + i;
      add_block(own, use.common(run.space, id) ? run.space : space, id);
    }
  }
  return own;
}

/// Where a session of the superposition comes from.
struct SessionCopy {
  double begin_s = 0;
  std::int32_t session = 0;
  std::int32_t copy = 0;
};

/// How late a copy begins, as a share of the trace's length. Not k / copies: arrivals would repeat themselves after as
/// many sessions as the trace has, and round robin would send one long session of each copy to the same replica.
double shift_of(std::int32_t copy) {
  if (copy == 0) return 0;
  return RandomBits(mix_bits(static_cast<std::uint64_t>(copy))).below(1u << 30) / static_cast<double>(1u << 30);
}

std::vector<SessionCopy> order_sessions(const Trace& trace, std::int32_t copies) {
  std::vector<SessionCopy> order;
  const auto each = [&](const auto& visit) {
    for (std::int32_t i = 0; i < trace.size(); ++i) {
      for (std::int32_t copy = 0; copy < copies; ++copy) visit(i, copy);
    }
  };
  if (!trace.recorded) {
    each([&](std::int32_t i, std::int32_t copy) {
      const auto skipped = static_cast<std::int32_t>(std::int64_t{copy} * trace.size() / copies);
      order.push_back({0, (i + skipped) % trace.size(), copy});
    });
    return order;
  }
  double first = trace.sessions.front().begin_s;
  double last = first;
  for (const TraceSession& session : trace.sessions) {
    first = std::min(first, session.begin_s);
    last = std::max(last, session.begin_s);
  }
  const double span = last - first;
  each([&](std::int32_t i, std::int32_t copy) {
    double begin = trace.sessions[static_cast<std::size_t>(i)].begin_s + span * shift_of(copy);
    if (begin > last) begin -= span;
    order.push_back({begin, i, copy});
  });
  std::stable_sort(order.begin(), order.end(),
                   [](const SessionCopy& a, const SessionCopy& b) { return a.begin_s < b.begin_s; });
  return order;
}

/// Gives the tokens of a prompt that no block covers blocks that are nobody else's.
void cover_prompt(TraceRequest& request, std::int32_t block_tokens, std::uint64_t space) {
  std::int64_t tokens = request.input_tokens;
  for (const BlockRun& run : request.blocks) tokens -= std::int64_t{run.count} * block_tokens;
  if (tokens <= 0) return;
  request.blocks.push_back({space, 0, static_cast<std::int32_t>((tokens + block_tokens - 1) / block_tokens)});
}

void add_session(const Trace& trace, const SessionCopy& from, const BlockUse& use, std::int32_t samples,
                 Trace& result) {
  const TraceSession& given = trace.sessions[static_cast<std::size_t>(from.session)];
  const auto first = static_cast<std::int32_t>(result.requests.size());
  result.sessions.push_back({from.begin_s, first, given.count * samples});
  for (std::int32_t i = given.first; i < given.first + given.count; ++i) {
    TraceRequest request = trace.requests[static_cast<std::size_t>(i)];
    if (from.copy > 0) request.blocks = blocks_of_copy(request.blocks, use, from.copy);
    if (request.after >= 0) request.after = first + (request.after - given.first) * samples;
    if (samples > 1) cover_prompt(request, result.block_tokens, mix_bits(kOwnSpaces + result.requests.size()));
    for (std::int32_t sample = 0; sample < samples; ++sample) result.requests.push_back(request);
  }
}

}  // namespace

Trace superpose(const Trace& trace, const SuperpositionOptions& options) {
  check(trace, options);
  if (options.copies == 1 && options.samples == 1) return trace;
  Trace result;
  result.name = trace.name;
  result.format = trace.format;
  result.caution = trace.caution;
  result.block_tokens = trace.block_tokens;
  if (result.block_tokens == 0 && options.samples > 1) result.block_tokens = kSampleBlockTokens;
  result.recorded = trace.recorded;
  result.side_by_side = trace.side_by_side * options.copies;
  const BlockUse use(trace, options.common_share);
  for (const SessionCopy& from : order_sessions(trace, options.copies)) {
    if (trace.searches()) {
      result.trees.push_back(trace.trees[static_cast<std::size_t>(from.session)]);
    } else {
      add_session(trace, from, use, options.samples, result);
    }
  }
  return result;
}

ArrivalOptions superpose(ArrivalOptions arrivals, std::int32_t copies) {
  if (arrivals.rate) *arrivals.rate *= copies;
  arrivals.side_by_side *= copies;
  return arrivals;
}

}  // namespace trunkline::replay
