// Columns: numbers of many records as text that a page reads fast: base64 of small typed arrays.
// Not here: what the numbers say (player_facts.h). Chapter 06.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plangrad::examples {

/// Whole numbers as "i8:...", "i16:..." or "i32:...", the first that holds them all, little-endian
/// in base64. A page's unpack() (columns.js) makes a typed array of it.
/// throws: Error if a number needs more than 32 bits
std::string pack(const std::vector<std::int64_t>& numbers);
/// Seconds or bytes as "f32:..."; if all are 0, as whole numbers.
std::string pack(const std::vector<double>& numbers);

}  // namespace plangrad::examples
