#include "cli/text.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <string>

namespace trunkline::cli {
namespace {

TEST(Text, Numbers) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(-1234567), "-1,234,567");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(3.0 * 1024 * 1024 * 1024), "3.0 GiB");
  EXPECT_EQ(human_time(2.345), "2.35 us");
  EXPECT_EQ(human_time(23.45), "23.4 us");
  EXPECT_EQ(human_time(1540), "1.54 ms");
  EXPECT_EQ(human_time(2.5e6), "2.50 s");
  EXPECT_EQ(fixed(1.005, 1), "1.0");
  EXPECT_EQ(scientific(3.14e-6), "3.1e-06");
}

TEST(Text, PrintableKeepsTerminalsSafeAndLinesShort) {
  EXPECT_EQ(printable("plain", 10), "plain");
  EXPECT_EQ(printable("a\033[2Jb", 10), "a?[2Jb");
  EXPECT_EQ(printable("0123456789", 6), "012...");
}

TEST(Table, AlignsTheFirstColumnLeftAndTheOthersRight) {
  Table table({"name", "n"});
  table.add({"x", "1,000"});
  table.add({"longer", "7"});
  std::ostringstream out;
  table.print(out);
  EXPECT_EQ(out.str(),
            "name        n\n"
            "x       1,000\n"
            "longer      7\n");
}

TEST(Progress, DrawsStepsDoneAndClearsItself) {
  std::ostringstream out;
  {
    Progress progress(2, out, true, std::chrono::seconds(0));
    progress.step("first");
    EXPECT_NE(out.str().find("] 0/2 first"), std::string::npos);
    progress.step("second");
    EXPECT_NE(out.str().find("[###############               ] 1/2 second"), std::string::npos);
    out.str("");
  }
  EXPECT_EQ(out.str(), "\r\033[K");
}

TEST(Progress, KeepsQuietOffTerminalsAndOnShortWork) {
  std::ostringstream out;
  {
    Progress hidden(1, out, false, std::chrono::seconds(0));
    hidden.step("work");
    Progress patient(1, out, true, std::chrono::hours(1));
    patient.step("work");
  }
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace trunkline::cli
