// Bad input is refused before the first launch, with a message that names the argument, the index and the value.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/device_case.hpp"
#include "support/expect_error.hpp"
#include "support/policies.hpp"
#include "synthetic/paged_batch.hpp"

namespace trunkline::testing {
namespace {

class CudaBadInput : public CudaTest {
 protected:
  CudaBadInput()
      : paged_(lay_out_pages(tree_from_levels("1,3/40,20"), 16, 1)),
        test_(make_shape(2, 4, 64, 16), paged_.view()),
        plan_(make_plan(test_.forest(), on_cuda(test_.shape()), cutting_gpu_profile(2),
                        options_of(Policy::kNode, KvSplit::kNone))) {}

  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    executor_ = std::make_unique<CudaExecutor>(RunWay{}.options());
    workspace_ = std::make_unique<DeviceMemory>(executor_->workspace_bytes(plan_));
    on_device_ = std::make_unique<DeviceBatch>(test_.batch());
    tensors_ = std::make_unique<DeviceTensors>(test_);
  }

  void upload(const Plan& plan, const Batch& batch) {
    executor_->upload(plan, batch, workspace_->data(), workspace_->size(), nullptr);
  }
  void resolve() { executor_->resolve(on_device_->view(), workspace_->data(), nullptr); }
  void run(const AttentionArgs& args) { executor_->run(args, workspace_->data(), nullptr); }

