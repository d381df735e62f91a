#include "synthetic/synthetic_cache.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/random.hpp"
#include "synthetic/arena.hpp"
#include "synthetic/normal_table.hpp"

namespace trunkline {
namespace {

enum class Stream : std::uint64_t { kKeys = 1, kValues, kQueries, kDirection, kPlanted };

std::uint64_t stream_seed(std::uint64_t seed, Stream stream, std::uint64_t index) {
  return mix_bits(mix_bits(seed + static_cast<std::uint64_t>(stream) * 0x9e3779b97f4a7c15u) + index);
}

// The part of every query along its head's direction, times the softmax scale: small against ordinary logits, so that
// it hardly widens their distribution, yet not so small that planted keys would be out of f16's range.
constexpr double kSharedLogit = 0.25;

// The common direction of a KV head: signs over sqrt(d), so that rounding a key along it changes its length alone.
double direction_at(std::uint64_t seed, int head, int i, int head_dim) {
  const std::uint64_t bits =
      stream_seed(seed, Stream::kDirection, static_cast<std::uint64_t>(head) * 4096 + static_cast<std::uint64_t>(i));
  return ((bits & 1u) != 0 ? 1.0 : -1.0) / std::sqrt(static_cast<double>(head_dim));
}

// The logit at which one key among `depth` such keys and `tokens` ordinary ones, with logits of variance `variance`,
// holds at least 5 %: exp(logit) * (20 - depth) >= the ordinary sum, taken at its mean and four standard deviations.
double planted_logit(std::int32_t tokens, std::int32_t depth, double variance) {
  const double count = std::max(tokens, 1);
  const double spread = std::sqrt(std::expm1(std::min(variance, 100.0)) / count);
  constexpr double kRoundingMargin = 1.05;  // bf16 changes a logit of 12 by up to 0.02
  return std::log(kRoundingMargin * count * (1 + 4 * spread) / std::max(20.0 - depth, 2.0)) + variance / 2;
}

// Drafts that are visible to the deepest query of a request's draft tree; 0 without such a tree.
std::int32_t tree_depth(const Forest& forest, const ForestRequest& request) {
  std::int32_t deepest = 0;
  for (std::int32_t query = 0; request.tree && query < request.queries; ++query) {
    std::int32_t depth = 0;
    for (std::int32_t i = query; i >= 0; i = forest.query_parent(request, i)) ++depth;
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

// Planted keys on the longest path to each node, its request's drafts included.
std::vector<std::int32_t> planted_depths(const Forest& forest) {
  std::vector<std::int32_t> depths;
  for (const ForestNode& node : forest.nodes) depths.push_back(node.depth + 1);
  for (const ForestRequest& request : forest.requests) {
    if (request.node >= 0) depths[static_cast<std::size_t>(request.node)] += tree_depth(forest, request);
  }
  return depths;
}

// For each root, its planted logit; by node, so that each node finds its root's.
std::vector<double> planted_logits(const Forest& forest, double variance) {
  const std::vector<std::int32_t> depths = planted_depths(forest);
  std::vector<double> logits(forest.nodes.size());
  for (std::size_t root = 0; root < forest.nodes.size();) {
    const auto last = static_cast<std::size_t>(forest.nodes[root].last);
    std::int32_t tokens = 0;
    std::int32_t depth = 0;
    for (std::size_t node = root; node < last; ++node) {
      tokens = std::max(tokens, forest.nodes[node].end);
      depth = std::max(depth, depths[node]);
    }
    std::fill(logits.begin() + static_cast<std::ptrdiff_t>(root), logits.begin() + static_cast<std::ptrdiff_t>(last),
              planted_logit(tokens, depth, variance));
    root = last;
  }
  return logits;
}

// For each page, how many of its places hold a token of some request.
std::vector<std::int32_t> find_used_places(const Batch& batch) {
  std::vector<std::int32_t> used(static_cast<std::size_t>(batch.num_pages), 0);
  const std::int32_t page_size = batch.pages.page_size();
  for (std::int32_t row = 0; row < batch.rows(); ++row) {
    const std::int32_t length = batch.kv_lens[static_cast<std::size_t>(row)];
    for (std::int32_t page = 0; std::int64_t{page} * page_size < length; ++page) {
      std::int32_t& places = used[static_cast<std::size_t>(batch.pages.id(row, page))];
      places = std::max(places, std::min(page_size, length - page * page_size));
    }
  }
  return used;
}

std::size_t round_up(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// Byte offsets of the tensors in one arena.
struct Offsets {
  std::size_t k = 0, v = 0, q = 0, out = 0, lse = 0, end = 0;
};

Offsets find_offsets(const AttentionShape& shape, std::int64_t num_pages, std::int64_t queries, DType out_dtype) {
  const auto tokens = static_cast<std::size_t>(num_pages) * static_cast<std::size_t>(shape.page_size);
  const auto dim = static_cast<std::size_t>(shape.head_dim_qk);
  const std::size_t cache = round_up(tokens * static_cast<std::size_t>(shape.kv_heads) * dim * size_of(shape.kv_dtype));
  const std::size_t rows = static_cast<std::size_t>(queries) * static_cast<std::size_t>(shape.q_heads);
  Offsets offsets;
  offsets.v = offsets.k + cache;
  offsets.q = offsets.v + cache;
  offsets.out = offsets.q + round_up(rows * dim * size_of(shape.q_dtype));
  offsets.lse = offsets.out + round_up(rows * dim * size_of(out_dtype));
  offsets.end = offsets.lse + round_up(rows * sizeof(float));
  return offsets;
}

// Runs `body(begin, end)` on all workers over equal parts of [0, count).
template <class Body>
void for_parts(Workers& workers, std::int64_t count, Body& body) {
  struct Context {
    Body& body;
    std::int64_t count;
    int workers;
  } context{body, count, workers.size()};
  workers.run(
      [](void* pointer, int worker) {
        const auto& part = *static_cast<Context*>(pointer);
        part.body(part.count * worker / part.workers, part.count * (worker + 1) / part.workers);
      },
      &context);
}

template <class Element>
class CacheFiller {
 public:
  CacheFiller(const AttentionShape& shape, const SyntheticOptions& options, const AttentionArgs& args)
      : shape_(shape), options_(options), args_(args) {}

  void fill_cache(const std::vector<std::int32_t>& used_places, std::int64_t page_begin, std::int64_t page_end) const {
    for (std::int64_t page = page_begin; page < page_end; ++page) {
      const std::int32_t used = options_.poison_unused ? used_places[static_cast<std::size_t>(page)] : shape_.page_size;
      for (std::int32_t place = 0; place < shape_.page_size; ++place) {
        for (std::int32_t head = 0; head < shape_.kv_heads; ++head) fill_token(page, place, head, place < used);
      }
    }
  }

  void plant_key(std::int64_t page, std::int32_t place, double logit) const {
    const double length = logit / (kSharedLogit * options_.logit_scale);
    for (std::int32_t head = 0; head < shape_.kv_heads; ++head) {
      Type* key = at(args_.k, page, place, head);
      for (std::int32_t i = 0; i < shape_.head_dim_qk; ++i) {
        key[i] = Element::from(static_cast<float>(length * direction_at(options_.seed, head, i, shape_.head_dim_qk)));
      }
    }
  }

 private:
  using Type = typename Element::Type;

  Type* at(const CacheView& cache, std::int64_t page, std::int64_t place, std::int64_t head) const {
    return static_cast<Type*>(const_cast<void*>(cache.data)) + page * cache.page_stride + place * cache.token_stride +
           head * cache.head_stride;
  }

  void fill_token(std::int64_t page, std::int32_t place, std::int32_t head, bool used) const {
    Type* key = at(args_.k, page, place, head);
    Type* value = at(args_.v, page, place, head);
    if (!used) {
      std::fill_n(key, shape_.head_dim_qk, nan_);
      std::fill_n(value, shape_.head_dim_qk, nan_);
      return;
    }
    const auto index = static_cast<std::uint64_t>((page * shape_.page_size + place) * shape_.kv_heads + head);
    normals_.fill(key, shape_.head_dim_qk, stream_seed(options_.seed, Stream::kKeys, index));
    normals_.fill(value, shape_.head_dim_qk, stream_seed(options_.seed, Stream::kValues, index));
  }

  const AttentionShape& shape_;
  const SyntheticOptions& options_;
  const AttentionArgs& args_;
  const NormalTable<Element> normals_;
  const Type nan_ = Element::from(std::numeric_limits<float>::quiet_NaN());
};

// A query row: logit_scale * (normal noise across the head's direction, of length sqrt(d), + the shared part along it).
// The fixed length gives ordinary logits the same variance for all queries.
template <class Element>
void fill_queries(const AttentionShape& shape, const SyntheticOptions& options, std::int64_t rows, void* to) {
  const auto dim = static_cast<std::size_t>(shape.head_dim_qk);
  const double length = std::sqrt(static_cast<double>(dim));
  const NormalTable<Float> normals;
  std::vector<float> noise(dim);
  std::vector<double> direction(dim);
  auto* queries = static_cast<typename Element::Type*>(to);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto head = static_cast<int>(row % shape.q_heads) / shape.group_size();
    normals.fill(noise.data(), shape.head_dim_qk,
                 stream_seed(options.seed, Stream::kQueries, static_cast<std::uint64_t>(row)));
    double along = 0;
    double squares = 0;
    for (std::size_t i = 0; i < dim; ++i) {
      direction[i] = direction_at(options.seed, head, static_cast<int>(i), shape.head_dim_qk);
      along += direction[i] * static_cast<double>(noise[i]);
      squares += static_cast<double>(noise[i]) * static_cast<double>(noise[i]);
    }
    const double across = squares - along * along;
    const double noise_scale = across > 0 ? length / std::sqrt(across) : 0;
    for (std::size_t i = 0; i < dim; ++i) {
      const double value =
          noise_scale * (static_cast<double>(noise[i]) - along * direction[i]) + kSharedLogit * length * direction[i];
      queries[static_cast<std::size_t>(row) * dim + i] =
          Element::from(static_cast<float>(static_cast<double>(options.logit_scale) * value));
    }
  }
}

template <class Element>
void fill_cache(const AttentionShape& shape, const Batch& batch, const Forest& forest, const SyntheticOptions& options,
                const AttentionArgs& args, Workers& workers) {
  const CacheFiller<Element> filler(shape, options, args);
  const std::vector<std::int32_t> used_places = find_used_places(batch);
  const auto fill_pages = [&](std::int64_t begin, std::int64_t end) { filler.fill_cache(used_places, begin, end); };
  for_parts(workers, batch.num_pages, fill_pages);
  if (!options.planted_keys) return;

  const std::vector<double> logits =
      planted_logits(forest, options.logit_scale * options.logit_scale * (1 + kSharedLogit * kSharedLogit));
  for (std::size_t node = 0; node < forest.nodes.size(); ++node) {
    const ForestNode& run = forest.nodes[node];
    const auto plant = [&](std::int32_t token) {
      filler.plant_key(batch.pages.id(run.row, token / shape.page_size), token % shape.page_size, logits[node]);
    };
    const ForestRequest& request = forest.requests[static_cast<std::size_t>(run.row)];
    const bool drafts = request.tree && request.node == static_cast<std::int32_t>(node);
    const std::int32_t past_end = drafts ? run.end - request.queries : run.end;
    RandomBits random(stream_seed(options.seed, Stream::kPlanted, node));
    if (past_end > run.begin) {
      plant(run.begin + static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(past_end - run.begin))));
    }
    for (std::int32_t token = past_end; token < run.end; ++token) plant(token);
  }
}

void check_shape(const AttentionShape& shape, const SyntheticOptions& options) {
  if (shape.kv_heads < 1 || shape.q_heads < 1 || shape.q_heads % shape.kv_heads != 0) {
    fail(ErrorCode::kInvalidArgument, "q_heads is ", shape.q_heads, " and kv_heads is ", shape.kv_heads,
         "; q_heads must be a multiple of kv_heads, both >= 1");
  }
  if (shape.head_dim_qk < 1 || shape.head_dim_v != shape.head_dim_qk) {
    fail(ErrorCode::kInvalidArgument, "head_dim_qk is ", shape.head_dim_qk, " and head_dim_v is ", shape.head_dim_v,
         "; they must be the same, at least 1");
  }
  if (size_of(shape.q_dtype) < 2) {
    fail(ErrorCode::kUnsupported, "q_dtype is ", name_of(shape.q_dtype), "; supported: f32, f16, bf16");
  }
  if (shape.page_size < 1)
    fail(ErrorCode::kInvalidArgument, "page_size is ", shape.page_size, "; at least 1 is needed");
  if (!(options.logit_scale > 0)) {
    fail(ErrorCode::kInvalidArgument, "logit_scale is ", options.logit_scale, "; it must be > 0");
  }
}

}  // namespace

std::int64_t synthetic_cache_bytes(const AttentionShape& shape, std::int64_t num_pages, std::int64_t queries,
                                   DType out_dtype) {
  // Sizes that no machine has would overflow; the answer is then a size that no machine has either.
  constexpr double kTooMuch = 0x1p61;
  const double heads = std::max(shape.q_heads, shape.kv_heads);
  const double places = static_cast<double>(num_pages) * shape.page_size + static_cast<double>(queries);
  if (16.0 * heads * shape.head_dim_qk * places > kTooMuch) return static_cast<std::int64_t>(kTooMuch);
  return static_cast<std::int64_t>(find_offsets(shape, num_pages, queries, out_dtype).end);
}

struct SyntheticCache::State {
  Arena arena;
  AttentionArgs args;
};

SyntheticCache::SyntheticCache(const AttentionShape& shape, const Batch& batch, const Forest& forest,
                               const SyntheticOptions& options, Workers& workers) {
  check_shape(shape, options);
  const Offsets offsets = find_offsets(shape, batch.num_pages, batch.total_queries(), options.out_dtype);
  state_ = std::unique_ptr<State>(new State{Arena(offsets.end), {}});
  std::byte* memory = state_->arena.data();
  AttentionArgs& args = state_->args;
  const auto cache = options.layout == CacheLayout::kNhd ? nhd_cache : hnd_cache;
  args.k = cache(memory + offsets.k, shape);
  args.v = cache(memory + offsets.v, shape);
  args.q = memory + offsets.q;
  args.out = memory + offsets.out;
  args.out_dtype = options.out_dtype;
  args.lse = static_cast<float*>(static_cast<void*>(memory + offsets.lse));
  void* const q = memory + offsets.q;
  const std::int64_t rows = std::int64_t{batch.total_queries()} * shape.q_heads;
  switch (shape.q_dtype) {
    case DType::kF32: fill_queries<Float>(shape, options, rows, q); break;
    case DType::kF16: fill_queries<Half>(shape, options, rows, q); break;
    case DType::kBF16: fill_queries<BFloat>(shape, options, rows, q); break;
    case DType::kF8E4M3:
    case DType::kF8E5M2: break;
  }
  switch (shape.kv_dtype) {
    case DType::kF32: fill_cache<Float>(shape, batch, forest, options, args, workers); break;
    case DType::kF16: fill_cache<Half>(shape, batch, forest, options, args, workers); break;
    case DType::kBF16: fill_cache<BFloat>(shape, batch, forest, options, args, workers); break;
    case DType::kF8E4M3: fill_cache<E4M3>(shape, batch, forest, options, args, workers); break;
    case DType::kF8E5M2: fill_cache<E5M2>(shape, batch, forest, options, args, workers); break;
  }
}

SyntheticCache::~SyntheticCache() = default;
SyntheticCache::SyntheticCache(SyntheticCache&&) noexcept = default;
SyntheticCache& SyntheticCache::operator=(SyntheticCache&&) noexcept = default;

const AttentionArgs& SyntheticCache::args() const {
  return state_->args;
}

}  // namespace trunkline
