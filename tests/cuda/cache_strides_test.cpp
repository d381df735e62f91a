// Caches whose pages are not contiguous: TMA tiles need pages that are whole octets apart, in K and in V; otherwise
// rows are copied one by one, by records that were written for TMA tiles.
#include <gtest/gtest.h>

#include "cuda/device_case.hpp"
#include "exec/cuda/kernels/sm90/forward/cache_maps.hpp"
#include "support/policies.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

class CudaCacheStrides : public CudaTest {};

/// A cache of 16-bit elements with a gap of so many elements between pages, filled with NaN.
class SpreadCache {
 public:
  SpreadCache(const CacheView& packed, std::int64_t pages, std::int64_t gap)
      : cache_(packed), memory_(static_cast<std::size_t>(2 * pages * (packed.page_stride + gap)), true) {
    const auto page = static_cast<std::size_t>(2 * packed.page_stride);
    const auto apart = page + static_cast<std::size_t>(2 * gap);
    check(cudaMemcpy2D(memory_.data(), apart, packed.data, page, page, static_cast<std::size_t>(pages),
                       cudaMemcpyHostToDevice));
    cache_.data = memory_.data();
    cache_.page_stride += gap;
  }

  const CacheView& view() const { return cache_; }

 private:
  CacheView cache_;
  DeviceMemory memory_;
};

/// The gap between pages in tokens.
struct Gaps {
  std::int64_t k;
  std::int64_t v;
};

std::int32_t octets_of_boxes(const AttentionArgs& args, const AttentionShape& shape) {
  cuda::ForwardArgs forward{};
  forward.pages.page_size = shape.page_size;
  forward.layer.kv_heads = shape.kv_heads;
  forward.layer.k = args.k.data;
  forward.layer.v = args.v.data;
  forward.layer.k_strides = {args.k.page_stride, args.k.token_stride, args.k.head_stride};
  forward.layer.v_strides = {args.v.page_stride, args.v.token_stride, args.v.head_stride};
  return cuda::sm90::make_cache_maps(forward, cuda::kernel_shape_of(shape)).octets;
}

TEST_F(CudaCacheStrides, PagesApart) {
  const PrefixTree tree = tree_from_levels("2,6,48/370,265,31");
  for (const std::int32_t page_size : {1, 8, 16, 24}) {
    const PagedBatch paged = lay_out_pages(tree, page_size, 5);
    const Batch batch = paged.view();
    const AttentionCase test(make_shape(2, 4, 128, page_size), batch);
    const DeviceBatch on_device(batch);
    DeviceTensors tensors(test);
    for (const Gaps gaps : {Gaps{1, 1}, Gaps{0, 1}, Gaps{3, 0}, Gaps{page_size, 8 * page_size}}) {
      const AttentionArgs& packed = test.args();
      const SpreadCache k(packed.k, batch.num_pages, gaps.k * packed.k.token_stride);
      const SpreadCache v(packed.v, batch.num_pages, gaps.v * packed.v.token_stride);
      AttentionArgs args = tensors.args();
      args.k = k.view();
      args.v = v.view();
      for (const CudaKernels kernels : kernels_for(test.shape())) {
        SCOPED_TRACE(::testing::Message() << "pages of " << page_size << ", " << gaps.k << " and " << gaps.v
                                          << " tokens apart, " << name_of(kernels));
        if (kernels == CudaKernels::kHopper) {
          const bool whole = gaps.k == page_size && page_size % 8 == 0;
          EXPECT_EQ(octets_of_boxes(args, test.shape()), !whole ? 0 : page_size % 16 == 0 ? 2 : 1);
        }
        for (const Policy policy : {Policy::kFlat, Policy::kTrunk}) {
          for (const KvSplit split : {KvSplit::kNone, experimental::kSplitMean}) {
            const Plan plan = make_plan(test.forest(), on_cuda(test.shape()), cutting_gpu_profile(8, kernels),
                                        options_of(policy, split));
            CudaExecutor& executor = executor_of({.kernels = kernels});
            const DeviceMemory workspace(executor.workspace_bytes(plan));
            tensors.poison();
            executor.upload(plan, batch, workspace.data(), workspace.size(), nullptr);
            executor.resolve(on_device.view(), workspace.data(), nullptr);
            executor.run(args, workspace.data(), nullptr);
            EXPECT_TRUE(test.matches(tensors.download(), tolerance_of(DType::kF16)))
                << name_of(policy) << " split " << name_of(split);
            executor.release(workspace.data());
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace trunkline::testing
