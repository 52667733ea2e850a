// Parts of an answer: records and holdings as columns, and the places of cells in the plan's text.
// Not here: which plan it is, and what it means (player_facts.h). Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "examples/pages/player/request.h"
#include "parallel/simulation/holdings.h"
#include "parallel/simulation/variants.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// The part of a plan that ran or, if the plan is broken, would run up to its fault.
struct Scene {
  Plan ran;  ///< an ordinary plan, in the order in which rows ran
  Timeline timeline;
  std::vector<int> written = {};  ///< by record: its cell in the plan's text
  std::vector<int> causes = {};   ///< by record: the record that it waited for last; -1: none
};

/// Adds seconds, bars, names, records, held, memory, idle and peaks.
void add_scene(const Scene& scene, const std::vector<ShownModel>& models, nlohmann::json& out);

nlohmann::json header_json(const Plan& plan);

/// Bytes of a plan's stages, each of about as many blocks, with sequences in a microbatch.
Sizes sizes_of(const ShownModel& model, const Plan& plan, double sequences);

/// Sequences of a microbatch that a reader chooses among; counts do not depend on them.
inline constexpr std::array shown_sequences = {1, 2, 4, 8, 16, 32};
constexpr int drawn_kinds = 5;  ///< kinds of memory (holdings.h) before workspace
/// Memory over time in activations, versions, and bytes of each of these models, see answer().
nlohmann::json memory_json(const Plan& plan, const std::vector<Holding>& held,
                           const std::vector<ShownModel>& models);

/// The places of a plan's cells in the text that it was read from.
nlohmann::json places_json(const std::string& text, const Plan& plan);
/// Line, column and length of a cell; of a row's last word if the cell is its end; of the header if
/// there is no rank.
nlohmann::json place_of(const std::string& text, int rank, int index);
/// The place of the first word that can't be read; null if there is none.
nlohmann::json place_of_bad_word(const std::string& text);

}  // namespace plangrad::examples
