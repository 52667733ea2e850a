// did_you_mean: what a user who mistyped a name may have meant.
// Not here: who asks. Readers of flags, schedules, codecs and other names add it to their errors.
// Chapter 02.
#pragma once

#include <string>
#include <vector>

namespace plangrad::autograd {

/// Returns "; did you mean 1f1b?" with the known names that are nearest to `word`, at most two
/// letters away; empty if none is near. Upper and lower case are alike, and a short word must have
/// more letters right than wrong.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& names);

}  // namespace plangrad::autograd
