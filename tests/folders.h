// Folders: where a test finds files of this clone, and where it may write beside the programs.
// Not a temporary folder (temporary_folder.h). Chapter 14.
// One source knows the paths, so that a compiler's cache has all others for every clone.
#pragma once

#include <string>

namespace plangrad::tests {

/// The path of a file or folder of this clone, such as "tests/references".
std::string clone_path(const std::string& inside);

/// The path of a file or folder beside the built programs.
std::string program_path(const std::string& inside);

}  // namespace plangrad::tests
