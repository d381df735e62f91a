// Bad input is refused with a message that names the argument, the index and the value, before anything is written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "attention_case.hpp"
#include "support/expect_error.hpp"
#include "support/policies.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

// The message must hold all the words.
void expect_refused(const std::function<void()>& call, ErrorCode code, const std::vector<std::string>& words) {
  for (const std::string& word : words) expect_error(code, word, call);
}

class BadInput : public ::testing::Test {
 protected:
  BadInput()
      : paged_(lay_out_pages(tree_from_levels("1,3/40,20"), 16, 1)),
        test_(make_shape(2, 4, 64, 16), paged_.view()),
        plan_(make_plan(test_.forest(), test_.shape(), generic_cpu_profile(2),
                        testing::options_of(Policy::kNode, KvSplit::kNone))),
        executor_(test_workers()),
        workspace_(executor_.workspace_bytes(plan_, 3)) {}

  PagedBatch paged_;
  AttentionCase test_;
  Plan plan_;
  CpuExecutor executor_;
  AlignedWorkspace workspace_;
};

TEST_F(BadInput, Workspace) {
  const auto bytes = workspace_.bytes();
  expect_refused([&] { executor_.resolve(plan_, paged_.view(), bytes.first(bytes.size() - 64)); },
                 ErrorCode::kWorkspace, {"workspace has", "need"});
  expect_refused([&] { executor_.resolve(plan_, paged_.view(), {}); }, ErrorCode::kWorkspace,
                 {"workspace has 0 bytes"});
  expect_refused([&] { executor_.run(test_.args(), bytes); }, ErrorCode::kWorkspace, {"was not resolved"});
}

TEST_F(BadInput, Tensors) {
  executor_.resolve(plan_, paged_.view(), workspace_.bytes());
  const auto refused = [&](void (*change)(AttentionArgs&), std::vector<std::string> words) {
    AttentionArgs args = test_.args();
    change(args);
    expect_refused([&] { executor_.run(args, workspace_.bytes()); }, ErrorCode::kInvalidArgument, words);
    expect_refused([&] { reference_run_plan(plan_, paged_.view(), args); }, ErrorCode::kInvalidArgument, words);
  };
  refused([](AttentionArgs& args) { args.q = nullptr; }, {"args.q is null"});
  refused([](AttentionArgs& args) { args.out = nullptr; }, {"args.out is null"});
  refused([](AttentionArgs& args) { args.k.data = nullptr; }, {"args.k.data is null"});
  refused([](AttentionArgs& args) { args.v.data = nullptr; }, {"args.v.data is null"});
  refused([](AttentionArgs& args) { args.q = static_cast<const char*>(args.q) + 1; }, {"args.q", "aligned to 2 bytes"});
  refused([](AttentionArgs& args) { args.k.page_stride = -1; }, {"args.k.data", "-1", ">= 0"});
  refused([](AttentionArgs& args) { args.q_head_stride = -5; }, {"args.q_head_stride is -5"});
  refused([](AttentionArgs& args) { args.out = const_cast<void*>(args.q); }, {"args.out overlaps args.q"});
  refused([](AttentionArgs& args) { args.out = const_cast<void*>(args.v.data); }, {"args.out overlaps args.v"});
  refused([](AttentionArgs& args) { args.lse = static_cast<float*>(args.out); }, {"args.out overlaps args.lse"});
  refused([](AttentionArgs& args) { args.lse_token_stride = 8, args.lse_head_stride = -1; },
          {"args.lse_head_stride is -1"});
  refused([](AttentionArgs& args) { args.out_token_stride = 1; },
          {"args.out has strides (1, 64)", "overlap each other"});
  refused([](AttentionArgs& args) { args.lse_token_stride = args.lse_head_stride = 1; },
          {"args.lse has strides (1, 1)", "overlap each other"});
  refused([](AttentionArgs& args) { args.q_token_stride = std::int64_t{1} << 62; },
          {"args.q has a stride of", "more than memory can hold"});
  refused([](AttentionArgs& args) { args.v.head_stride = std::int64_t{1} << 61; },
          {"args.v.data has strides", "at most"});
  refused([](AttentionArgs& args) { args.out_dtype = static_cast<DType>(9); }, {"args.out_dtype is number 9", "bf16"});
  refused([](AttentionArgs& args) { args.lse_base = static_cast<LseBase>(7); }, {"args.lse_base is number 7"});
  refused([](AttentionArgs& args) { args.scale = std::numeric_limits<float>::quiet_NaN(); }, {"args.scale is"});
}

