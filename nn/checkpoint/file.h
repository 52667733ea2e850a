// Reads and writes whole files, with errors that name the file.
// Not here: formats. Readers of .bin, IDX and vocabularies build on this.
// Chapter 02.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "autograd/error.h"

namespace paragrad::nn {
using namespace autograd;

/// Returns all bytes of a file.
/// throws: Error if the file is missing, is a folder, can't be read, or is empty
std::string read_file(const std::filesystem::path& path);

/// Creates a folder and its parent folders, unless they exist.
/// throws: Error if the system can't create them
void make_folder(const std::filesystem::path& folder);

/// Replaces a file as a whole: the old file stays intact until the new one is complete.
/// throws: Error if the folder is missing or can't be written
void write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace paragrad::nn