  PagedBatch paged_;
  AttentionCase test_;
  Plan plan_;
  std::unique_ptr<CudaExecutor> executor_;
  std::unique_ptr<DeviceMemory> workspace_;
  std::unique_ptr<DeviceBatch> on_device_;
  std::unique_ptr<DeviceTensors> tensors_;
};

TEST_F(CudaBadInput, Workspace) {
  std::byte* data = workspace_->as<std::byte>();
  const std::size_t bytes = workspace_->size();
  const auto refused = [&](void* at, std::size_t size, const char* words) {
    expect_error(ErrorCode::kWorkspace, words, [&] { executor_->upload(plan_, test_.batch(), at, size, nullptr); });
  };
  refused(data, bytes - 256, "this plan needs");
  refused(nullptr, bytes, "workspace has 0 bytes");
  refused(data + 64, bytes, "aligned to 256 bytes");
  expect_error(ErrorCode::kWorkspace, "holds no plan", [&] { resolve(); });
  expect_error(ErrorCode::kWorkspace, "holds no plan", [&] { run(tensors_->args()); });
  upload(plan_, test_.batch());
  expect_error(ErrorCode::kWorkspace, "was not resolved", [&] { run(tensors_->args()); });
}

TEST_F(CudaBadInput, Tensors) {
  upload(plan_, test_.batch());
  resolve();
  const auto refused = [&](void (*change)(AttentionArgs&), const char* words,
                           ErrorCode code = ErrorCode::kInvalidArgument) {
    AttentionArgs args = tensors_->args();
    change(args);
    expect_error(code, words, [&] { run(args); });
  };
  refused([](AttentionArgs& args) { args.q = nullptr; }, "args.q is null");
  refused([](AttentionArgs& args) { args.v.data = nullptr; }, "args.v.data is null");
  refused([](AttentionArgs& args) { args.q = static_cast<const char*>(args.q) + 8; }, "aligned to 16 bytes");
  refused([](AttentionArgs& args) { args.k.data = static_cast<const char*>(args.k.data) + 2; }, "args.k.data is");
  refused([](AttentionArgs& args) { args.out = static_cast<char*>(args.out) + 4; }, "args.out is");
  refused([](AttentionArgs& args) { args.q_head_stride = 68; }, "args.q_head_stride is 68; on cuda it must be");
  refused([](AttentionArgs& args) { args.out_token_stride = 516; }, "args.out_token_stride is 516");
  refused([](AttentionArgs& args) { args.k.token_stride += 4; }, "multiples of 8 elements");
  refused([](AttentionArgs& args) { args.out = const_cast<void*>(args.v.data); }, "args.out overlaps args.v");
  refused([](AttentionArgs& args) { args.out_dtype = DType::kBF16; }, "args.out_dtype is bf16; supported on cuda",
          ErrorCode::kUnsupported);
  const auto unsupported = [&](void (*change)(AttentionArgs&), const char* words) {
    refused(change, words, ErrorCode::kUnsupported);
  };
  unsupported([](AttentionArgs& args) { args.v_scale.heads = args.lse; },
              "args.v_scale.heads are given with K and V of");
  unsupported([](AttentionArgs& args) { args.window_left = 7; }, "args.window_left is 7; supported: -1");
  refused([](AttentionArgs& args) { args.q_scale.value = -1; }, "args.q_scale.value is -1; it must be finite and > 0");
  AttentionArgs inside = tensors_->args();
  inside.out = workspace_->data();
  expect_error(ErrorCode::kInvalidArgument, "args.out overlaps the workspace", [&] { run(inside); });
  const AttentionOutput untouched = tensors_->download();
  for (const float element : untouched.o) ASSERT_TRUE(std::isnan(element));
}

TEST_F(CudaBadInput, StalePlans) {
  const auto stale = [&](const Batch& batch, const char* words) {
    expect_error(ErrorCode::kStale, words, [&] { upload(plan_, batch); });
  };
  const std::vector<std::int32_t> slots{0, 1, 7};
  Batch moved = test_.batch();
  moved.slots = slots;
  stale(moved, "slot 2, which no row of the batch has");
  const std::vector<std::uint32_t> generations{0, 3, 0};
  Batch reused = test_.batch();
  reused.generations = generations;
  stale(reused, "generation 0 of slot 1, but row 1 holds generation 3");
  const std::vector<std::int32_t> shorter{60, 10, 60};
  Batch truncated = test_.batch();
  truncated.kv_lens = shorter;
  stale(truncated, "kv_lens[1] is 10");
  const std::vector<std::int32_t> query_start{0, 1, 2, 4};
  Batch more = test_.batch();
  more.query_start = query_start;
  stale(more, "4 query tokens");
}

TEST_F(CudaBadInput, Plans) {
  const auto refused = [&](void (*change)(Plan&), const char* words) {
    Plan plan = plan_;
    change(plan);
    expect_error(ErrorCode::kUnsupported, words, [&] { upload(plan, test_.batch()); });
  };
  refused([](Plan& plan) { plan.shape.device = Device::kCpu; }, "shape.device is cpu");
  refused([](Plan& plan) { plan.shape.q_dtype = plan.shape.kv_dtype = DType::kF32; },
          "q_dtype and kv_dtype are f32; supported on cuda: f16, bf16");
  refused([](Plan& plan) { plan.shape.head_dim_qk = plan.shape.head_dim_v = 96; },
          "head_dim_v are 96; supported: 64, 128, 256");
  refused(
      [](Plan& plan) {
        plan.items[0].tile = {256, 64};
      },
      "items[0].tile is 256 x 64; compiled for head size 64: 16");
  refused([](Plan& plan) { plan.shape.q_heads = 130; }, "65 query heads for each KV head");
}

TEST_F(CudaBadInput, BatchesOfAnotherSize) {
  upload(plan_, test_.batch());
  const PagedBatch other = lay_out_pages(tree_from_levels("1,3/40,20"), 8, 1);
  const DeviceBatch other_device(other.view());
  expect_error(ErrorCode::kInvalidArgument, "page size 8; the plan was made for 16",
               [&] { executor_->resolve(other_device.view(), workspace_->data(), nullptr); });
  const PagedBatch more = lay_out_pages(tree_from_levels("1,4/40,20"), 16, 1);
  const DeviceBatch more_device(more.view());
  expect_error(ErrorCode::kInvalidArgument, "batch.pages has 4 rows; the uploaded batch had 3",
               [&] { executor_->resolve(more_device.view(), workspace_->data(), nullptr); });
}

TEST_F(CudaBadInput, Options) {
  expect_error(ErrorCode::kOutOfRange, "device is 99", [] { CudaExecutor({.device = 99}); });
  expect_error(ErrorCode::kOutOfRange, "device is -1", [] { cuda_device_info(-1); });
}

}  // namespace
}  // namespace trunkline::testing
