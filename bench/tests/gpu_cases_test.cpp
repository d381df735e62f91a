// The GPU benchmark's suites and methods, as far as they need no GPU.
#include "gpu/cases.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "gpu/row.hpp"
#include "plan/policies/policy_table.hpp"
#include "support/expect_error.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/profile_file.hpp"

namespace trunkline::gpu_bench {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

const std::string kSource = TRUNKLINE_SOURCE;
const std::string kData = kSource + "/data";
const std::vector<TileShape> kTiles{{16, 64}, {64, 64}};

std::vector<std::string> all_suites() {
  std::vector<std::string> names;
  std::stringstream list(suite_names());
  for (std::string name; std::getline(list >> std::ws, name, ',');) names.push_back(name);
  return names;
}

Json row_on(const std::string& profile, const Case& test) {
  Planner planner(load_profile(kData + "/machines/" + profile + ".json"));
  Method flat;
  flat.plan.policy = Policy::kFlat;
  const Forest forest = build_forest(lay_out_pages(test.tree, test.shape.page_size, 1).view());
  return plan_row(test, flat, planner.plan(forest, test.shape, flat.plan), planner.profile());
}

Case find_case(const std::string& suite, const std::string& name, std::int32_t page_size) {
  for (const Case& test : load_suite(suite, kData)) {
    if (test.tree.name == name && test.shape.page_size == page_size) return test;
  }
  throw std::out_of_range("no case " + name);
}

TEST(GpuCases, EachIsNamedOnce) {
  for (const std::string& suite : all_suites()) {
    SCOPED_TRACE(suite);
    std::set<std::tuple<std::string, std::string, std::int32_t>> seen;
    for (const Case& test : load_suite(suite, kData)) {
      EXPECT_EQ(test.suite, suite);
      EXPECT_TRUE(seen.emplace(test.tree.name, test.heads(), test.shape.page_size).second) << test.tree.name;
    }
  }
}

TEST(GpuCases, TakeAGivenShape) {
  const GivenShape given{DType::kBF16, 256, 1, 24, 4};
  const std::vector<Case> cases = load_suite("fasttree", kData, given);
  std::set<std::string> names;
  for (const Case& test : cases) {
    EXPECT_EQ(test.heads(), "24/4");
    EXPECT_EQ(test.shape.head_dim_qk, 256);
    EXPECT_EQ(test.shape.page_size, 1);
    EXPECT_EQ(test.shape.kv_dtype, DType::kBF16);
    EXPECT_TRUE(names.insert(test.tree.name).second) << test.tree.name;
  }
  EXPECT_EQ(3 * cases.size(), load_suite("fasttree", kData).size());  // which has each tree at three kinds of heads
  testing::expect_error(ErrorCode::kInvalidArgument, "suite ragged has shapes of its own",
                        [&] { load_suite("ragged", kData, given); });
}

// Nodes of `ragged` end anywhere.
TEST(GpuCases, PagesAreNoLongerThanNodes) {
  for (const std::string& suite : all_suites()) {
    if (suite == "ragged") continue;
    for (const Case& test : load_suite(suite, kData)) {
      for (const std::int32_t tokens : test.tree.tokens) {
        if (tokens > 0) {
          EXPECT_GE(tokens, test.shape.page_size) << suite << ' ' << test.tree.name;
        }
      }
    }
  }
}

TEST(GpuCases, EveryRecordedTimeHasACase) {
  std::set<std::tuple<std::string, std::string, std::int32_t>> cases;
  for (const std::string& suite : all_suites()) {
    for (const Case& test : load_suite(suite, kData)) {
      cases.emplace(test.tree.name, test.heads(), test.shape.page_size);
    }
  }
  std::ifstream file(kSource + "/bench/recorded/h200.json");
  for (const auto& row : nlohmann::json::parse(file).at("rows")) {
    EXPECT_TRUE(cases.contains({row.at("case"), row.at("heads"), row.at("page_size")})) << row;
  }
}

TEST(GpuCases, RecordedTimesGoWithTheSameCaseOfAnySuite) {
  const Recorded recorded(kSource + "/bench/recorded/h200.json");
  const Case ablation = find_case("ablation", "1,10/4096,416", 32);
  EXPECT_DOUBLE_EQ(recorded.times(ablation).at("pat").get<double>(),
                   recorded.times(load_suite("pat", kData)[40]).at("pat").get<double>());
  EXPECT_TRUE(recorded.times(find_case("pages", "64x8192", 1)).contains("fa3"));
  EXPECT_TRUE(recorded.times(find_case("pages", "64x8192", 4)).is_null());
  Case bf16 = ablation;
  bf16.shape.q_dtype = bf16.shape.kv_dtype = DType::kBF16;
  EXPECT_TRUE(recorded.times(bf16).is_null());
}

// 64 x 8,192 tokens bring 2,147,483,648 bytes of K and V and 1,048,576 of Q and O: 460.07 us at 4.67 TB/s, 688.63 us at
// 3.12 TB/s. The draft tree of 256 tokens is bound by arithmetic, whose rate the two profiles share: 87.01 us.
TEST(GpuRow, FloorIsOfTheProfilesRates) {
  const Case read = find_case("pages", "64x8192", 1);
  const Case computed = find_case("trees", "t256_p16384_b1", 16);
  EXPECT_NEAR(row_on("h200-sxm", read).at("floor_us").get<double>(), 460.07 + 4.4, 0.01);
  EXPECT_NEAR(row_on("h100-sxm", read).at("floor_us").get<double>(), 688.63 + 4.4, 0.01);
  EXPECT_NEAR(row_on("h200-sxm", computed).at("floor_us").get<double>(), 87.01 + 4.4, 0.01);
  EXPECT_NEAR(row_on("h100-sxm", computed).at("floor_us").get<double>(), 87.01 + 4.4, 0.01);
}

TEST(GpuRow, HasTheRatesThatItsFloorWasComputedFrom) {
  const Json row = row_on("h100-sxm", find_case("flat", "1x1024", 16));
  EXPECT_EQ(row.at("read_bytes_per_us"), 3.12e6);
  EXPECT_EQ(row.at("flops_per_us"), 790e6);
  EXPECT_EQ(row.at("launch_us"), 4.4);
}

TEST(GpuCases, TokenTreesBringTheirDrafts) {
  const std::vector<Case> trees = load_suite("trees", kData);
  EXPECT_EQ(trees.size(), 6 * 3 * 2);
  for (const Case& test : trees) {
    const PagedBatch paged = lay_out_pages(test.tree, test.shape.page_size, 1);
    const Batch batch = paged.view();
    const std::string expected = "t" + std::to_string(batch.query_count(0)) + "_p" +
                                 std::to_string(batch.kv_lens[0] - batch.query_count(0)) + "_b" +
                                 std::to_string(batch.rows());
    EXPECT_EQ(test.tree.name, expected);
  }
}

TEST(GpuCases, CodecHasItsFiveFamilies) {
  std::set<std::string> families;
  for (const Case& test : load_suite("codec", kData)) {
    families.insert(test.tree.name.substr(0, test.tree.name.find(',')));
  }
  EXPECT_THAT(families, UnorderedElementsAre("vary-seq", "vary-batch", "vary-depth", "vary-ratio", "vary-shape"));
}

TEST(GpuCases, UnknownSuiteNamesTheKnown) {
  trunkline::testing::expect_error(ErrorCode::kInvalidArgument, "suite is 'cats'; known are flat, pat",
                                   [] { load_suite("cats", kData); });
}

TEST(GpuMethods, EachOfASetIsNamedOnceAndAblationsBeginWithTheDefault) {
  for (const MethodSet set :
       {MethodSet::kPatAblation, MethodSet::kFastTreeAblation, MethodSet::kPacks, MethodSet::kMerges,
        MethodSet::kAgainstFlat, MethodSet::kPolicies, MethodSet::kEachTile}) {
    const std::vector<Method> methods = methods_of(set, {}, kTiles);
    std::set<std::string> names;
    for (const Method& method : methods) EXPECT_TRUE(names.insert(method.name).second) << method.name;
    EXPECT_GE(methods.size(), 2);
    if (set == MethodSet::kPatAblation || set == MethodSet::kFastTreeAblation) {
      EXPECT_EQ(methods.front().name, "default");
      EXPECT_EQ(methods.front().plan.policy, Policy::kAuto);
    }
  }
}

TEST(GpuMethods, PoliciesAreAllThereAreAndEachHeightOfTrunk) {
  std::vector<std::string> names;
  std::set<std::int32_t> heights;
  for (const Method& method : methods_of(MethodSet::kPolicies, {}, kTiles)) {
    names.push_back(method.name);
    if (method.plan.policies.trunk_rows > 0) heights.insert(method.plan.policies.trunk_rows);
  }
  std::vector<std::string> expected = {"auto"};
  for (const PolicyInfo& info : policy_table()) expected.push_back(info.name);
  expected.insert(expected.end(), {"trunk, 16 rows", "trunk, 64 rows"});
  EXPECT_EQ(names, expected);
  EXPECT_THAT(heights, ElementsAre(16, 64));
}

TEST(GpuMethods, EveryPlanCanBeMade) {
  MachineProfile profile = load_profile(kData + "/machines/h200-sxm.json");
  profile.tiles = kTiles;
  Planner planner(profile);
  const Case test = find_case("ablation", "1,2,64/1024,256,256", 32);
  const Forest forest = build_forest(test.tree.view());
  for (const MethodSet set : {MethodSet::kPatAblation, MethodSet::kFastTreeAblation, MethodSet::kPacks,
                              MethodSet::kAgainstFlat, MethodSet::kPolicies, MethodSet::kEachTile}) {
    for (const Method& method : methods_of(set, {}, kTiles)) {
      SCOPED_TRACE(method.name);
      const Plan& plan = planner.plan(forest, test.shape, method.plan);
      EXPECT_FALSE(plan.items.empty());
      if (method.plan.tile == TileShape{}) continue;
      for (const WorkItem& item : plan.items) EXPECT_EQ(item.tile, method.plan.tile);
    }
  }
}

}  // namespace
}  // namespace trunkline::gpu_bench
