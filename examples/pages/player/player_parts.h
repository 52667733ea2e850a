// Parts of an answer: records and holdings as columns, and the places of cells in the plan's text.
// Not here: which plan it is, and what it means (player_facts.h). Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "parallel/simulation/holdings.h"
#include "parallel/simulation/variants.h"

namespace plangrad::parallel {

/// The part of a plan that ran or, if the plan is broken, would run up to its fault.
struct Scene {
  Plan ran;  ///< an ordinary plan, in the order in which rows ran
  Timeline timeline;
  std::vector<int> written = {};  ///< by record: its cell in the plan's text
  std::vector<int> causes = {};   ///< by record: the record that it waited for last; -1: none
};

/// Adds seconds, bars, names, records, held, idle and peaks.
void add_scene(const Scene& scene, nlohmann::json& out);

nlohmann::json header_json(const Plan& plan);

/// Sizes of holdings, see answer().
nlohmann::json memory_json(const Plan& plan, const std::vector<Holding>& held);

/// The places of a plan's cells in the text that it was read from.
nlohmann::json places_json(const std::string& text, const Plan& plan);
/// Line, column and length of a cell; of a row's last word if the cell is its end; of the header if
/// there is no rank.
nlohmann::json place_of(const std::string& text, int rank, int index);
/// The place of the first word that can't be read; null if there is none.
nlohmann::json place_of_bad_word(const std::string& text);

}  // namespace plangrad::parallel
