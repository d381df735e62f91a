// A cell of a paper's table beside ours, as one line of JSON.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trunkline/plan.hpp"

namespace trunkline::traffic {

struct Row {
  std::string table;     ///< "deft 12": paper, and number of its table or figure
  std::string input;     ///< what is decoded
  std::string method;    ///< policy, or a method of the paper that no policy is
  std::string quantity;  ///< what is counted
  std::string unit;      ///< "%", "x", "TB"
  double ours = 0;
  std::optional<double> paper;                  ///< the paper's figure
  std::optional<std::array<double, 2>> within;  ///< or the range that it gives
  std::string from = "plans";                   ///< "plans", or "formula" where a paper's method is no policy
};

/// The fields that all rows of a run share.
struct Setting {
  std::string command;  ///< that makes the rows
  std::string data;     ///< the folder of the inputs
};

/// \param machine the profile that the plans were made for
void print_row(const Setting& setting, const std::string& machine, const Row& row);

/// A profile of data/machines.
MachineProfile machine_of(const Setting& setting, const std::string& name);

double geometric_mean(const std::vector<double>& values);

/// The share of `all` that `part` saves, in percent.
double reduction(double part, double all);

/// The tables, one function each.
void deft_tables(const Setting& setting);
void pat_figures(const Setting& setting);
void fasttree_figure(const Setting& setting);
void codec_shapes(const Setting& setting);

}  // namespace trunkline::traffic
