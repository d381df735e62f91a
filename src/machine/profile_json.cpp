#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/strict_json.hpp"
#include "base/text_file.hpp"
#include "machine/profile_check.hpp"
#include "machine/profile_figures.hpp"
#include "trunkline/profile_file.hpp"

namespace trunkline {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// The format nests five deep: the rows of a cost table.
constexpr int kMaxDepth = 8;

constexpr const char* kFigureForm = R"({"value": ..., "source": "..."} is needed)";

/// Reads one file; remembers where its figures come from.
class Reader {
 public:
  Reader(const std::string& name, FigureSources& sources) : name_(name), sources_(sources) {}

  MachineProfile read(const Json& root);

 private:
  template <class... Parts>
  [[noreturn]] void fault(const Parts&... parts) const {
    fail(ErrorCode::kParse, name_, ": ", parts...);
  }

  const Json& field(const Json& object, const std::string& path, const char* key, const char* form) const;
  void check_object(const Json& value, const std::string& path) const;
  void check_keys(const Json& object, const std::string& group, const std::vector<const char*>& known) const;
  const Json& figure_value(const Json& object, const std::string& group, const char* key);
  std::string text(const Json& object, const char* key) const;

  template <class Number>
  void read_number(const Json& value, const std::string& path, Number& number) const;
  template <class Number>
  void read_numbers(const Json& value, const std::string& path, std::vector<Number>& numbers) const;
  template <class Owner, std::size_t count>
  void read_figures(const Json& object, const std::string& group, const Figure<Owner> (&figures)[count], Owner& owner);
  std::pair<std::int32_t, std::int32_t> read_pair(const Json& value, const std::string& path, const char* form) const;
  void read_lists(const Json& root, MachineProfile& profile);
  void read_cost_table(const Json& value, CostTable& table) const;

  const std::string& name_;
  FigureSources& sources_;
};

/// Names of a table's figures, and what else stands beside them.
template <class Owner, std::size_t count>
std::vector<const char*> keys_of(const Figure<Owner> (&figures)[count], std::vector<const char*> others = {}) {
  for (const Figure<Owner>& figure : figures) others.push_back(figure.name);
  return others;
}

void Reader::check_object(const Json& value, const std::string& path) const {
  if (!value.is_object()) fault(path, " is ", shown(value), "; an object is needed");
}

const Json& Reader::field(const Json& object, const std::string& path, const char* key, const char* form) const {
  const auto found = object.find(key);
  if (found == object.end()) fault("field \"", path, "\" is missing; ", form);
  return *found;
}

void Reader::check_keys(const Json& object, const std::string& group, const std::vector<const char*>& known) const {
  for (const auto& [key, value] : object.items()) {
    bool found = false;
    std::string names;
    for (const char* name : known) {
      found = found || key == name;
      names += concat(names.empty() ? "" : ", ", name);
    }
    if (!found) fault("field ", shown(group + key), " is unknown; known are ", names);
  }
}

const Json& Reader::figure_value(const Json& object, const std::string& group, const char* key) {
  const std::string path = group + key;
  const Json& figure = field(object, path, key, kFigureForm);
  if (!figure.is_object()) fault(path, " is ", shown(figure), "; ", kFigureForm);
  check_keys(figure, path + ".", {"value", "source"});
  const Json& source = field(figure, path + ".source", "source", kFigureForm);
  if (!source.is_string() || source.get_ref<const std::string&>().empty()) {
    fault(path, ".source is ", shown(source), "; a text that says where the figure comes from is needed");
  }
  sources_[path] = source.get<std::string>();
  return field(figure, path + ".value", "value", kFigureForm);
}

std::string Reader::text(const Json& object, const char* key) const {
  const Json& value = field(object, key, key, "a text is needed");
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    fault(key, " is ", shown(value), "; a text is needed");
  }
  return value.get<std::string>();
}

template <class Number>
void Reader::read_number(const Json& value, const std::string& path, Number& number) const {
  if constexpr (std::is_floating_point_v<Number>) {
    if (!value.is_number()) fault(path, " is ", shown(value), "; a number is needed");
  } else {
    if (!value.is_number_integer()) fault(path, " is ", shown(value), "; an integer is needed");
    constexpr Number kMax = std::numeric_limits<Number>::max();
    const bool large = value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(kMax);
    const bool small = !value.is_number_unsigned() && value.get<std::int64_t>() < std::numeric_limits<Number>::min();
    if (large || small) fault(path, " is ", shown(value), "; at most ", kMax, " is supported");
  }
  number = value.get<Number>();
}