// Values that are never right, in options that the CPU has.
TEST_F(BadInput, ScalesWindowsCapsAndSinks) {
  executor_.resolve(plan_, paged_.view(), workspace_.bytes());
  const auto refused = [&](void (*change)(AttentionArgs&), std::string words) {
    constexpr auto kInvalid = ErrorCode::kInvalidArgument;
    const AttentionOutput output = test_.collect([&](const AttentionArgs& given) {
      AttentionArgs args = given;
      change(args);
      expect_refused([&] { executor_.run(args, workspace_.bytes()); }, kInvalid, {words});
      expect_refused([&] { reference_run_plan(plan_, paged_.view(), args); }, kInvalid, {words});
      expect_refused([&] { reference_attention(test_.shape(), paged_.view(), args); }, kInvalid, {words});
    });
    EXPECT_THAT(output.o, ::testing::Each(::testing::IsNan())) << words;
  };
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static const float heads[] = {0.5F, 2.0F};
  static const float bad_heads[] = {0.5F, -1.0F};
  static const float bad_sinks[8] = {0, 0, -kInfinity, kInfinity};
  refused([](auto& a) { a.v_scale.heads = bad_heads; }, "args.v_scale.heads is -1; it must be finite and > 0");
  refused([](auto& a) { a.k_scale = {1, heads, -1}; }, "args.k_scale.head_stride is -1; it must be >= 0");
  refused([](auto& a) { a.k_scale.value = 0; }, "args.k_scale.value is 0; it must be finite and > 0");
  refused([](auto& a) { a.q_scale.value = kInfinity; }, "args.q_scale.value is inf");
  refused([](auto& a) { a.window_left = -2; }, "args.window_left is -2; it must be >= 0, or -1");
  refused([](auto& a) { a.soft_cap = -1; }, "args.soft_cap is -1; it must be finite and >= 0");
  refused([](auto& a) { a.soft_cap = std::nanf(""); }, "args.soft_cap is nan");
  refused([](auto& a) { a.sinks = bad_sinks; }, "args.sinks[3] is inf; it must be a number below +inf");
}

// A head stride of 0 gives all heads the first scale, whatever follows it.
TEST_F(BadInput, AScaleOfAllHeadsIsReadOnce) {
  executor_.resolve(plan_, paged_.view(), workspace_.bytes());
  const float heads[] = {1.0F, -1.0F};
  const AttentionOutput output = test_.collect([&](AttentionArgs args) {
    args.v_scale = {5, heads, 0};
    executor_.run(args, workspace_.bytes());
  });
  EXPECT_TRUE(test_.matches(output, kFloatTolerance));
}

TEST_F(BadInput, WorkspaceOfAnotherExecutor) {
  const auto bytes = workspace_.bytes();
  executor_.resolve(plan_, paged_.view(), bytes);
  ThreadPool pool(5);
  const CpuExecutor other(pool);
  expect_refused([&] { other.run(test_.args(), bytes); }, ErrorCode::kWorkspace, {"by another executor"});
  expect_refused([&] { executor_.run(test_.args(), bytes.first(bytes.size() - 1)); }, ErrorCode::kWorkspace,
                 {"resolved with"});
  AttentionArgs args = test_.args();
  args.out = bytes.data();
  expect_refused([&] { executor_.run(args, bytes); }, ErrorCode::kInvalidArgument, {"args.out overlaps the workspace"});
}

