// Tests that need no GPU: status, support, names, the layout of workspaces and the upload.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "cuda/device_case.hpp"
#include "exec/cuda/kernels/kernel_families.hpp"
#include "exec/cuda/kernels/sm90/single_query/config.hpp"
#include "exec/cuda/step/upload.hpp"
#include "exec/cuda/step/workspace.hpp"
#include "exec/live_rows.hpp"
#include "support/expect_error.hpp"
#include "support/policies.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

using cuda::WorkspaceLayout;

const std::vector<TileShape> kTiles{{16, 32}, {32, 32}, {64, 32}};

TEST(CudaHost, StatusSaysWhy) {
  const CudaStatus status = cuda_status();
  EXPECT_EQ(status.usable, status.reason.empty()) << status.reason;
  EXPECT_EQ(status.usable, status.devices > 0);
  if (status.usable) return;
  expect_error(ErrorCode::kUnsupported, status.reason, [] { CudaExecutor executor; });
  expect_error(ErrorCode::kUnsupported, status.reason, [] { cuda_profile(0, {}); });
  EXPECT_THAT(supports(on_cuda(make_shape(8, 4, 128, 16))).reason, ::testing::HasSubstr(status.reason));
}

TEST(CudaHost, TheDeviceChoosesKernels) {
  const auto chosen = [](std::int32_t major, std::int32_t head_dim) {
    return cuda::find_family(CudaKernels::kAuto, major, {DType::kBF16, DType::kBF16, head_dim})->kernels;
  };
  for (const std::int32_t head_dim : {64, 128, 256}) {
    EXPECT_EQ(chosen(9, head_dim), CudaKernels::kHopper) << head_dim;
    for (const std::int32_t major : {8, 10, 12}) EXPECT_EQ(chosen(major, head_dim), CudaKernels::kPortable) << head_dim;
  }
}

TEST(CudaHost, KernelsThatHaveNoneForADeviceSaySo) {
  const AttentionShape shape = on_cuda(make_shape(2, 4, 64, 16));
  EXPECT_TRUE(cuda::supports_family(CudaKernels::kHopper, 9, shape));
  EXPECT_TRUE(cuda::supports_family(CudaKernels::kAuto, 8, shape));
  EXPECT_EQ(
      cuda::supports_family(CudaKernels::kHopper, 8, shape).reason,
      "kernels are hopper, which has none for f16 queries, f16 K and V and head size 64 on compute capability 8.x; "
      "supported: auto");
  const AttentionShape narrow = with_kv_dtype(shape, DType::kF8E4M3);
  EXPECT_TRUE(cuda::supports_family(CudaKernels::kAuto, 9, narrow));
  EXPECT_EQ(cuda::supports_family(CudaKernels::kAuto, 8, narrow).reason,
            "kernels are auto, which has none for f16 queries, f8_e4m3 K and V and head size 64 on compute capability "
            "8.x; supported: auto");
}

TEST(CudaHost, ForwardModesHaveNames) {
  for (const RunWay way : kRunWays) EXPECT_EQ(experimental::forward_mode_from_name(name_of(way.forward)), way.forward);
  expect_error(ErrorCode::kInvalidArgument, "\"fast\"; known: persistent, streams, serial",
               [] { experimental::forward_mode_from_name("fast"); });
}

// Plans of one capacity lie at the same addresses, which captured graphs hold.
TEST(CudaHost, OneCapacityIsOneLayout) {
  const AttentionShape shape = on_cuda(make_shape(2, 4, 64, 16));
  PlanOptions options;
  options.capacity = {.queries = 64, .items = 512, .spans = 1024, .partials = 1024};
  std::size_t bytes = 0;
  std::size_t masks_at = 0;
  for (const char* levels : {"1,3/40,20", "1,4,32/200,100,40", "40/33"}) {
    const Forest forest = build_forest(lay_out_pages(tree_from_levels(levels), 16, 1).view());
    for (const Policy policy : packing_policies()) {
      options.policy = policy;
      options.split = experimental::kSplitMean;
      const Plan plan = make_plan(forest, shape, cutting_gpu_profile(32), options);
      const PlanSizes capacities = capacities_for(plan);
      EXPECT_EQ(find_shortage(sizes_of(plan), capacities).name, nullptr);
      const WorkspaceLayout layout = cuda::lay_out(capacities, shape, MergeMode::kSeparate, {});
      EXPECT_TRUE(bytes == 0 || (layout.bytes == bytes && layout.masks == masks_at)) << levels << name_of(policy);
      bytes = layout.bytes;
      masks_at = layout.masks;
    }
  }
}

// All of them are in front of what an upload writes, which clears what is there.
TEST(CudaHost, CountersLieBesideEachOther) {
  const WorkspaceLayout layout = cuda::lay_out({}, on_cuda(make_shape(8, 4, 128, 16)), MergeMode::kSeparate, {});
  EXPECT_GE(layout.cluster_arrivals, layout.queues + cuda::kMaxQueues * sizeof(cuda::QueueCounters));
  EXPECT_GE(layout.counts, layout.cluster_arrivals + cuda::single_query::kCounters * sizeof(std::int32_t));
}

