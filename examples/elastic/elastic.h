// Elastic runs on threads: when ranks are lost, those that are left go on with a plan of their own,
// as sessions that follow each other. A session resumes what the one before has saved or rescued.
// Ranks can be lost on purpose: --lose RANK@UPDATE[-BACK],...
// Not here: how a rank is lost (examples/elastic/planted_loss.h), and ranks that are processes
// (launcher.h). Chapter 15.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "examples/elastic/planted_loss.h"
#include "parallel/engine/engine.h"
#include "parallel/schedules/plan_spec.h"

namespace plangrad::examples {

struct PlannedLoss {
  int rank = 0;    ///< counted over the ranks that the run began with
  int update = 1;  ///< the one that is under way when the rank is lost
  int back = 0;    ///< the rank is there again after this update; 0: never
};

/// Parses "2@8,0@12-20": rank 2 is lost in update 8, rank 0 in update 12, to be back after 20.
/// throws: Error if the text is something else
std::vector<PlannedLoss> parse_losses(const std::string& words);
/// The inverse of parse_losses.
std::string print(const std::vector<PlannedLoss>& losses);

/// Calls lose() as soon as the rank has done a computation of the loss's update.
parallel::Prolong losing(const PlannedLoss& loss, PlantedLoss& transport, parallel::Prolong before);

using Words = std::vector<std::string>;

/// Flags of layouts for at most `ranks` ranks, the best first: as many replicas as there are ranks
/// for; with one replica, fewer stages. An update has the same batch in each, in as many
/// microbatches where they can be dealt out. One replica has no ZeRO, and nothing is encoded that
/// does not leave a rank. A layout may break rules of its schedule.
///   flags: those of the whole run's layout, as a checkpoint has them
std::vector<parallel::PlanSpec> layouts_for(int ranks, const nlohmann::json& flags);

/// The value of a flag in words of a command; empty: it is not there.
std::string value_of(const Words& words, const std::string& name);

/// Removes a flag and its value, if it has one, from words of a command.
void remove_flag(Words& words, const std::string& name, bool has_value = true);

/// Makes words of a command continue the run in a folder, from its newest update.
void continue_run(Words& words, const std::filesystem::path& run);

/// Makes words of a command ask for this layout, whatever they said of theirs before.
void set_layout(Words& words, const parallel::PlanSpec& layout);

/// The layout's words, and those of the whole run's that it does without, as the end of a line.
std::string with_layout(const parallel::PlanSpec& layout, const parallel::PlanSpec& whole);

/// Tells a session its place in an elastic run.
struct Attempt {
  int number = 0;           ///< 0: the first session, which the user started
  int most_ranks = 0;       ///< ranks that are left; 0: as many as the flags ask for
  bool is_segment = false;  ///< another session follows where this one stops
  Words news;               ///< lines for the user and the run's metrics
};

/// Ends a session of an elastic run: ranks of it are lost.
struct RanksLost : autograd::Error {
  using Error::Error;
  std::vector<PlannedLoss> lost;  ///< counted as the session counts ranks
  std::vector<PlannedLoss> planned;
  int ranks = 0, first = 0;  ///< ranks of the session, and updates done before it
  int saved = 0;             ///< the newest update that the run has saved, or `first`
  std::filesystem::path out;
  nlohmann::json flags;  ///< the session's flags
};

/// Runs one session with the words of a command, and returns the program's exit status.
using Session = std::function<int(const Words& words, const Attempt& attempt)>;

/// Runs a session and, if it ends by RanksLost, the sessions after it, until the run is complete or
/// interrupted. Returns the exit status.
/// throws: Error if no layout fits the ranks that are left, or what a session throws
int run_elastic(const Words& words, const Session& session);

}  // namespace plangrad::examples