TEST_F(BadInput, InputsInTheWorkspace) {
  executor_.resolve(plan_, paged_.view(), workspace_.bytes());
  AttentionArgs args = test_.args();
  args.q = workspace_.bytes().data();
  expect_refused([&] { executor_.run(args, workspace_.bytes()); }, ErrorCode::kInvalidArgument,
                 {"the workspace overlaps args.q"});
}

TEST_F(BadInput, APlannerThatHasPlannedAgain) {
  Planner planner(generic_cpu_profile(2));
  const Plan& plan = planner.plan(test_.forest(), test_.shape());
  AlignedWorkspace workspace(executor_.workspace_bytes(plan, 3));
  executor_.resolve(plan, paged_.view(), workspace.bytes());
  planner.plan(test_.forest(), test_.shape());
  expect_refused([&] { executor_.run(test_.args(), workspace.bytes()); }, ErrorCode::kStale,
                 {"resolve() after each plan()"});
}

// A workspace sized by a capacity serves every plan that keeps it.
TEST_F(BadInput, WorkspaceByCapacity) {
  PlanOptions options;
  options.policy = Policy::kFlat;
  options.capacity = {.queries = 8, .items = 64, .spans = 64, .partials = 32};
  Planner planner(generic_cpu_profile(2));
  AlignedWorkspace workspace(executor_.workspace_bytes(planner.plan(test_.forest(), test_.shape(), options), 8));
  for (const Policy policy : packing_policies()) {
    options.policy = policy;
    options.split = experimental::kSplitMean;
    const Plan& plan = planner.plan(test_.forest(), test_.shape(), options);
    executor_.resolve(plan, paged_.view(), workspace.bytes());
    EXPECT_TRUE(test_.matches(test_.collect([&](const AttentionArgs& args) { executor_.run(args, workspace.bytes()); }),
                              kFloatTolerance));
  }
}

TEST_F(BadInput, StalePlans) {
  const auto stale = [&](const Batch& batch, std::vector<std::string> words) {
    expect_refused([&] { executor_.resolve(plan_, batch, workspace_.bytes()); }, ErrorCode::kStale, words);
    expect_refused([&] { reference_run_plan(plan_, batch, test_.args()); }, ErrorCode::kStale, words);
  };
  const std::vector<std::int32_t> slots{0, 1, 7};
  Batch moved = paged_.view();
  moved.slots = slots;
  stale(moved, {"slot 2", "no row"});
  const std::vector<std::int32_t> twice{0, 1, 1};
  Batch duplicate = paged_.view();
  duplicate.slots = twice;
  expect_refused([&] { executor_.resolve(plan_, duplicate, workspace_.bytes()); }, ErrorCode::kInvalidArgument,
                 {"slots[2] is 1", "slots[1]"});
  const std::vector<std::uint32_t> generations{0, 3, 0};
  Batch reused = paged_.view();
  reused.generations = generations;
  stale(reused, {"generation 0 of slot 1", "row 1 holds generation 3"});
  const std::vector<std::int32_t> shorter{60, 10, 60};
  Batch truncated = paged_.view();
  truncated.kv_lens = shorter;
  stale(truncated, {"kv_lens[1] is 10"});
  const std::vector<std::int32_t> query_start{0, 1, 2, 4};
  Batch more = paged_.view();
  more.query_start = query_start;
  stale(more, {"4 query tokens", "made for 3"});
}

TEST_F(BadInput, NothingIsWrittenOnError) {
  executor_.resolve(plan_, paged_.view(), workspace_.bytes());
  const AttentionOutput output = test_.collect([&](const AttentionArgs& args) {
    AttentionArgs broken = args;
    broken.v.data = nullptr;
    EXPECT_THROW(executor_.run(broken, workspace_.bytes()), Error);
  });
  EXPECT_THAT(output.o, ::testing::Each(::testing::IsNan()));
}

