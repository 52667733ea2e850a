// GPT-2's first cut of text, into words: byte pairs never reach across them.
// Not here: byte pairs (nn/text/byte_pair.h).
// Chapter 02; Radford et al. 2019, section 2.2, and the pattern of the published encoder.
#pragma once

#include <functional>
#include <string_view>

#include "autograd/error.h"

namespace paragrad::nn {
using namespace autograd;

/// Calls `take` for each word of `text`, in order; the words joined give the text. A stretch of
/// bytes that are not valid UTF-8 is a word of its own. Takes time linear in the length of `text`.
void split_words(std::string_view text, const std::function<void(std::string_view)>& take);

}  // namespace paragrad::nn
