// Tokenizer files: a vocabulary in the files that Hugging Face's AutoTokenizer reads, and back.
// Not here: the model beside them (nn/checkpoint/gpt_files.h), and other kinds of tokenizers.
// Chapter 02; Hugging Face, library tokenizers.
#pragma once

#include <filesystem>

#include "nn/text/vocabulary.h"

namespace plangrad::nn {

/// Writes tokenizer.json and tokenizer_config.json to the folder, which must exist: AutoTokenizer
/// gives the same ids for the same text. Byte pairs also get GPT-2's vocab.json and merges.txt. A
/// vocabulary of bytes is written as byte pairs without merges.
///   context: tokens that the model can see
void write_tokenizer(const Vocabulary& vocabulary, const std::filesystem::path& folder,
                     int context);

/// Reads a vocabulary from a folder: from vocab.json with merges.txt, or from tokenizer.json.
/// throws: Error if it has neither, or if read_tokenizer_json() throws
std::unique_ptr<Vocabulary> read_tokenizer(const std::filesystem::path& folder);

/// Reads a tokenizer.json: byte pairs in GPT-2's spelling, split into words by GPT-2's pattern, or
/// one token for each character. Of added tokens, the text of <|endoftext|> alone is one token.
/// throws: Error if the file is damaged, or describes a tokenizer of another kind; it names what
std::unique_ptr<Vocabulary> read_tokenizer_json(const std::filesystem::path& file);

}  // namespace plangrad::nn