TEST_F(BadInput, PageSizeOfAnotherPlan) {
  const PagedBatch other = lay_out_pages(tree_from_levels("1,3/40,20"), 8, 1);
  expect_refused([&] { executor_.resolve(plan_, other.view(), workspace_.bytes()); }, ErrorCode::kInvalidArgument,
                 {"page size 8", "made for 16"});
}

TEST(Supports, AnswersWithReasons) {
  EXPECT_TRUE(supports(make_shape(8, 4, 128, 16)));
  EXPECT_TRUE(supports(make_shape(1, 16, 256, 24, DType::kBF16)));
  const auto reason = [](AttentionShape shape) { return supports(shape).reason; };
  EXPECT_THAT(reason(make_shape(8, 4, 96, 16)),
              ::testing::AllOf(::testing::HasSubstr("head_dim_qk and head_dim_v are 96"),
                               ::testing::HasSubstr("64, 128, 256")));
  EXPECT_THAT(reason(make_shape(8, 65, 128, 16)),
              ::testing::HasSubstr("65 query heads for each KV head; supported: 1 to 64"));
  EXPECT_THAT(reason(make_shape(2'000'000, 1, 128, 16)),
              ::testing::HasSubstr("q_heads is 2000000; supported: up to 4096"));
  EXPECT_THAT(reason(make_shape(8, 4, 128, 0)), ::testing::HasSubstr("page_size is 0"));
  AttentionShape odd = make_shape(3, 2, 128, 16);
  odd.q_heads = 7;
  EXPECT_THAT(reason(odd), ::testing::HasSubstr("7/3"));
  EXPECT_TRUE(supports(with_kv_dtype(make_shape(8, 4, 128, 16), DType::kF8E4M3)));
  EXPECT_TRUE(supports(with_kv_dtype(make_shape(8, 4, 128, 16, DType::kF32), DType::kF8E5M2)));
  EXPECT_THAT(reason(make_shape(8, 4, 128, 16, DType::kF8E4M3)),
              ::testing::HasSubstr("q_dtype is f8_e4m3; supported: f32, f16, bf16"));
  EXPECT_THAT(reason(with_kv_dtype(make_shape(8, 4, 128, 16), DType::kBF16)),
              ::testing::HasSubstr("q_dtype is f16 and kv_dtype is bf16; supported: the same for both, or a kv_dtype"));
  AttentionShape cuda = with_kv_dtype(make_shape(8, 4, 128, 16), DType::kF8E4M3);
  cuda.device = Device::kCuda;
  if (!cuda_status().usable) {
    EXPECT_THAT(reason(cuda), ::testing::HasSubstr("supported: cpu"));
  }
  cuda = make_shape(8, 4, 128, 16);
  cuda.device = Device::kCuda;
  if (!cuda_status().usable) {
    EXPECT_THAT(reason(cuda), ::testing::HasSubstr("supported: cpu"));
  }
  cuda.q_dtype = cuda.kv_dtype = DType::kF32;
  EXPECT_FALSE(supports(cuda)) << "there are no kernels of fp32";
}

// Also in a build without CUDA, and on a machine without a GPU.
TEST(Supports, CudaThatCannotBeUsedSaysWhy) {
  const CudaStatus status = cuda_status();
  if (status.usable) GTEST_SKIP() << "CUDA can be used here";
  EXPECT_FALSE(status.reason.empty());
  EXPECT_EQ(status.devices, 0);
  expect_error(ErrorCode::kUnsupported, status.reason, [] { CudaExecutor executor; });
  expect_error(ErrorCode::kUnsupported, status.reason, [] { cuda_device_info(0); });
  expect_error(ErrorCode::kUnsupported, status.reason, [] { cuda_profile(0, {}); });
}

}  // namespace
}  // namespace trunkline::testing
