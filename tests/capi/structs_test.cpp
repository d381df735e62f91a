// Structs of callers that were compiled with an older or a newer header.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "c_case.hpp"

namespace trunkline::testing {
namespace {

template <class Struct>
struct Newer {
  Struct known;
  std::int64_t later[2];
};

trunkline_shape small_shape() {
  auto shape = c_struct<trunkline_shape>();
  shape.q_heads = 8;
  shape.kv_heads = 2;
  shape.head_dim_qk = 64;
  shape.page_size = 16;
  shape.q_dtype = TRUNKLINE_F32;
  return shape;
}

TEST(CStructs, ANewerCallersZerosAreTaken) {
  Newer<trunkline_shape> shape{small_shape(), {0, 0}};
  shape.known.struct_size = sizeof(shape);
  EXPECT_OK(trunkline_supports(&shape.known));
  shape.later[1] = 1;
  expect_failure(trunkline_supports(&shape.known), TRUNKLINE_UNSUPPORTED, "shape has byte 48 set");
}

// Zero is V as K, and K and V of Q's type; anything else is taken for what it says.
TEST(CStructs, AShapeOfOneHeadSizeAndTypeNamesThemOnce) {
  trunkline_shape shape = small_shape();
  EXPECT_OK(trunkline_supports(&shape));
  shape.head_dim_v = 64;
  shape.kv_dtype = TRUNKLINE_F32;
  EXPECT_OK(trunkline_supports(&shape));
  shape.head_dim_v = 128;
  expect_failure(trunkline_supports(&shape), TRUNKLINE_UNSUPPORTED, "head_dim_qk is 64 and head_dim_v is 128");
  shape.head_dim_v = 0;
  shape.kv_dtype = TRUNKLINE_F16;
  expect_failure(trunkline_supports(&shape), TRUNKLINE_UNSUPPORTED, "q_dtype is f32 and kv_dtype is f16");
  shape.kv_dtype = TRUNKLINE_F8E4M3;
  EXPECT_OK(trunkline_supports(&shape));
  shape.q_dtype = TRUNKLINE_F8E5M2;
  expect_failure(trunkline_supports(&shape), TRUNKLINE_UNSUPPORTED, "q_dtype is f8_e5m2; supported: f32, f16, bf16");
  shape.q_dtype = TRUNKLINE_F32;
  shape.kv_dtype = TRUNKLINE_I32;
  expect_failure(trunkline_supports(&shape), TRUNKLINE_INVALID_ARGUMENT, "shape.kv_dtype is 4; known: TRUNKLINE_F32");
}

TEST(CStructs, ANewerCallersOutputIsZeroedPastWhatIsKnown) {
  Newer<trunkline_forest_info> info;
  std::memset(&info, 0xAB, sizeof(info));
  info.known.struct_size = sizeof(info);
  CForest forest;
  ASSERT_OK(trunkline_forest_create(forest.out()));
  ASSERT_OK(trunkline_forest_get_info(forest, &info.known));
  EXPECT_EQ(info.known.struct_size, sizeof(info));
  EXPECT_EQ(info.known.rows, 0);
  EXPECT_EQ(info.known.total_tokens, 0);
  EXPECT_EQ(info.later[0], 0);
  EXPECT_EQ(info.later[1], 0);
}

TEST(CStructs, ASizeThatWasNeverSetIsRefused) {
  trunkline_shape shape = small_shape();
  shape.struct_size = 0;
  expect_failure(trunkline_supports(&shape), TRUNKLINE_INVALID_ARGUMENT, "shape.struct_size is 0");
  expect_failure(trunkline_supports(nullptr), TRUNKLINE_INVALID_ARGUMENT, "shape is NULL");
  trunkline_forest_info info{};
  CForest forest;
  ASSERT_OK(trunkline_forest_create(forest.out()));
  expect_failure(trunkline_forest_get_info(forest, &info), TRUNKLINE_INVALID_ARGUMENT, "info.struct_size is 0");
}

TEST(CStructs, TheLibraryIsTheHeaders) {
  EXPECT_EQ(trunkline_abi_version(), TRUNKLINE_ABI_VERSION);
  EXPECT_STRNE(trunkline_version(), "");
  EXPECT_STRNE(trunkline_commit(), "");
}

}  // namespace
}  // namespace trunkline::testing