template <class Number>
void Reader::read_numbers(const Json& value, const std::string& path, std::vector<Number>& numbers) const {
  if (!value.is_array()) fault(path, " is ", shown(value), "; an array of numbers is needed");
  for (std::size_t i = 0; i < value.size(); ++i) {
    Number number{};
    read_number(value[i], concat(path, "[", i, "]"), number);
    numbers.push_back(number);
  }
}

template <class Owner, std::size_t count>
void Reader::read_figures(const Json& object, const std::string& group, const Figure<Owner> (&figures)[count],
                          Owner& owner) {
  for (const Figure<Owner>& figure : figures) {
    if (figure.optional && !object.contains(figure.name)) continue;
    const Json& value = figure_value(object, group, figure.name);
    std::visit([&](auto member) { read_number(value, group + figure.name, owner.*member); }, figure.member);
  }
}

std::pair<std::int32_t, std::int32_t> Reader::read_pair(const Json& value, const std::string& path,
                                                        const char* form) const {
  if (!value.is_array() || value.size() != 2) fault(path, " is ", shown(value), "; ", form);
  std::vector<std::int32_t> pair;
  read_numbers(value, path, pair);
  return {pair[0], pair[1]};
}

void Reader::read_cost_table(const Json& value, CostTable& table) const {
  const std::string path = "cost_table.value";
  check_object(value, path);
  check_keys(value, path + ".", {"head_dim", "rows", "tokens", "us"});
  const auto part = [&](const char* key) -> const Json& {
    return field(value, path + "." + key, key, "head_dim, rows, tokens and us are needed");
  };
  read_number(part("head_dim"), path + ".head_dim", table.head_dim);
  read_numbers(part("rows"), path + ".rows", table.rows);
  read_numbers(part("tokens"), path + ".tokens", table.tokens);
  const Json& us = part("us");
  if (!us.is_array() || us.empty() || us.size() != table.rows.size()) {
    fault(path, ".us is ", shown(us), "; one array of times for each of ", table.rows.size(), " rows is needed");
  }
  for (std::size_t row = 0; row < us.size(); ++row) {
    const std::size_t before = table.us.size();
    read_numbers(us[row], concat(path, ".us[", row, "]"), table.us);
    if (table.us.size() - before == table.tokens.size()) continue;
    fault(path, ".us[", row, "] is ", shown(us[row]), "; a time for each of ", table.tokens.size(),
          " tokens is needed");
  }
}

void Reader::read_lists(const Json& root, MachineProfile& profile) {
  const Json& tiles = figure_value(root, "", "tiles");
  constexpr const char* kTileForm = "[m, n] is needed";
  if (!tiles.is_array()) fault("tiles is ", shown(tiles), "; an array of [m, n] is needed");
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const auto [m, n] = read_pair(tiles[i], concat("tiles[", i, "]"), kTileForm);
    profile.tiles.push_back({m, n});
  }
  if (root.contains("tile_steps")) {
    const Json& steps = figure_value(root, "", "tile_steps");
    if (!steps.is_array()) fault("tile_steps is ", shown(steps), "; an array of [tokens, n] is needed");
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto [tokens, n] = read_pair(steps[i], concat("tile_steps[", i, "]"), "[tokens, n] is needed");
      profile.tile_steps.push_back({tokens, n});
    }
  }
  if (root.contains("cost_table")) read_cost_table(figure_value(root, "", "cost_table"), profile.cost_table);
}

MachineProfile Reader::read(const Json& root) {
  check_object(root, "the file");
  check_keys(root, "",
             keys_of(kProfileFigures, {"name", "device", "tiles", "tile_steps", "cost_table", "padding", "gpu"}));
  MachineProfile profile;
  profile.name = text(root, "name");
  const std::string device = text(root, "device");
  if (device != name_of(Device::kCpu) && device != name_of(Device::kCuda)) {
    fault("device is ", shown(device), "; supported: cpu, cuda");
  }
  profile.device = device == name_of(Device::kCpu) ? Device::kCpu : Device::kCuda;
  read_figures(root, "", kProfileFigures, profile);
  read_lists(root, profile);

  const Json& padding = field(root, "padding", "padding", "alpha, beta and gamma are needed");
  check_object(padding, "padding");
  check_keys(padding, "padding.", keys_of(kPaddingFigures));
  read_figures(padding, "padding.", kPaddingFigures, profile.padding);
  if (profile.device == Device::kCuda || root.contains("gpu")) {
    const Json& gpu = field(root, "gpu", "gpu", "a cuda device needs its limits");
    check_object(gpu, "gpu");
    check_keys(gpu, "gpu.", keys_of(kGpuFigures));
    read_figures(gpu, "gpu.", kGpuFigures, profile.gpu);
  }
  if (const auto wrong = profile_fault(profile)) fault(*wrong);
  return profile;
}

