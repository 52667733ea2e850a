// The page of the plan player: one HTML file that needs no network. It holds plans with their
// answers, and the code that answers for any other plan.
// Not here: answers (player_facts.h); the page's parts, which are files in page/. Chapter 06.
#pragma once

#include <string>
#include <vector>

namespace plangrad::examples {

/// A plan in a page, which is answered there.
struct PlayerPlan {
  std::string request;  ///< JSON (request.h)
  bool path = false;    ///< marks the critical path at first
};

/// The page, which begins with the first plan and offers the others, and says at its foot by which
/// command and version it was made, unless the command is empty.
///   game: begin with "Break this pipeline" instead
/// throws: Error if there is no plan
std::string player_page(const std::vector<PlayerPlan>& plans, const std::string& command = "",
                        bool game = false);

/// The script of a timeline on a canvas for any page: timelineData, Clock and Timeline, explained
/// in page/timeline.js, which need page/timeline.css and the variables of palette_css(). The build
/// makes these texts of the files in page/.
extern const char* const timeline_script;
extern const char *const player_script, *const player_style, *const player_body;

}  // namespace plangrad::examples
