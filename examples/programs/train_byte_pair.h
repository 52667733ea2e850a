// Trains a byte-pair vocabulary: joins the most frequent pair of neighbours, again and again.
// Not here: using it (nn/text/byte_pair.h). Chapter 02; Sennrich et al. 2016, algorithm 1.
#pragma once

#include "nn/text/byte_pair.h"

namespace plangrad::examples {

/// Makes a vocabulary of `size` tokens: the 256 bytes, size - 257 merges and "<|endoftext|>". Among
/// equally frequent pairs, the one with the smaller ids is joined first, so the result depends on
/// the text alone. A pair that occurs once is not joined.
/// throws: Error if `size` is below 257, or the text has too few repeated pairs for it
nn::BytePairVocabulary train_byte_pairs(std::string_view text, int size);

}  // namespace plangrad::examples
