#include "traffic/row.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/version.hpp"
#include "trunkline/profile_file.hpp"

namespace trunkline::traffic {

void print_row(const Setting& setting, const std::string& machine, const Row& row) {
  nlohmann::ordered_json object = {{"suite", "traffic"},   {"table", row.table},       {"case", row.input},
                                   {"method", row.method}, {"quantity", row.quantity}, {"unit", row.unit},
                                   {"ours", row.ours}};
  if (row.paper) {
    object["paper"] = *row.paper;
    object["difference"] = row.ours - *row.paper;
  } else if (row.within) {
    const auto [low, high] = *row.within;
    object["paper"] = *row.within;
    object["difference"] = row.ours - std::clamp(row.ours, low, high);
  }
  object["from"] = row.from;
  object["machine"] = machine;
  object["command"] = setting.command;
  object["commit"] = cli::commit();
  std::cout << object.dump() << '\n';
}

MachineProfile machine_of(const Setting& setting, const std::string& name) {
  return load_profile(setting.data + "/machines/" + name + ".json");
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

double reduction(double part, double all) {
  return 100 * (1 - part / all);
}

}  // namespace trunkline::traffic
