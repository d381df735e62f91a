#include "cli/tile_times.hpp"

#include <algorithm>
#include <ostream>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "cli/text.hpp"
#include "trunkline/tiles.hpp"

namespace trunkline::cli {
namespace {

constexpr double kSame = 0.02;

std::size_t fastest_tile(const TileTimes& times, std::size_t row, std::size_t token) {
  std::size_t fastest = 0;
  for (std::size_t tile = 1; tile < times.tiles.size(); ++tile) {
    if (times.at(row, token, tile) < times.at(row, token, fastest)) fastest = tile;
  }
  return fastest;
}

std::string name_of_tile(TileShape tile) {
  return concat(tile.m, "x", tile.n);
}

}  // namespace

std::size_t rounded_up_tile(const std::vector<TileShape>& tiles, std::int32_t rows) {
  for (std::size_t tile = 0; tile < tiles.size(); ++tile) {
    if (tiles[tile].m >= rows) return tile;
  }
  return tiles.size() - 1;
}

CostTable cost_table_of(const TileTimes& times, std::int32_t head_dim) {
  CostTable table{head_dim, times.rows, times.tokens, {}};
  for (std::size_t row = 0; row < times.rows.size(); ++row) {
    const std::size_t tile = rounded_up_tile(times.tiles, times.rows[row]);
    for (std::size_t token = 0; token < times.tokens.size(); ++token) table.us.push_back(times.at(row, token, tile));
  }
  return table;
}

std::vector<TileStep> tile_steps_of(const TileTimes& times) {
  const std::int32_t tallest = times.tiles.back().m;
  TileSweep sweep;
  sweep.tokens = times.tokens;
  for (std::size_t tile = 0; tile < times.tiles.size(); ++tile) {
    if (times.tiles[tile].m != tallest) continue;
    sweep.n.push_back(times.tiles[tile].n);
    for (std::size_t token = 0; token < times.tokens.size(); ++token) {
      sweep.us.push_back(times.at(times.rows.size() - 1, token, tile));
    }
  }
  return derive_tile_steps(sweep);
}

RoundingUp rounding_up(const TileTimes& times) {
  RoundingUp result;
  for (std::size_t row = 0; row < times.rows.size(); ++row) {
    const std::size_t rounded = rounded_up_tile(times.tiles, times.rows[row]);
    for (std::size_t token = 0; token < times.tokens.size(); ++token) {
      const double fastest = times.at(row, token, fastest_tile(times, row, token));
      const double lost = times.at(row, token, rounded) / fastest - 1;
      ++result.points;
      if (lost <= kSame) ++result.fastest;
      result.max_lost = std::max(result.max_lost, lost);
    }
  }
  return result;
}

void print_tile_times(std::ostream& out, const TileTimes& times) {
  out << "\nTiles: microseconds of a run of tokens in one KV head on one worker, all workers busy, caches cold,\n"
         "with all items made to use one tile; rows beyond its height read the run again\n";
  std::vector<std::string> header = {"rows", "tokens"};
  for (const TileShape tile : times.tiles) header.push_back(name_of_tile(tile));
  header.insert(header.end(), {"rounded up", "fastest"});
  Table printed(std::move(header), 2);
  for (std::size_t row = 0; row < times.rows.size(); ++row) {
    for (std::size_t token = 0; token < times.tokens.size(); ++token) {
      std::vector<std::string> cells = {std::to_string(times.rows[row]), std::to_string(times.tokens[token])};
      for (std::size_t tile = 0; tile < times.tiles.size(); ++tile) {
        cells.push_back(fixed(times.at(row, token, tile), 2));
      }
      cells.push_back(name_of_tile(times.tiles[rounded_up_tile(times.tiles, times.rows[row])]));
      cells.push_back(name_of_tile(times.tiles[fastest_tile(times, row, token)]));
      printed.add(std::move(cells));
    }
  }
  printed.print(out);
  const RoundingUp rounding = rounding_up(times);
  out << "Rounding rows up to the next tile is the fastest, or within 2 % of it, at " << rounding.fastest << " of "
      << rounding.points << " points, and loses at most " << fixed(rounding.max_lost * 100, 1) << " %.\n";
  const std::vector<TileStep> steps = tile_steps_of(times);
  out << "KV tile: ";
  for (const TileStep& step : steps) {
    out << (&step == &steps.front() ? "" : ", ") << "n = " << step.n << " from " << step.tokens << " tokens on";
  }
  out << (steps.size() == 1 ? " (one leaf: each m is compiled with one n)\n" : "\n");
}

}  // namespace trunkline::cli