TEST(CudaHost, ShortagesAreNamed) {
  const PlanSizes capacities{.queries = 4, .items = 4, .item_queries = 8, .spans = 9};
  PlanSizes needed = capacities;
  EXPECT_EQ(find_shortage(needed, capacities).name, nullptr);
  needed.spans = 10;
  const Shortage shortage = find_shortage(needed, capacities);
  EXPECT_STREQ(shortage.name, "spans");
  EXPECT_EQ(shortage.needed, 10U);
  EXPECT_EQ(shortage.capacity, 9U);
}

TEST(CudaHost, UploadsRowsInPlaceOfSlots) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,3/40,20"), 16, 1);
  Batch batch = paged.view();
  const std::vector<std::int32_t> slots{9, 4, 7};
  const std::vector<std::uint32_t> generations{1, 2, 3};
  batch.slots = slots;
  batch.generations = generations;
  const Plan plan = make_plan(build_forest(batch), on_cuda(make_shape(2, 4, 64, 16)), cutting_gpu_profile(2),
                              options_of(Policy::kNode, KvSplit::kNone));
  const WorkspaceLayout layout = cuda::lay_out(capacities_for(plan), plan.shape, MergeMode::kFused, {});
  std::vector<std::int32_t> table(slot_table_size(3));
  AlignedWorkspace memory(cuda::upload_bytes(plan, layout));
  std::byte* const at = memory.bytes().data();
  cuda::write_upload(plan, batch, kTiles, layout, MergeMode::kFused, table, at);
  EXPECT_EQ(reinterpret_cast<const ListCounts*>(at + layout.counts)->items,
            static_cast<std::int32_t>(plan.items.size()));
  for (std::size_t i = 0; i < plan.queries.size(); ++i) {
    const RowQuery& query = reinterpret_cast<const RowQuery*>(at + layout.queries)[i];
    EXPECT_EQ(slots[static_cast<std::size_t>(query.row)], plan.queries[i].slot);
    EXPECT_EQ(query.token, query.row);
  }
  for (std::size_t i = 0; i < plan.spans.size(); ++i) {
    const RowSpan& span = reinterpret_cast<const RowSpan*>(at + layout.spans)[i];
    EXPECT_EQ(slots[static_cast<std::size_t>(span.row)], plan.spans[i].slot);
    EXPECT_EQ(span.begin, plan.spans[i].begin);
  }
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const WorkItem& item = reinterpret_cast<const WorkItem*>(at + layout.items)[i];
    EXPECT_EQ(item.tile, (TileShape{plan.items[i].tile.m, 32})) << "the kernel's own n";
  }
  ASSERT_GT(plan.partials, 0);
  for (std::size_t merge = 0; merge < plan.merge_queries.size(); ++merge) {
    for (std::int32_t i = plan.merge_begin[merge]; i < plan.merge_begin[merge + 1]; ++i) {
      const std::int32_t slot = plan.merge_slots[static_cast<std::size_t>(i)];
      EXPECT_EQ(reinterpret_cast<const std::int32_t*>(at + layout.partial_merges)[slot], static_cast<int>(merge));
    }
  }
  for (int queue = 0; queue < cuda::kMaxQueues; ++queue) {
    EXPECT_EQ(reinterpret_cast<const cuda::QueueCounters*>(at + layout.queues)[queue].next_task, 0);
  }
}

TEST(CudaHost, TilesThatAreNotCompiledAreRefused) {
  Plan plan;
  plan.shape = on_cuda(make_shape(1, 4, 64, 16));
  plan.items = {{{0, 4}, {0, 0}, {16, 128}}, {{4, 20}, {0, 0}, {64, 32}}};
  EXPECT_EQ(cuda::used_tiles(plan, kTiles, 0), 0b101U);
  plan.items[1].tile.m = 128;
  expect_error(ErrorCode::kUnsupported, "items[1].tile is 128 x 32; compiled for head size 64: 16 x 32, 32 x 32",
               [&] { cuda::used_tiles(plan, kTiles, 0); });
  plan.items[1].tile.m = 32;
  expect_error(ErrorCode::kUnsupported, "items[1] has 64 rows, more than its tile of 32",
               [&] { cuda::used_tiles(plan, kTiles, 0); });
}

TEST(CudaHost, HalvesThatTheKernelsDoNotHaveAreRefused) {
  const std::vector<TileShape> tiles{{64, 64}, {128, 64}};
  Plan plan;
  plan.shape = on_cuda(make_shape(1, 4, 128, 16));
  plan.items = {{{0, 20}, {0, 0}, {128, 64}, 16}};
  EXPECT_EQ(cuda::used_tiles(plan, tiles, 64), 0b10U);
  expect_error(ErrorCode::kUnsupported, "no halves in such a tile", [&] { cuda::used_tiles(plan, tiles, 0); });
  plan.items[0].first_half = 0;
  expect_error(ErrorCode::kUnsupported, "two halves in such a tile", [&] { cuda::used_tiles(plan, tiles, 64); });
  plan.items[0].first_half = 3;  // 17 queries, 68 rows, in the second
  expect_error(ErrorCode::kUnsupported, "a first half of 3 queries", [&] { cuda::used_tiles(plan, tiles, 64); });
}

}  // namespace
}  // namespace trunkline::testing
