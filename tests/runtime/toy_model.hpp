// A small transformer of random weights in fp32, through the runtime; and the same model on whole sequences, with plain
// attention, which keeps nothing between calls.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "trunkline/runtime/branch_controller.hpp"

namespace trunkline::testing {

class ToyWeights {
 public:
  static constexpr std::int32_t kLayers = 2;
  static constexpr std::int32_t kHeads = 4;
  static constexpr std::int32_t kKvHeads = 2;
  static constexpr std::int32_t kDim = 64;
  static constexpr std::int32_t kWidth = 32;
  using Rows = std::vector<std::vector<float>>;
  /// out [T, Hq * d] of a layer from q [T, Hq * d], k and v [T, Hkv * d]
  using Attend = std::function<Rows(std::int32_t layer, const Rows& q, const Rows& k, const Rows& v)>;

  ToyWeights(std::int32_t vocabulary, std::uint64_t seed) : vocabulary_(vocabulary), random_(seed) {
    embedding_ = matrix(vocabulary, kWidth, 1);
    for (std::int32_t layer = 0; layer < kLayers; ++layer) {
      to_q_.push_back(matrix(kHeads * kDim, kWidth, 2));
      to_k_.push_back(matrix(kKvHeads * kDim, kWidth, 1));
      to_v_.push_back(matrix(kKvHeads * kDim, kWidth, 1));
      back_.push_back(matrix(kWidth, kHeads * kDim, 1));
    }
    unembedding_ = matrix(vocabulary, kWidth, 1.5F);
  }

  std::int32_t vocabulary() const { return vocabulary_; }

  /// Logits after each token. Positions enter by a rotation of the embedding.
  Rows forward(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions,
               const Attend& attend) const {
    Rows hidden;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      hidden.push_back(embedding_[static_cast<std::size_t>(tokens[i])]);
      for (std::size_t j = 0; j < hidden.back().size(); ++j) {
        hidden.back()[j] += 0.3F * std::sin(static_cast<float>(positions[i]) / static_cast<float>(j + 1));
      }
    }
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      const Rows x = normed(hidden);
      const Rows out = attend(static_cast<std::int32_t>(layer), times(to_q_[layer], x), times(to_k_[layer], x),
                              times(to_v_[layer], x));
      const Rows added = times(back_[layer], out);
      for (std::size_t i = 0; i < hidden.size(); ++i) {
        for (std::size_t j = 0; j < kWidth; ++j) hidden[i][j] += added[i][j];
      }
    }
    return times(unembedding_, normed(hidden));
  }

  /// Logits after the last token of a sequence, by plain attention.
  std::vector<float> after(std::span<const std::int32_t> sequence) const {
    std::vector<std::int32_t> positions;
    for (std::size_t i = 0; i < sequence.size(); ++i) positions.push_back(static_cast<std::int32_t>(i));
    return forward(sequence, positions, plain).back();
  }

 private:
  Rows matrix(std::int32_t rows, std::int32_t columns, float scale) {
    std::normal_distribution<float> normal(0, scale / std::sqrt(static_cast<float>(columns)));
    Rows made(static_cast<std::size_t>(rows), std::vector<float>(static_cast<std::size_t>(columns)));
    for (auto& row : made) {
      for (float& value : row) value = normal(random_);
    }
    return made;
  }
  static Rows times(const Rows& matrix, const Rows& rows) {
    Rows out(rows.size(), std::vector<float>(matrix.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < matrix.size(); ++j) {
        float sum = 0;
        for (std::size_t c = 0; c < rows[i].size(); ++c) sum += matrix[j][c] * rows[i][c];
        out[i][j] = sum;
      }
    }
    return out;
  }
  static Rows normed(Rows rows) {
    for (auto& row : rows) {
      float sum = 1e-6F;
      for (const float value : row) sum += value * value;
      for (float& value : row) value *= std::sqrt(static_cast<float>(row.size()) / sum);
    }
    return rows;
  }
  static Rows plain(std::int32_t, const Rows& q, const Rows& k, const Rows& v) {
    Rows out(q.size(), std::vector<float>(q.front().size()));
    for (std::size_t i = 0; i < q.size(); ++i) {
      for (std::size_t head = 0; head < kHeads; ++head) {
        const std::size_t kv = head / (kHeads / kKvHeads) * kDim;
        std::vector<double> weights;
        double sum = 0;
        for (std::size_t t = 0; t <= i; ++t) {
          double dot = 0;
          for (std::size_t c = 0; c < kDim; ++c) dot += double{q[i][head * kDim + c]} * k[t][kv + c];
          weights.push_back(std::exp(dot / std::sqrt(double{kDim})));
          sum += weights.back();
        }
        for (std::size_t c = 0; c < kDim; ++c) {
          double value = 0;
          for (std::size_t t = 0; t <= i; ++t) value += weights[t] * v[t][kv + c];
          out[i][head * kDim + c] = static_cast<float>(value / sum);
        }
      }
    }
    return out;
  }

  std::int32_t vocabulary_;
  std::mt19937_64 random_;
  Rows embedding_;
  std::vector<Rows> to_q_, to_k_, to_v_, back_;
  Rows unembedding_;
};

/// The model on the runtime: its KV is in a store, its attention is a plan's.
class ToyTreeModel final : public TreeModel {
 public:
  ToyTreeModel(const ToyWeights& weights, std::int32_t page_size, std::int64_t num_pages)
      : weights_(weights),
        store({.layers = ToyWeights::kLayers,
               .kv_heads = ToyWeights::kKvHeads,
               .head_dim_qk = ToyWeights::kDim,
               .head_dim_v = ToyWeights::kDim,
               .page_size = page_size,
               .num_pages = num_pages,
               .dtype = DType::kF32}),
        attention(
            AttentionShape::uniform(ToyWeights::kHeads, ToyWeights::kKvHeads, ToyWeights::kDim, page_size, DType::kF32),
            store, workers_, generic_cpu_profile(1)) {}

  std::int32_t vocabulary() const override { return weights_.vocabulary(); }
  void forward(SequenceTree& tree, const TreeStep& step, std::span<const std::int32_t> queries,
               std::span<float> logits) override {
    if (fail_in == 0) throw std::runtime_error("the model has failed");
    if (fail_in > 0) --fail_in;
    attention.begin_step(tree);
    const auto attend = [&](std::int32_t layer, const ToyWeights::Rows& q, const ToyWeights::Rows& k,
                            const ToyWeights::Rows& v) {
      const std::vector<float> flat_q = flat(q);
      std::vector<float> out(flat_q.size());
      attention.run(layer, flat_q.data(), flat(k).data(), flat(v).data(), out.data(), DType::kF32);
      ToyWeights::Rows rows;
      const auto width = static_cast<std::ptrdiff_t>(q.front().size());
      for (auto row = out.begin(); row != out.end(); row += width) rows.emplace_back(row, row + width);
      return rows;
    };
    const ToyWeights::Rows all = weights_.forward(step.tokens, step.positions, attend);
    auto to = logits.begin();
    for (const std::int32_t query : queries) to = std::ranges::copy(all[static_cast<std::size_t>(query)], to).out;
  }

 private:
  static std::vector<float> flat(const ToyWeights::Rows& rows) {
    std::vector<float> all;
    for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
    return all;
  }

  const ToyWeights& weights_;
  ThreadPool workers_{1};

 public:
  KvStore store;
  TreeAttention attention;
  int fail_in = -1;  // calls until one throws; negative: none does
};

}  // namespace trunkline::testing
