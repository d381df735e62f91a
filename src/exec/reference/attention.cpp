// The oracle: attention by its definition, from the batch alone. It shares no code with plans or kernels but the
// reading of single elements.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "exec/check_args.hpp"
#include "exec/reference/tensor.hpp"

namespace trunkline {
namespace {

// The positions visible to a query token: all before the row's query tokens, then its ancestors and itself. A window
// keeps the last of them.
// \param window_left as AttentionArgs has it
void find_visible(const Batch& batch, std::int32_t row, std::int32_t query, std::int32_t window_left,
                  std::vector<std::size_t>& positions) {
  positions.clear();
  const std::int32_t kv_len = batch.kv_lens[static_cast<std::size_t>(row)];
  if (kv_len == 0) return;
  const std::int32_t past = kv_len - batch.query_count(row);
  for (std::int32_t i = query; i >= 0; i = batch.query_parent(row, i)) {
    positions.push_back(static_cast<std::size_t>(past + i));
  }
  for (std::int32_t position = past - 1; position >= 0; --position) {
    positions.push_back(static_cast<std::size_t>(position));
  }
  if (window_left >= 0) positions.resize(std::min(positions.size(), static_cast<std::size_t>(window_left) + 1));
  std::reverse(positions.begin(), positions.end());
}

// softmax(q . k) v over some tokens of one row, for one query head.
void attend(const AttentionShape& shape, const AttentionArgs& args, const std::vector<double>& keys,
            const std::vector<double>& values, const std::vector<std::size_t>& visible, std::int32_t token,
            std::int32_t q_head) {
  const auto d = static_cast<std::size_t>(shape.head_dim_qk);
  const std::size_t tokens = visible.size();
  std::vector<double> q(d);
  reference::read_query(args, shape, token, q_head, q);
  std::vector<double> scores(tokens);
  double maximum = -std::numeric_limits<double>::infinity();
  for (std::size_t t = 0; t < tokens; ++t) {
    double dot = 0;
    for (std::size_t i = 0; i < d; ++i) dot += q[i] * keys[visible[t] * d + i];
    scores[t] = reference::cap_logit(args, dot);
    maximum = std::max(maximum, scores[t]);
  }
  const double sink =
      args.sinks == nullptr ? -std::numeric_limits<double>::infinity() : static_cast<double>(args.sinks[q_head]);
  maximum = std::max(maximum, sink);
  std::vector<double> o(d, 0.0);
  double sum = 0;
  for (std::size_t t = 0; t < tokens; ++t) {
    const double weight = std::exp(scores[t] - maximum);
    sum += weight;
    for (std::size_t i = 0; i < d; ++i) o[i] += weight * values[visible[t] * d + i];
  }
  const bool empty = tokens == 0 && sink == -std::numeric_limits<double>::infinity();
  if (args.sinks != nullptr && !empty) sum += std::exp(sink - maximum);
  for (double& element : o) element = tokens > 0 ? element / sum : 0.0;
  const double lse = empty ? -std::numeric_limits<double>::infinity() : maximum + std::log(sum);
  reference::write_result(args, token, q_head, o, lse);
}

}  // namespace

void reference_attention(const AttentionShape& shape, const Batch& batch, const AttentionArgs& given) {
  check_supported(shape);
  check_batch(batch, IdCheck::kAllPages);
  const AttentionArgs args = check_args(given, shape, tensor_counts(batch));
  const auto d = static_cast<std::size_t>(shape.head_dim_qk);
  std::vector<double> keys;
  std::vector<double> values;
  std::vector<std::size_t> visible;
  for (std::int32_t row = 0; row < batch.rows(); ++row) {
    const std::int32_t kv_len = batch.kv_lens[static_cast<std::size_t>(row)];
    keys.resize(static_cast<std::size_t>(kv_len) * d);
    values.resize(keys.size());
    for (std::int32_t head = 0; head < shape.kv_heads; ++head) {
      for (std::int32_t t = 0; t < kv_len; ++t) {
        const std::size_t at = static_cast<std::size_t>(t) * d;
        reference::read_cache_row(args.k, args.k_scale, shape, batch, batch.pages.row_begin(row), t, head,
                                  {keys.data() + at, d});
        reference::read_cache_row(args.v, args.v_scale, shape, batch, batch.pages.row_begin(row), t, head,
                                  {values.data() + at, d});
      }
      for (std::int32_t query = 0; query < batch.query_count(row); ++query) {
        find_visible(batch, row, query, args.window_left, visible);
        for (std::int32_t i = 0; i < shape.group_size(); ++i) {
          attend(shape, args, keys, values, visible, batch.query_begin(row) + query, head * shape.group_size() + i);
        }
      }
    }
  }
}

}  // namespace trunkline
