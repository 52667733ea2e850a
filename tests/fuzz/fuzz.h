// Fuzz targets: what is read from files and command lines that others wrote must be read, or
// refused by an Error. Each file in targets/ defines the two functions below for one kind of input.
// Built for libFuzzer (PLANGRAD_FUZZ=ON), a target looks for inputs by itself; elsewhere a replay
// of damaged seeds is a test.
// Not here: mutations of seeds (replay.cpp).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/error.h"

namespace plangrad::fuzz {

/// Good inputs to begin with, made by the project's own writers.
std::vector<std::string> seeds();

/// Reads one input, after seeds() has been called. What it lets out, an Error apart, is a fault,
/// and so is a check that fails.
void read_input(const std::string& input);

/// Ends the program, with a message, unless the condition holds.
void must(bool condition, const char* what);

/// An input of several files, as one: they follow each other with a mark between them.
std::string joined(const std::vector<std::string>& files);
/// The files of an input; those that it lacks are empty.
std::vector<std::string> parts_of(const std::string& input, std::size_t count);

/// This process's folder for files, removed at its end.
const std::filesystem::path& folder();
/// Writes a file there, unless it would be empty, and returns its path. An older one goes. Most
/// inputs change one file of several, so one that has these bytes already is not written again.
std::filesystem::path write(const std::string& name, std::string_view bytes);
/// The bytes of a file; none if there is no such file.
std::string read(const std::filesystem::path& path);

}  // namespace plangrad::fuzz
