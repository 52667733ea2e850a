// Statements of chapter 11 on sparse products, computed from the measured table that it shows.
// Not here: the measurement (tests/benchmarks/sparse_matmul.cpp). Chapter 11.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/figures.h"
#include "tests/folders.h"

namespace {

/// A row of the table. Rates are shares of the dense product's multiply-adds per second.
struct Row {
  int size = 0;
  std::string type;
  int pruned = 0;  ///< percent
  std::vector<int> rates;
  double faster = 0;  ///< all three products, against the dense ones
};

std::vector<Row> measured_rows() {
  std::ifstream in(plangrad::tests::clone_path("tests/benchmarks/results/sparse_matmul.md"));
  std::vector<Row> rows;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> cells;
    std::istringstream parts(line);
    for (std::string cell; std::getline(parts, cell, '|');) cells.push_back(cell);
    if (cells.size() < 11 || cells[3].find('%') == std::string::npos) continue;
    Row row{std::stoi(cells[1]),
            cells[2].substr(1, cells[2].size() - 2),
            std::stoi(cells[3]),
            {},
            std::stod(cells[10])};
    for (int rate : {5, 7, 9}) row.rates.push_back(std::stoi(cells[rate]));
    rows.push_back(row);
  }
  return rows;
}

/// The results for one type and size.
struct Summary {
  int lowest = 100, highest = 0;  ///< rates at 80 to 95% zeros
  int from = 100;                 ///< the smallest share of zeros at which the layer is faster
  double at_90 = 0;               ///< how much faster it is at 90%
};

}  // namespace

TEST_CASE("chapter 11: rates of sparse products are those of the table", "[chapter]") {
  std::map<std::pair<std::string, int>, Summary> found;
  for (const Row& row : measured_rows()) {
    Summary& s = found[{row.type, row.size}];
    if (row.pruned >= 80 && row.pruned <= 95) {
      s.lowest = std::min(s.lowest, *std::ranges::min_element(row.rates));
      s.highest = std::max(s.highest, *std::ranges::max_element(row.rates));
    }
    if (row.faster > 1) s.from = std::min(s.from, row.pruned);
    if (row.pruned == 90) s.at_90 = row.faster;
  }
  REQUIRE(found.size() == 10);
  std::string table =
      "| n | type | share of the dense rate, 80 to 95% zeros | faster than dense from | "
      "times as fast at 90% zeros |\n| --- | --- | --- | --- | --- |\n";
  for (std::string type : {"f32", "bf16"})
    for (const auto& [key, s] : found)
      if (key.first == type)
        table += fmt::format("| {} | {} | {}% to {}% | {}% zeros | {:.2f} |\n", key.second, type,
                             s.lowest, s.highest, s.from, s.at_90);
  plangrad::tests::check_figure("sparse_rates", table);

  // "In bf16 the shares are smaller, and no layer is faster than dense at fewer zeros than in f32."
  for (const auto& [key, f32] : found) {
    if (key.first != "f32") continue;
    const Summary& bf16 = found.at({"bf16", key.second});
    CHECK(bf16.highest < f32.highest);
    CHECK(bf16.from >= f32.from);
    CHECK(bf16.at_90 < f32.at_90);
  }
  // "The share falls most in the narrow layer of n = 128."
  for (const auto& [key, s] : found) {
    const Summary& narrow = found.at({key.first, 128});
    if (key.second > 128) CHECK(narrow.lowest * s.highest < s.lowest * narrow.highest);
  }
  // "dW has the lowest share of the three in wide layers."
  for (const Row& row : measured_rows())
    if (row.size >= 2048 && row.pruned <= 95)
      CHECK(row.rates[2] < std::min(row.rates[0], row.rates[1]));
}
