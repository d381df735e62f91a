// The checking mode: page ids and lengths on the device that lead out of the cache or the table.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cuda/device_case.hpp"
#include "kv/paged_batch.hpp"
#include "support/expect_error.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"

namespace trunkline::testing {
namespace {

class CudaPageCheck : public CudaTest {
 protected:
  // Expects resolve() to refuse a batch whose table or lengths changed after the upload.
  static void expect_refused(const Batch& uploaded, const Batch& live, const char* words) {
    CudaExecutor executor({.check_pages = true, .kernels = CudaKernels::kPortable});
    const Plan plan = make_plan(build_forest(uploaded), on_cuda(make_shape(1, 4, 64, uploaded.pages.page_size())),
                                cutting_gpu_profile(2), options_of(Policy::kNode, KvSplit::kNone));
    const DeviceMemory workspace(executor.workspace_bytes(plan));
    executor.upload(plan, uploaded, workspace.data(), workspace.size(), nullptr);
    DeviceBatch on_device(live);
    CudaBatch view = on_device.view();
    view.num_pages = live.num_pages;
    if (words == nullptr) {
      EXPECT_NO_THROW(executor.resolve(view, workspace.data(), nullptr));
    } else {
      expect_error(ErrorCode::kOutOfRange, words, [&] { executor.resolve(view, workspace.data(), nullptr); });
    }
    view.num_pages = 0;
    expect_error(ErrorCode::kInvalidArgument, "batch.num_pages is 0",
                 [&] { executor.resolve(view, workspace.data(), nullptr); });
  }
};

TEST_F(CudaPageCheck, TheFirstBadPageIsNamed) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,4/64,40"), 16, 3);
  expect_refused(paged.view(), paged.view(), nullptr);  // entries past a row's end hold huge ids

  PagedBatch broken = paged;
  broken.page_ids[static_cast<std::size_t>(2 * paged.width + 5)] = -3;
  expect_refused(paged.view(), broken.view(), "page 5 of row 2 is -3; the cache has");
  broken.page_ids[static_cast<std::size_t>(2 * paged.width + 1)] = static_cast<std::int32_t>(paged.num_pages);
  expect_refused(paged.view(), broken.view(), "page 1 of row 2 is");
  broken = paged;
  broken.kv_lens[3] = static_cast<std::int32_t>(paged.width) * 16 + 1;
  expect_refused(paged.view(), broken.view(), "kv_lens[3] is");
  broken.kv_lens[1] = -7;
  expect_refused(paged.view(), broken.view(), "kv_lens[1] is -7");
}

TEST_F(CudaPageCheck, EveryFormOfTable) {
  for (const TableForm form : {TableForm::kDense, TableForm::kCsr, TableForm::kTokenLevel}) {
    for (const bool wide : {false, true}) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(form) << (wide ? " wide" : ""));
      std::mt19937_64 random(4);
      RandomBatchOptions options;
      options.form = form;
      options.wide_ids = wide;
      options.page_size = form == TableForm::kTokenLevel ? 1 : 16;
      options.max_rows = 12;
      const RandomBatch batch = make_random_batch(random, options);
      expect_refused(batch.view(), batch.view(), nullptr);
      Batch fewer = batch.view();
      fewer.num_pages = 1;  // some page is beyond
      expect_refused(batch.view(), fewer, "; the cache has 1 pages");
    }
  }
}

TEST_F(CudaPageCheck, CapturesAndTheEnvironment) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,4/64,40"), 16, 3);
  const Batch batch = paged.view();
  setenv("TRUNKLINE_CHECK", "1", 1);
  CudaExecutor executor(RunWay{}.options());
  unsetenv("TRUNKLINE_CHECK");
  const Plan plan = make_plan(build_forest(batch), on_cuda(make_shape(1, 4, 64, 16)), cutting_gpu_profile(2), {});
  const DeviceMemory workspace(executor.workspace_bytes(plan));
  const DeviceBatch on_device(batch);
  CudaBatch view = on_device.view();
  view.num_pages = 2;
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream));
  executor.upload(plan, batch, workspace.data(), workspace.size(), stream);
  expect_error(ErrorCode::kOutOfRange, "the cache has 2 pages",
               [&] { executor.resolve(view, workspace.data(), stream); });
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  expect_error(ErrorCode::kUnsupported, "capture without check_pages",
               [&] { executor.resolve(view, workspace.data(), stream); });
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphDestroy(graph));
  check(cudaStreamDestroy(stream));
}

}  // namespace
}  // namespace trunkline::testing
