#include "exec/company.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.hpp"

namespace trunkline::testing {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

class CompanyMaker {
 public:
  CompanyMaker(const RandomBatch& all, const AttentionCase& test) : all_(all), test_(test) {
    RandomBatch& batch = company_.batch;
    batch.options = all.options;
    batch.num_pages = all.num_pages;
    batch.null_page = all.null_page;
    if (!all.query_start.empty()) batch.query_start = {0};
  }

  void add(std::int32_t row, std::int32_t kv_len, bool compared) {
    RandomBatch& batch = company_.batch;
    const Range queries = queries_of(all_, row);
    if (compared) company_.queries = {queries_, queries_ + queries.size()};
    queries_ += queries.size();
    std::vector<std::int64_t> pages = all_.row_pages[at(row)];
    pages.resize(at((kv_len + all_.options.page_size - 1) / all_.options.page_size));
    batch.row_pages.push_back(std::move(pages));
    batch.kv_lens.push_back(kv_len);
    if (!all_.query_start.empty()) batch.query_start.push_back(queries_);
    if (!all_.query_parents.empty()) {
      const auto first = all_.query_parents.begin();
      batch.query_parents.insert(batch.query_parents.end(), first + queries.begin, first + queries.end);
    }
    const auto count = static_cast<std::int32_t>(batch.kv_lens.size());
    batch.slots.push_back(3 * count % 64 + 64 * (count / 64));
    batch.generations.push_back(static_cast<std::uint32_t>(count));
    const std::size_t token =
        at(test_.shape().q_heads) * at(test_.shape().head_dim_qk) * size_of(test_.shape().q_dtype);
    const auto* const q = static_cast<const std::byte*>(test_.args().q);
    company_.q.insert(company_.q.end(), q + at(queries.begin) * token, q + at(queries.end) * token);
  }

  Company finish() {
    company_.batch.lay_out_table();
    return std::move(company_);
  }

 private:
  const RandomBatch& all_;
  const AttentionCase& test_;
  Company company_;
  std::int32_t queries_ = 0;
};

template <class T>
std::size_t count_differences(const std::vector<T>& one, const std::vector<T>& other, std::size_t& first) {
  std::size_t count = 0;
  for (std::size_t i = one.size(); i-- > 0;) {
    if (std::memcmp(&one[i], &other[i], sizeof(T)) == 0) continue;
    ++count;
    first = i;
  }
  return count;
}

}  // namespace

Range queries_of(const RandomBatch& batch, std::int32_t row) {
  if (batch.query_start.empty()) return {row, row + 1};
  return {batch.query_start[at(row)], batch.query_start[at(row) + 1]};
}

Company alone(const RandomBatch& all, const AttentionCase& test, std::int32_t row) {
  CompanyMaker maker(all, test);
  maker.add(row, all.kv_lens[at(row)], true);
  return maker.finish();
}

Company among_others(std::mt19937_64& random, const RandomBatch& all, const AttentionCase& test, std::int32_t row) {
  const auto rows = static_cast<std::int32_t>(all.kv_lens.size());
  std::vector<std::int32_t> others;
  for (std::int32_t other = 0; other < rows; ++other) {
    // Once, twice, or not at all; the request itself may have a twin.
    const std::int32_t times = uniform(random, 0, 5);
    if (other != row && times > 0) others.push_back(other);
    if (times == 5) others.push_back(other);
  }
  std::shuffle(others.begin(), others.end(), random);
  const std::int32_t place = uniform(random, 0, static_cast<std::int32_t>(others.size()));
  CompanyMaker maker(all, test);
  for (std::int32_t i = 0; i <= static_cast<std::int32_t>(others.size()); ++i) {
    if (i == place) maker.add(row, all.kv_lens[at(row)], true);
    if (i == static_cast<std::int32_t>(others.size())) break;
    const std::int32_t other = others[at(i)];
    const std::int32_t length = all.kv_lens[at(other)];
    const std::int32_t least = std::min(length, queries_of(all, other).size());
    maker.add(other, uniform(random, 0, 1) == 0 ? length : uniform(random, least, length), false);
  }
  return maker.finish();
}

AttentionOutput outputs_of(const AttentionOutput& output, Range queries, const AttentionShape& shape) {
  const auto slice = [&](const std::vector<float>& all, std::int64_t of_query) {
    return std::vector<float>(all.begin() + queries.begin * of_query, all.begin() + queries.end * of_query);
  };
  return {slice(output.o, std::int64_t{shape.q_heads} * shape.head_dim_qk), slice(output.lse, shape.q_heads)};
}

double largest_error(const AttentionOutput& output, const AttentionOutput& expected) {
  double error = 0;
  for (std::size_t i = 0; i < expected.o.size(); ++i) {
    error = std::max(error, std::abs(static_cast<double>(output.o[i]) - static_cast<double>(expected.o[i])));
  }
  return error;
}

std::string difference(const AttentionOutput& one, const AttentionOutput& other, const AttentionShape& shape) {
  std::size_t first = 0;
  const std::size_t lses = count_differences(one.lse, other.lse, first);
  const std::size_t elements = count_differences(one.o, other.o, first);
  if (lses + elements == 0) return {};
  const std::size_t row = elements > 0 ? first / at(shape.head_dim_qk) : first;
  const std::size_t of_row = elements > 0 ? first % at(shape.head_dim_qk) : 0;
  return concat(elements, " of ", one.o.size(), " elements of O and ", lses, " of ", one.lse.size(),
                " LSEs differ; first at query ", row / at(shape.q_heads), ", head ", row % at(shape.q_heads),
                ", element ", of_row, ": ", elements > 0 ? one.o[first] : one.lse[first], " and ",
                elements > 0 ? other.o[first] : other.lse[first]);
}

}  // namespace trunkline::testing
