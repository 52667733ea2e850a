// Parts of an answer: records and holdings as columns, and the places of cells in the plan's text.
// Not here: which plan it is, and what it means (player_facts.h). Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

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

/// Adds seconds, bars, names, records, held, idle and peaks.
void add_scene(const Scene& scene, nlohmann::json& out);

nlohmann::json header_json(const Plan& plan);

/// A GPT whose bytes the panel of memory shows, by formulas that a test compares with the planner's
/// (parallel/planner): a page that answers by itself has no room for models and their kernels.
struct ShownModel {
  const char* name;  ///< of the planner's model
  int blocks;
  struct {
    double embedding;  ///< without the table of words
    double table;      ///< which the embedding and the head have each, or share (tied)
    double block, head;
  } elements;
  struct {
    double embedding, block, head;
  } kept;         ///< bytes of a sequence, from its forward to its backward, without the loss
  double output;  ///< bytes of what a layer passes on, of a sequence
};
const std::vector<ShownModel>& shown_models();
/// Bytes of a plan's stages, each of about as many blocks, with this many sequences in a
/// microbatch. In bf16, elements have 2 bytes, their sums 4, and the optimizer's state 12: a copy
/// in f32 and two moments.
Sizes sizes_of(const ShownModel& model, const Plan& plan, double sequences);

/// Sizes of holdings, see answer().
nlohmann::json memory_json(const Plan& plan, const std::vector<Holding>& held);

/// The places of a plan's cells in the text that it was read from.
nlohmann::json places_json(const std::string& text, const Plan& plan);
/// Line, column and length of a cell; of a row's last word if the cell is its end; of the header if
/// there is no rank.
nlohmann::json place_of(const std::string& text, int rank, int index);
/// The place of the first word that can't be read; null if there is none.
nlohmann::json place_of_bad_word(const std::string& text);

}  // namespace plangrad::examples
