#include "cli/compare_table.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/check.hpp"
#include "cli/text.hpp"
#include "cli/version.hpp"

namespace trunkline::cli {
namespace {

using Json = nlohmann::ordered_json;

// Batches of empty requests alone have nothing to read; nothing is then read once.
double ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole);
}

template <class Value>
double geometric_mean(std::size_t count, Value value) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::log(value(i));
  return std::exp(sum / static_cast<double>(count));
}

std::vector<const ComparedPlan*> plans_of(const std::vector<ComparedBatch>& batches, std::size_t policy) {
  std::vector<const ComparedPlan*> plans;
  for (const ComparedBatch& batch : batches) plans.push_back(&batch.plans[policy]);
  return plans;
}

std::vector<const ComparedPlan*> picked_of(const std::vector<ComparedBatch>& batches) {
  std::vector<const ComparedPlan*> plans;
  for (const ComparedBatch& batch : batches) plans.push_back(&batch.picked);
  return plans;
}

struct Regret {
  double mean = 1;
  double largest = 1;
  std::size_t batch = 0;  // that has the largest
};

Regret regret_of(const std::vector<ComparedBatch>& batches) {
  Regret result;
  result.mean = geometric_mean(batches.size(), [&](std::size_t i) { return batches[i].regret(); });
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (batches[i].regret() > batches[result.batch].regret()) result.batch = i;
  }
  result.largest = batches[result.batch].regret();
  return result;
}

std::string name_of_batch(const ComparedBatch& batch) {
  constexpr std::size_t kNameWidth = 60;
  return printable(batch.suite + ":" + batch.label, kNameWidth);
}

std::vector<std::string> table_row(const std::string& name, const ComparedPlan& plan) {
  const PlanStatistics& statistics = plan.statistics;
  return {name,
          std::to_string(plan.items),
          with_commas(statistics.kv_tokens_read),
          fixed(plan.x_distinct(), 2),
          with_commas(statistics.kv_tokens_grouped),
          human_bytes(static_cast<double>(statistics.partial_bytes)),
          fixed(plan.x_traffic(), 2),
          human_time(statistics.predicted_us),
          fixed(plan.x_bound(), 2),
          human_time(plan.plan_us)};
}

Json plan_to_object(const ComparedPlan& plan) {
  Json object = Json::parse(statistics_to_json(plan.statistics));
  object["items"] = plan.items;
  object["plan_us"] = plan.plan_us;
  object["x_distinct"] = plan.x_distinct();
  object["x_grouped"] = plan.x_grouped();
  object["x_traffic"] = plan.x_traffic();
  object["x_bound"] = plan.x_bound();
  return object;
}

Json means_to_object(const CompareMeans& means) {
  return {{"x_distinct", means.x_distinct},
          {"x_grouped", means.x_grouped},
          {"x_traffic", means.x_traffic},
          {"x_bound", means.x_bound},
          {"plan_us", means.plan_us}};
}

Json setting_to_object(const Options& options, const std::string& machine) {
  return {{"heads", concat(options.shape.q_heads, "/", options.shape.kv_heads)},
          {"head_dim", options.shape.head_dim_qk},
          {"dtype", name_of(options.shape.q_dtype)},
          {"page_size", options.shape.page_size},
          {"split", name_of(options.plan.split)},
          {"machine", machine}};
}

