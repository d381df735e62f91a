// The papers' own traffic figures from real plans: one line of JSON for each cell of a table, with the paper's figure
// beside ours where it gives one. No kernel runs.
//
//     paper_traffic deft|pat|fasttree|codec [data folder] > bench/results/traffic/deft.jsonl
#include <array>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "traffic/row.hpp"

namespace trunkline::traffic {
namespace {

struct Tables {
  std::string_view name;
  void (*print)(const Setting&);
};
constexpr std::array kTables = {Tables{"deft", deft_tables}, Tables{"pat", pat_figures},
                                Tables{"fasttree", fasttree_figure}, Tables{"codec", codec_shapes}};

void print_tables(const std::string& name, const std::string& data) {
  for (const Tables& tables : kTables) {
    if (tables.name == name) return tables.print({"build/release/bench/paper_traffic " + name, data});
  }
  fail(ErrorCode::kInvalidArgument, "table is \"", name, "\"; known are deft, pat, fasttree, codec");
}

}  // namespace
}  // namespace trunkline::traffic

int main(int argc, char** argv) {
  try {
    trunkline::traffic::print_tables(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "data");
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "paper_traffic: error: " << error.what() << "\n";
    return 2;
  }
}
