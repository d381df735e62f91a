#include "cli/oracle_check.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <exception>
#include <limits>
#include <numeric>
#include <span>

#include "base/random.hpp"

namespace trunkline::cli {
namespace {

// Two to ten seconds of scalar fp64 on one core.
constexpr double kMultiplyAdds = 2e9;

// Requests in random order, each taken while the budget lasts; the shortest when even one is too much.
std::vector<std::int32_t> choose_rows(const AttentionShape& shape, const Batch& batch) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(batch.rows()));
  std::iota(order.begin(), order.end(), 0);
  RandomBits random(1);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);

  std::vector<std::int32_t> rows;
  double left = kMultiplyAdds;
  for (const std::int32_t row : order) {
    const double pairs = 1.0 * batch.kv_lens[static_cast<std::size_t>(row)] * batch.query_count(row);
    const double cost = 2.0 * pairs * shape.q_heads * shape.head_dim_qk;
    if (cost > left) continue;
    left -= cost;
    rows.push_back(row);
  }
  if (rows.empty() && batch.rows() > 0) {
    rows.push_back(static_cast<std::int32_t>(std::min_element(batch.kv_lens.begin(), batch.kv_lens.end()) -
                                             batch.kv_lens.begin()));
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

double error_of(float value, float right) {
  if (value == right) return 0;  // also infinities
  const double error = std::abs(static_cast<double>(value) - static_cast<double>(right));
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

double largest_error(std::span<const float> values, std::span<const float> right) {
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) largest = std::max(largest, error_of(values[i], right[i]));
  return largest;
}

// Attention of one KV head and its query heads, in the tensors of all.
void attend_head(const AttentionShape& shape, const Batch& batch, const AttentionArgs& args, std::int32_t head) {
  const auto group = static_cast<std::size_t>(head) * static_cast<std::size_t>(shape.group_size());
  const auto d = static_cast<std::size_t>(shape.head_dim_qk);
  AttentionShape one = shape;
  one.q_heads = shape.group_size();
  one.kv_heads = 1;
  AttentionArgs slice = args;
  slice.q_token_stride = slice.out_token_stride = std::int64_t{shape.q_heads} * shape.head_dim_qk;
  slice.lse_token_stride = shape.q_heads;
  slice.lse_head_stride = 1;
  slice.q = static_cast<const std::byte*>(args.q) + group * d * size_of(shape.q_dtype);
  slice.out = static_cast<float*>(args.out) + group * d;
  slice.lse = args.lse + group;
  if (args.sinks != nullptr) slice.sinks = args.sinks + group;
  for (CacheView* cache : {&slice.k, &slice.v}) {
    cache->data = static_cast<const std::byte*>(cache->data) +
                  static_cast<std::size_t>(head * cache->head_stride) * size_of(shape.kv_dtype);
  }
  reference_attention(one, batch, slice);
}

// Workers take the next head as they are done with one.
struct HeadQueue {
  const AttentionShape& shape;
  const Batch& batch;
  const AttentionArgs& args;
  std::atomic<std::int32_t> next{0};
  std::vector<std::exception_ptr> faults{static_cast<std::size_t>(shape.kv_heads)};  // of each head

  static void work(void* context, int) {
    auto& queue = *static_cast<HeadQueue*>(context);
    for (std::int32_t head = queue.next++; head < queue.shape.kv_heads; head = queue.next++) {
      try {
        attend_head(queue.shape, queue.batch, queue.args, head);
      } catch (...) {
        queue.faults[static_cast<std::size_t>(head)] = std::current_exception();
      }
    }
  }
};

void attend(const AttentionShape& shape, const Batch& batch, const AttentionArgs& args, Workers* workers) {
  if (workers == nullptr) return reference_attention(shape, batch, args);
  HeadQueue queue{shape, batch, args};
  workers->run(&HeadQueue::work, &queue);
  for (const std::exception_ptr& fault : queue.faults) {
    if (fault) std::rethrow_exception(fault);
  }
}

}  // namespace

bool within(const OracleError& error, const OracleError& limit) {
  return error.output <= limit.output && error.lse <= limit.lse;
}

Oracle::Oracle(const AttentionShape& shape, const Batch& batch, const AttentionArgs& args, Workers* workers)
    : token_elements_(static_cast<std::size_t>(shape.q_heads) * static_cast<std::size_t>(shape.head_dim_qk)),
      heads_(static_cast<std::size_t>(shape.q_heads)),
      rows_(choose_rows(shape, batch)) {
  // A batch of the chosen rows over the same pages.
  std::vector<std::int32_t> kv_lens;
  std::vector<std::int32_t> indptr{0};
  std::vector<std::int64_t> page_ids;
  std::vector<std::int32_t> query_start{0};
  std::vector<std::int32_t> query_parents;
  for (const std::int32_t row : rows_) {
    kv_lens.push_back(batch.kv_lens[static_cast<std::size_t>(row)]);
    const std::int64_t pages = (std::int64_t{kv_lens.back()} + shape.page_size - 1) / shape.page_size;
    for (std::int64_t page = 0; page < pages; ++page) page_ids.push_back(batch.pages.id(row, page));
    indptr.push_back(static_cast<std::int32_t>(page_ids.size()));
    for (std::int32_t i = 0; i < batch.query_count(row); ++i) {
      tokens_.push_back(batch.query_begin(row) + i);
      query_parents.push_back(batch.query_parent(row, i));
    }
    query_start.push_back(static_cast<std::int32_t>(tokens_.size()));
  }
  const std::size_t token_bytes = token_elements_ * size_of(shape.q_dtype);
  std::vector<std::byte> queries(tokens_.size() * token_bytes);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    std::memcpy(queries.data() + i * token_bytes,
                static_cast<const std::byte*>(args.q) + static_cast<std::size_t>(tokens_[i]) * token_bytes,
                token_bytes);
  }
  out_.resize(tokens_.size() * token_elements_);
  lse_.resize(tokens_.size() * heads_);
  Batch sample;
  sample.pages = PageTable::csr(indptr, std::span<const std::int64_t>(page_ids), shape.page_size);
  sample.kv_lens = kv_lens;
  sample.query_start = query_start;
  sample.query_parents = query_parents;
  sample.num_pages = batch.num_pages;
  AttentionArgs sample_args = args;
  sample_args.q = queries.data();
  sample_args.out = out_.data();
  sample_args.lse = lse_.data();
  attend(shape, sample, sample_args, workers);
}

OracleError Oracle::compare(const AttentionArgs& args) const {
  OracleError error;
  const auto* out = static_cast<const float*>(args.out);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const auto token = static_cast<std::size_t>(tokens_[i]);
    const std::span<const float> right_out(out_.data() + i * token_elements_, token_elements_);
    const std::span<const float> right_lse(lse_.data() + i * heads_, heads_);
    error.output = std::max(error.output, largest_error({out + token * token_elements_, token_elements_}, right_out));
    error.lse = std::max(error.lse, largest_error({args.lse + token * heads_, heads_}, right_lse));
  }
  return error;
}

}  // namespace trunkline::cli