std::string line_of(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

double ComparedPlan::x_distinct() const {
  return ratio(statistics.kv_tokens_read, statistics.kv_tokens_distinct);
}

double ComparedPlan::x_grouped() const {
  return ratio(statistics.kv_tokens_grouped, statistics.kv_tokens_distinct);
}

double ComparedPlan::x_traffic() const {
  return ratio(statistics.kv_bytes_read + statistics.partial_bytes, statistics.kv_bytes_distinct);
}

const ComparedPlan& ComparedBatch::best() const {
  return *std::min_element(plans.begin(), plans.end(), [](const ComparedPlan& a, const ComparedPlan& b) {
    return a.statistics.predicted_us < b.statistics.predicted_us;
  });
}

CompareMeans mean_of(const std::vector<const ComparedPlan*>& plans) {
  const auto mean = [&](auto value) {
    return geometric_mean(plans.size(), [&](std::size_t i) { return value(*plans[i]); });
  };
  return {mean([](const ComparedPlan& plan) { return plan.x_distinct(); }),
          mean([](const ComparedPlan& plan) { return plan.x_grouped(); }),
          mean([](const ComparedPlan& plan) { return plan.x_traffic(); }),
          mean([](const ComparedPlan& plan) { return plan.x_bound(); }),
          mean([](const ComparedPlan& plan) { return plan.plan_us; })};
}

void print_compared(std::ostream& out, const ComparedBatch& batch) {
  constexpr std::size_t kSourceWidth = 100;
  const PlanStatistics& any = batch.picked.statistics;
  out << name_of_batch(batch) << (batch.source.empty() ? "" : "  (" + printable(batch.source, kSourceWidth) + ")")
      << '\n'
      << batch.requests << (batch.requests == 1 ? " request, " : " requests, ") << with_commas(any.kv_tokens_total)
      << " KV tokens one at a time, " << with_commas(any.kv_tokens_distinct) << " distinct; bound "
      << human_time(any.bound_us) << "\n\n";
  Table table({"policy", "items", "KV tokens read", "x distinct", "grouped", "partials", "x traffic", "predicted",
               "x bound", "planning"});
  for (const ComparedPlan& plan : batch.plans) table.add(table_row(name_of(plan.policy), plan));
  table.add(table_row(concat("auto: ", name_of(batch.picked.policy)), batch.picked));
  table.print(out);
  out << "auto's regret: " << fixed(batch.regret(), 3) << ", against " << name_of(batch.best().policy) << "\n\n";
}

void print_means(std::ostream& out, const std::vector<ComparedBatch>& batches) {
  out << "Geometric means over " << batches.size() << (batches.size() == 1 ? " batch" : " batches")
      << "; \"x distinct\" is KV tokens read over the least that must be, \"x grouped\" the same\n"
         "without re-reads by tiles that are too narrow for a group, \"x traffic\" KV and partial bytes over distinct "
         "KV bytes,\n\"x bound\" predicted time over the bound.\n\n";
  Table table({"policy", "x distinct", "x grouped", "x traffic", "x bound", "planning"});
  const auto add = [&](const std::string& name, const CompareMeans& means) {
    table.add({name, fixed(means.x_distinct, 3), fixed(means.x_grouped, 3), fixed(means.x_traffic, 3),
               fixed(means.x_bound, 3), human_time(means.plan_us)});
  };
  for (std::size_t i = 0; i < batches.front().plans.size(); ++i) {
    add(name_of(batches.front().plans[i].policy), mean_of(plans_of(batches, i)));
  }
  add("auto", mean_of(picked_of(batches)));
  table.print(out);
  const Regret regret = regret_of(batches);
  out << "auto's regret: " << fixed(regret.mean, 3) << ", at most " << fixed(regret.largest, 3) << " ("
      << name_of_batch(batches[regret.batch]) << ")\n";
}

std::string compared_to_json(const Options& options, const std::string& machine, const ComparedBatch& batch) {
  Json row = {{"suite", batch.suite}, {"case", batch.label}, {"source", batch.source}};
  row.update(setting_to_object(options, machine));
  row["requests"] = batch.requests;
  for (const ComparedPlan& plan : batch.plans) row["policies"][name_of(plan.policy)] = plan_to_object(plan);
  row["auto"] = plan_to_object(batch.picked);
  row["auto"]["chosen"] = name_of(batch.picked.policy);
  row["auto"]["best"] = name_of(batch.best().policy);
  row["auto"]["regret"] = batch.regret();
  row["commit"] = commit();
  return line_of(row);
}

std::string means_to_json(const Options& options, const std::string& machine,
                          const std::vector<ComparedBatch>& batches) {
  Json row = {{"suite", "geometric mean"}};
  row.update(setting_to_object(options, machine));
  row["batches"] = batches.size();
  for (std::size_t i = 0; i < batches.front().plans.size(); ++i) {
    row["policies"][name_of(batches.front().plans[i].policy)] = means_to_object(mean_of(plans_of(batches, i)));
  }
  const Regret regret = regret_of(batches);
  row["auto"] = means_to_object(mean_of(picked_of(batches)));
  row["auto"]["regret"] = regret.mean;
  row["auto"]["largest_regret"] = regret.largest;
  row["commit"] = commit();
  return line_of(row);
}

}  // namespace trunkline::cli
