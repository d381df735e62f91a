#include "report/page.hpp"

#include "assets.hpp"

namespace trunkline::report {
namespace {

// Inside a JSON text `<` is in strings alone, where an escape means the same, and no end tag or comment can begin.
std::string json_in_html(std::string_view json) {
  std::string result;
  result.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      result += "\\u003c";
    } else {
      result += c;
    }
  }
  return result;
}

std::string text_in_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      default: result += c;
    }
  }
  return result;
}

/// A {{name}} of the template, and what takes its place.
struct Slot {
  std::string_view name;
  std::string_view value;
};

}  // namespace

std::string html_page(const PageParts& parts) {
  const std::string title = text_in_html(parts.title);
  const std::string json = json_in_html(parts.json);
  const Slot slots[] = {{"{{title}}", title},
                        {"{{style}}", kPageCss},
                        {"{{data}}", json},
                        {"{{charts}}", kChartsJs},
                        {"{{script}}", parts.script}};
  // In the template's order and never looked at again, so that a value may hold what looks like a slot.
  std::string page;
  std::string_view rest = kPageHtml;
  for (const Slot& slot : slots) {
    const std::size_t at = rest.find(slot.name);
    page += rest.substr(0, at);
    page += slot.value;
    rest.remove_prefix(at + slot.name.size());
  }
  page += rest;
  return page;
}

}  // namespace trunkline::report