/// Lays a profile out as text, one figure a line.
class Writer {
 public:
  explicit Writer(const FigureSources& sources) : sources_(sources) {}

  void plain(const char* key, const std::string& value) { line("  ", key, dump(value)); }
  template <class Value>
  void figure(const std::string& group, const char* key, const Value& value) {
    const auto source = sources_.find(group + key);
    if (source == sources_.end() || source->second.empty()) {
      fail(ErrorCode::kInvalidArgument, "sources has none for ", group, key, "; every figure needs one");
    }
    const OrderedJson figure = {{"value", value}, {"source", source->second}};
    line(group.empty() ? "  " : "    ", key, dump(figure));
  }
  template <class Owner, std::size_t count>
  void figures(const std::string& group, const Figure<Owner> (&table)[count], const Owner& owner) {
    static const Owner kDefaults{};
    for (const Figure<Owner>& each : table) {
      std::visit(
          [&](auto member) {
            // An optional figure that no file gave is the default, for which there is no source to name.
            const bool given = sources_.contains(group + each.name) || owner.*member != kDefaults.*member;
            if (!each.optional || given) figure(group, each.name, owner.*member);
          },
          each.member);
    }
  }
  template <class Owner, std::size_t count>
  void group(const char* name, const Figure<Owner> (&table)[count], const Owner& owner) {
    text_ += concat(text_.empty() ? "" : ",\n", "  \"", name, "\": {\n");
    first_ = true;
    figures(concat(name, "."), table, owner);
    text_ += "\n  }";
  }
  std::string finish() const { return "{\n" + text_ + "\n}\n"; }

 private:
  static std::string dump(const OrderedJson& value) {
    return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  }
  void line(const char* indent, const char* key, const std::string& value) {
    text_ += concat(first_ ? "" : ",\n", indent, "\"", key, "\": ", value);
    first_ = false;
  }

  const FigureSources& sources_;
  std::string text_;
  bool first_ = true;  // of its object
};

OrderedJson table_to_json(const CostTable& table) {
  OrderedJson us = OrderedJson::array();
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const auto first = table.us.begin() + static_cast<std::ptrdiff_t>(row * table.tokens.size());
    us.push_back(std::vector<double>(first, first + static_cast<std::ptrdiff_t>(table.tokens.size())));
  }
  return {{"head_dim", table.head_dim}, {"rows", table.rows}, {"tokens", table.tokens}, {"us", std::move(us)}};
}

}  // namespace

MachineProfile parse_profile(std::string_view text, const std::string& name, FigureSources* sources) {
  FigureSources found;
  MachineProfile profile = Reader(name, found).read(parse_strict_json(text, name, kMaxDepth));
  if (sources != nullptr) *sources = std::move(found);
  return profile;
}

MachineProfile load_profile(const std::string& path, FigureSources* sources) {
  return parse_profile(read_text_file(path), path, sources);
}

std::string profile_to_json(const MachineProfile& profile, const FigureSources& sources) {
  check_profile(profile);
  Writer writer(sources);
  writer.plain("name", profile.name);
  writer.plain("device", name_of(profile.device));
  writer.figures("", kProfileFigures, profile);
  OrderedJson tiles = OrderedJson::array();
  for (const TileShape& tile : profile.tiles) tiles.push_back({tile.m, tile.n});
  writer.figure("", "tiles", tiles);
  if (!profile.tile_steps.empty()) {
    OrderedJson steps = OrderedJson::array();
    for (const TileStep& step : profile.tile_steps) steps.push_back({step.tokens, step.n});
    writer.figure("", "tile_steps", steps);
  }
  if (!profile.cost_table.rows.empty()) writer.figure("", "cost_table", table_to_json(profile.cost_table));
  writer.group("padding", kPaddingFigures, profile.padding);
  if (profile.device == Device::kCuda) writer.group("gpu", kGpuFigures, profile.gpu);
  return writer.finish();
}

}  // namespace trunkline
