// Facts about a plan and about the time that it takes: as JSON, and as a table that says how people
// read them. `plan`, comparisons and the player's page read this table.
// Not here: how facts are found (parallel/verifier/verify.h, parallel/simulation/). Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "parallel/simulation/holdings.h"
#include "parallel/simulation/variants.h"
#include "parallel/verifier/verify.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// The unit of a number.
enum class Unit { count, share, seconds, bytes };

/// The command that prints a fact: verify; simulate, too; simulate if it is asked for time steps;
/// or none.
enum class FactKind { of_plan, of_time, of_time_steps, nowhere };

/// A row of the table.
struct PlanFact {
  const char* place;  ///< in the JSON of all facts, as a JSON pointer: "/peak_microbatches"
  const char* name;   ///< "peak forwards"
  Unit unit = Unit::count;
  FactKind told = FactKind::nowhere;
  bool is_compared = true;      ///< by `plan compare`
  const char* about = nullptr;  ///< what it means, on the page; null: not on the page
  /// In words; empty: not said. Null: the number, or the numbers of all ranks.
  std::string (*text)(const nlohmann::json& value, const nlohmann::json& facts) = nullptr;
};
/// All facts, in the order in which they are told.
std::span<const PlanFact> plan_facts();

/// A number of a fact, for comparisons: "1.5 s", "33.3%".
std::string number_text(double value, Unit unit);

/// Names and values, a line each.
using Lines = std::vector<std::pair<std::string, std::string>>;
/// The facts of the table that `facts` has, in words.
Lines in_words(const nlohmann::json& facts, FactKind told);

/// Says how much a rank has of sharded state: "ZeRO 1: a rank keeps 1/4 of the optimizer's state".
std::string shards_in_words(const Plan& plan);
/// The share of the whole time in which each rank computes.
std::vector<double> busy_shares(const Timeline& timeline);
/// The kinds of memory that have bytes: {name: bytes}.
nlohmann::json bytes_by_kind(const MemoryLevel& level);
/// The bytes of each rank at its peak, and what the fullest rank has then: "memory" of the facts.
nlohmann::json memory_json(const std::vector<double>& peaks, const MemoryLevel& fullest);
/// The facts that verify found. Those of an endless plan hold at every length, save for messages,
/// which are counted with one body.
nlohmann::json facts_of(const VerifiedPlan& verified);
/// The time of a plan at these costs and, if the costs name bytes, its memory.
nlohmann::json times_of(const VerifiedPlan& verified, const Costs& costs, const Timeline& timeline);
/// The cells of each time step. throws: Error if they are not counted (time_steps.h)
nlohmann::json time_steps_of(const Plan& plan, const Timeline& timeline);
/// All facts of a plan and what it takes at these costs, as `plan verify --json` prints them; time
/// steps are left out if they are not counted.
nlohmann::json all_facts(const VerifiedPlan& verified, const Costs& costs);

/// All entries of a plan's header; codecs as the text that names them.
nlohmann::json header_of(const Plan& plan);
/// A plan's header, and its rows as lists of words, with the bars of an endless plan.
nlohmann::json to_json(const Plan& plan);
/// The rule that is broken, and where. Whether a plan can hang is known only once it breaks no
/// other rule.
nlohmann::json to_json(const PlanError& error);

}  // namespace plangrad::examples
