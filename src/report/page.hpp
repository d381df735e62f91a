// One self-contained HTML page: head, styles and chart helpers that all pages share, a script that draws, and its data.
#pragma once

#include <string>
#include <string_view>

namespace trunkline::report {

struct PageParts {
  std::string_view title;   ///< any text
  std::string_view script;  ///< JavaScript, after the helpers of assets/charts.js; reads the data by page.data()
  std::string_view json;    ///< the data, one JSON value
};

/// The page. It loads nothing, and its own policy forbids it to.
std::string html_page(const PageParts& parts);

}  // namespace trunkline::report
