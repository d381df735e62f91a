// KvStore: strides, copies, moves, save and restore, refusals.
#include "trunkline/runtime/kv_store.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "support/expect_error.hpp"

namespace trunkline::testing {
namespace {

constexpr KvStoreShape kShape{.layers = 2,
                              .kv_heads = 2,
                              .head_dim_qk = 3,
                              .head_dim_v = 2,
                              .page_size = 4,
                              .num_pages = 3,
                              .dtype = DType::kF32};

std::vector<float> counting(std::size_t count, float first) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

float k_at(const KvStore& store, std::int32_t layer, std::int64_t page, std::int64_t offset, std::int64_t head,
           std::int64_t i) {
  const CacheView k = store.k(layer);
  return static_cast<const float*>(k.data)[page * k.page_stride + offset * k.token_stride + head * k.head_stride + i];
}

TEST(KvStore, WritesTokensWhereTheSlotsSay) {
  KvStore store(kShape);
  const std::vector<std::int64_t> slots{5, 11};
  store.write(1, slots, counting(12, 100).data(), counting(8, 200).data());
  EXPECT_EQ(k_at(store, 1, 1, 1, 0, 0), 100);
  EXPECT_EQ(k_at(store, 1, 1, 1, 1, 2), 105);
  EXPECT_EQ(k_at(store, 1, 2, 3, 0, 1), 107);
  EXPECT_EQ(k_at(store, 0, 1, 1, 0, 0), 0) << "the other layer is as it was";
  const CacheView v = store.v(1);
  EXPECT_EQ(static_cast<const float*>(v.data)[2 * v.page_stride + 3 * v.token_stride + v.head_stride + 1], 207);
  EXPECT_EQ(store.bytes_per_token(), 2u * 2u * 5u * 4u);
}

TEST(KvStore, UsesTheCallersMemoryByItsStrides) {
  // HND pages: heads before tokens.
  std::vector<float> k(2 * 3 * 2 * 4 * 3);
  std::vector<float> v(2 * 3 * 2 * 4 * 2);
  std::vector<KvStoreLayer> layers;
  for (std::size_t layer = 0; layer < 2; ++layer) {
    layers.push_back({{k.data() + layer * 72, 24, 3, 12}, {v.data() + layer * 48, 16, 2, 8}});
  }
  KvStore store(kShape, layers);
  const std::vector<std::int64_t> slots{6};
  store.write(0, slots, counting(6, 1).data(), counting(4, 1).data());
  EXPECT_EQ(k[24 + 2 * 3 + 1], 2) << "head 0";
  EXPECT_EQ(k[24 + 12 + 2 * 3], 4) << "head 1";
  EXPECT_EQ(v[16 + 8 + 2 * 2 + 1], 4);
}

TEST(KvStore, CopiesMovesSavesAndRestores) {
  KvStore store(kShape);
  for (std::int32_t layer = 0; layer < 2; ++layer) {
    const std::vector<std::int64_t> slots{0, 1, 2, 3};
    store.write(layer, slots, counting(24, 10.F * static_cast<float>(layer + 1)).data(), counting(16, 0).data());
  }
  store.copy_pages(std::vector<PageCopy>{{.from = 0, .to = 2, .tokens = 3}});
  EXPECT_EQ(k_at(store, 1, 2, 2, 1, 2), k_at(store, 1, 0, 2, 1, 2));
  EXPECT_EQ(k_at(store, 1, 2, 3, 1, 2), 0) << "only the first tokens of a page are copied";
  store.move_tokens(std::vector<TokenMove>{{2, 0}, {3, 1}});
  EXPECT_EQ(k_at(store, 0, 0, 1, 0, 0), 28);

  const std::vector<std::int64_t> from{1, 9};
  std::vector<std::byte> bytes(2 * store.bytes_per_token());
  store.save(from, bytes);
  const std::vector<std::int64_t> to{4, 7};
  store.restore(to, bytes);
  EXPECT_EQ(k_at(store, 0, 1, 0, 0, 0), 28);
  EXPECT_EQ(k_at(store, 1, 1, 3, 1, 0), k_at(store, 1, 2, 1, 1, 0));
}

TEST(KvStore, RefusesWhatCannotBe) {
  KvStoreShape shape = kShape;
  shape.layers = 0;
  expect_error(ErrorCode::kInvalidArgument, "shape.layers is 0", [&] { KvStore store(shape); });
  shape = kShape;
  shape.num_pages = 0;
  expect_error(ErrorCode::kInvalidArgument, "shape.num_pages is 0", [&] { KvStore store(shape); });
  expect_error(ErrorCode::kInvalidArgument, "layers has 1 entries; shape.layers is 2",
               [&] { KvStore store(kShape, std::vector<KvStoreLayer>(1)); });
  expect_error(ErrorCode::kInvalidArgument, "layers[0].k.data is null",
               [&] { KvStore store(kShape, std::vector<KvStoreLayer>(2)); });
  KvStore store(kShape);
  float kv[8] = {};
  const std::vector<std::int64_t> slots{12};
  expect_error(ErrorCode::kOutOfRange, "slots[0] is 12; the store has slots 0 to 11",
               [&] { store.write(0, slots, kv, kv); });
  expect_error(ErrorCode::kOutOfRange, "layer is 2", [&] { store.write(2, {}, kv, kv); });
  const std::vector<std::int64_t> good{1};
  expect_error(ErrorCode::kInvalidArgument, "v is null", [&] { store.write(0, good, kv, nullptr); });
  expect_error(ErrorCode::kOutOfRange, "copies[0] is from page 0 to page 3",
               [&] { store.copy_pages(std::vector<PageCopy>{{.from = 0, .to = 3, .tokens = 1}}); });
  std::vector<std::byte> bytes(1);
  expect_error(ErrorCode::kInvalidArgument, "bytes has 1 bytes; 1 tokens take 80", [&] { store.save(good, bytes); });
}

}  // namespace
}  // namespace trunkline::testing
