// The folder that a run writes to if its command names none.
// Not here: what is in it (parallel/session/session.h).
// Chapter 02.
#pragma once

#include <filesystem>
#include <string>

namespace plangrad::examples {

/// Points to the newest run that has a folder of this kind and a checkpoint.
inline const std::filesystem::path latest_run = "runs/latest";

/// Makes a folder that no other run has: runs/DATE-TIME-NAME, by this machine's clock.
std::filesystem::path new_run_folder(const std::string& name);

/// Makes runs/latest point to the folder, in one step.
void point_latest_to(const std::filesystem::path& folder);

}  // namespace plangrad::examples
