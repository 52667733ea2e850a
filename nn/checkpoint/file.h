// Whole files in and out, with errors that name the file.
// Not here: formats. Readers of .bin, IDX and vocabularies build on this.
// Chapter 02.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "autograd/error.h"

namespace paragrad::nn {
using namespace autograd;

/// All bytes of a file.
/// throws: Error if the file is missing, is a folder, can't be read, or is empty
std::string read_file(const std::filesystem::path& path);

/// Makes a folder, and those that it lies in, unless they are there.
/// throws: Error if the system refuses
void make_folder(const std::filesystem::path& folder);

/// Replaces a file as a whole: an earlier one stays intact until the new one is complete.
/// throws: Error if the folder is missing or can't be written
void write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace paragrad::nn
