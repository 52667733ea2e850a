// Text data: token ids in memory, cut into random training windows and sequential evaluation ones.
// Not here: devices. The caller copies a batch to the model's device. Chapter 02.
//
// The room nn/data holds the data that models learn from, on the host, as plain vectors of numbers:
// text_data.h   tokens of a text or of .bin files, in windows of a context's length
// image_data.h  images and labels of IDX files (MNIST, Fashion-MNIST), normalised
// Both have the same functions: the training batch of a step, or a part of it; the validation data
// from beginning to end; a checksum. There is no cursor: a batch is a function of (seed, step,
// place in the batch), so a resumed run sees the data that it would have seen without the
// interruption, and ranks draw their shares of one batch without communication.
// Programs copy batches to devices (examples/programs/gpt_run.h, examples/programs/resnet_run.h).
// A new kind of data is a file here with these functions, and such an adapter there.
#pragma once

#include "nn/text/vocabulary.h"

namespace plangrad::nn {

/// shapes: inputs, targets (sequences,context), row-major; targets[s,t] follows inputs[s,t].
struct Batch {
  std::vector<std::int32_t> inputs, targets;
};

/// One stretch of text as token ids, of 2 bytes each if the vocabulary has at most 65,536, else 4.
class TokenData {
 public:
  TokenData() = default;
  /// `name` names the data in messages, as in "the training data".
  /// throws: Error if a token is outside [0, vocabulary_size)
  TokenData(std::string name, std::span<const std::int32_t> tokens, int vocabulary_size);

  /// Adds tokens at the end.
  void append(std::span<const std::int32_t> tokens);
  /// Moves the tokens from `first` on to data of another name.
  TokenData split(std::int64_t first, std::string name);

  std::int32_t operator[](std::int64_t i) const { return wide_.empty() ? narrow_[i] : wide_[i]; }
  std::int64_t size() const { return std::ssize(narrow_) + std::ssize(wide_); }
  int vocabulary_size() const { return vocabulary_size_; }
  /// Sets a size that is known once all tokens are: at most 65,536, and above the largest id.
  void set_vocabulary_size(int size) { vocabulary_size_ = size; }
  /// The largest id, which may be less than the vocabulary's; -1 if there are no tokens.
  std::int32_t largest() const;
  /// A hash that differs for different data (FNV-1a over the ids).
  std::uint64_t checksum() const;

  /// Sequences [first, last) of the batch of `step`: windows at random places. Sequence i depends
  /// on (seed, step, i) alone, so a run resumes exactly, and ranks can partition a batch.
  /// throws: Error if there are fewer than context + 1 tokens
  Batch batch(std::uint64_t seed, std::int64_t step, std::int64_t first, std::int64_t last,
              std::int64_t context) const;

  /// The number of consecutive windows in the data. Up to `context` - 1 targets at the end of the
  /// data are in no window.
  /// throws: Error if there are fewer than context + 1 tokens
  std::int64_t evaluation_windows(std::int64_t context) const;
  /// Windows [first, last) of the evaluation windows.
  Batch evaluation_batch(std::int64_t first, std::int64_t last, std::int64_t context) const;

 private:
  void append_window(std::int64_t start, std::int64_t context, Batch& batch) const;

  std::string name_;
  int vocabulary_size_ = 0;
  std::vector<std::uint16_t> narrow_;  // one of the two is empty
  std::vector<std::int32_t> wide_;
};

/// The data that a model trains on, and the data that validates it.
struct TextData {
  std::shared_ptr<const Vocabulary> vocabulary;  // null for .bin files without one
  TokenData training, validation;
};

/// Checks a file that is read as text. Binary files are known by how they begin, and by bytes of
/// value 0 near their beginning; "bytes" takes such bytes, and "chars" needs valid UTF-8. A web
/// page or a server's error is a text only under a name that ends in .html, .htm, .xml, .json,
/// .jsonl or .md.
/// throws: Error if the file holds no text; it says what, and the remedy
void check_text(const std::filesystem::path& path, std::string_view bytes,
                const std::string& vocabulary);

/// Reads `data` and `validation`; if `validation` is empty, the last tenth of `data` validates.
/// Files whose names end in .bin hold token ids: little-endian uint16 without a header, as nanoGPT
/// writes them, or behind the 1,024 bytes of llm.c's. All others are text. `vocabulary` is that of
/// make_vocabulary(); for .bin files, it is "" (as many tokens as the largest id needs), "bytes" or
/// a vocab.json.
/// throws: Error if a file is missing, empty or broken, holds no text or no token ids, or does not
///         fit the vocabulary
TextData load_text_data(const std::filesystem::path& data, const std::filesystem::path& validation,
                        const std::string& vocabulary);

}  // namespace plangrad::nn
