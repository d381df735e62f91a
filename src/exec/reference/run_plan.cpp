// Any plan in fp64: each item by itself, partials merged as the plan lists them. Slow and plain: what other executors
// are compared with when the question is whether a plan or a kernel is at fault.
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.hpp"
#include "exec/check_args.hpp"
#include "exec/reference/tensor.hpp"
#include "exec/resolve.hpp"

namespace trunkline {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// Un-merged output of one (item, query, head): normalised O and LSE.
struct Partial {
  std::vector<double> o;
  double lse = kMinusInfinity;
};

// Online softmax in fp64.
struct Accumulator {
  std::vector<double> o;
  double maximum = kMinusInfinity;
  double sum = 0;

  explicit Accumulator(std::size_t d) : o(d, 0.0) {}

  void add(double score, std::span<const double> value) {
    if (score == kMinusInfinity) return;
    if (score > maximum) {
      const double factor = std::exp(maximum - score);
      for (double& element : o) element *= factor;
      sum *= factor;
      maximum = score;
    }
    const double weight = std::exp(score - maximum);
    sum += weight;
    for (std::size_t i = 0; i < o.size(); ++i) o[i] += weight * value[i];
  }

  Partial finish() const {
    Partial partial{o, kMinusInfinity};
    if (sum != 0) {  // a NaN must show
      for (double& element : partial.o) element /= sum;
      partial.lse = maximum + std::log(sum);
    }
    return partial;
  }
};

class PlanRun {
 public:
  PlanRun(const Plan& plan, const Batch& batch)
      : plan_(plan),
        batch_(batch),
        d_(static_cast<std::size_t>(plan.shape.head_dim_qk)),
        slot_table_(slot_table_size(batch.rows())),
        spans_(plan.spans.size()),
        queries_(plan.queries.size()),
        partials_(static_cast<std::size_t>(plan.partials) * static_cast<std::size_t>(plan.shape.q_heads)) {
    resolve_plan(plan, batch, {slot_table_, spans_, queries_});
  }

  void run(const AttentionArgs& given) {
    TensorCounts counts = tensor_counts(batch_);
    counts.tree_depth = tree_depth_of(plan_, queries_);
    args_ = check_args(given, plan_.shape, counts);
    for (const WorkItem& item : plan_.items) {
      for (std::int32_t head = 0; head < plan_.shape.kv_heads; ++head) run_item(item, head);
    }
    for (std::size_t i = 0; i < plan_.merge_queries.size(); ++i) merge(i);
  }

 private:
  bool visible(const ResolvedSpan& span, std::int32_t position, int query_in_item, const ResolvedQuery& query) const {
    if (position >= query.limit) return false;
    if (args_.window_left >= 0 && position < query.position - args_.window_left) return false;
    if (span.mask < 0) return true;
    return plan_.masks[static_cast<std::size_t>(span.mask + span.mask_stride * (position - span.begin))].test(
        query_in_item);
  }

  void run_item(const WorkItem& item, std::int32_t head) {
    const std::int32_t group = plan_.shape.group_size();
    const auto rows = static_cast<std::size_t>(item.queries.size() * group);
    std::vector<Accumulator> state(rows, Accumulator(d_));
    std::vector<std::vector<double>> q(rows, std::vector<double>(d_));
    for (std::size_t row = 0; row < rows; ++row) {
      reference::read_query(args_, plan_.shape, query_of(item, row).token,
                            head * group + static_cast<std::int32_t>(row) % group, q[row]);
    }
    std::vector<double> key(d_);
    std::vector<double> value(d_);
    for (std::int32_t s = item.spans.begin; s < item.spans.end; ++s) {
      const ResolvedSpan& span = spans_[static_cast<std::size_t>(s)];
      for (std::int32_t position = span.begin; position < span.end; ++position) {
        reference::read_cache_row(args_.k, args_.k_scale, plan_.shape, batch_, span.ids_begin, position, head, key);
        reference::read_cache_row(args_.v, args_.v_scale, plan_.shape, batch_, span.ids_begin, position, head, value);
        for (std::size_t row = 0; row < rows; ++row) {
          if (!visible(span, position, static_cast<int>(row) / group, query_of(item, row))) continue;
          double dot = 0;
          for (std::size_t i = 0; i < d_; ++i) dot += q[row][i] * key[i];
          state[row].add(reference::cap_logit(args_, dot), value);
        }
      }
    }
    for (std::size_t row = 0; row < rows; ++row) {
      const std::int32_t q_head = head * group + static_cast<std::int32_t>(row) % group;
      const std::int32_t output =
          plan_.item_outputs[static_cast<std::size_t>(item.queries.begin) + row / static_cast<std::size_t>(group)];
      if (output == kDirect) {
        write(state[row], query_of(item, row).token, q_head);
      } else {
        partial(output, q_head) = state[row].finish();
      }
    }
  }

  void merge(std::size_t index) {
    const auto query = static_cast<std::size_t>(plan_.merge_queries[index]);
    for (std::int32_t head = 0; head < plan_.shape.q_heads; ++head) {
      Accumulator sum(d_);
      for (std::int32_t i = plan_.merge_begin[index]; i < plan_.merge_begin[index + 1]; ++i) {
        const Partial& part = partial(plan_.merge_slots[static_cast<std::size_t>(i)], head);
        sum.add(part.lse, part.o);
      }
      write(sum, queries_[query].token, head);
    }
  }

  // A sink counts once for each output, so not in partials.
  void write(Accumulator& sum, std::int32_t token, std::int32_t q_head) const {
    if (args_.sinks != nullptr) sum.add(static_cast<double>(args_.sinks[q_head]), std::vector<double>(d_, 0.0));
    const Partial result = sum.finish();
    reference::write_result(args_, token, q_head, result.o, result.lse);
  }

  const ResolvedQuery& query_of(const WorkItem& item, std::size_t row) const {
    const std::size_t at =
        static_cast<std::size_t>(item.queries.begin) + row / static_cast<std::size_t>(plan_.shape.group_size());
    return queries_[static_cast<std::size_t>(plan_.item_queries[at])];
  }

  Partial& partial(std::int32_t slot, std::int32_t head) {
    return partials_[static_cast<std::size_t>(slot) * static_cast<std::size_t>(plan_.shape.q_heads) +
                     static_cast<std::size_t>(head)];
  }

  const Plan& plan_;
  const Batch& batch_;
  AttentionArgs args_;
  std::size_t d_;
  std::vector<std::int32_t> slot_table_;
  std::vector<ResolvedSpan> spans_;
  std::vector<ResolvedQuery> queries_;
  std::vector<Partial> partials_;
};

}  // namespace

void reference_run_plan(const Plan& plan, const Batch& batch, const AttentionArgs& given) {
  check_supported(plan.shape);
  check_batch(batch, IdCheck::kAllPages);
  PlanRun(plan, batch).run(given);
}

}  // namespace trunkline
