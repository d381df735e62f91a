#include "report/page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace trunkline::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HtmlPage, HoldsItsPartsAndNoSlot) {
  const std::string page = html_page({"a & b <i>", "draw();", R"({"x": 1})"});
  EXPECT_THAT(page, HasSubstr("<title>a &amp; b &lt;i&gt;</title>"));
  EXPECT_THAT(page, HasSubstr("draw();</script>"));
  EXPECT_THAT(page, HasSubstr(R"(id="data">{"x": 1}</script>)"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
  EXPECT_THAT(page, Not(HasSubstr("http-equiv=\"refresh")));
}

TEST(HtmlPage, NoTextEndsTheDataOrFillsAnotherSlot) {
  const nlohmann::json data = {{"name", "</script><!-- {{script}} \\u003c"}};
  const std::string page = html_page({"{{data}}", "draw();", data.dump()});
  EXPECT_THAT(page, HasSubstr("<title>{{data}}</title>"));
  const std::size_t begin = page.find("id=\"data\">") + 10;
  const std::string held = page.substr(begin, page.find("</script>", begin) - begin);
  EXPECT_EQ(nlohmann::json::parse(held), data);
}

}  // namespace
}  // namespace trunkline::report
