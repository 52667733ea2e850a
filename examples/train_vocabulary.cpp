// train_vocabulary: makes a byte-pair vocabulary from a text, in the files that GPT-2 uses.
// Not here: the training itself (examples/programs/train_byte_pair.h). Chapter 02.

#include "examples/programs/program.h"
#include "examples/programs/train_byte_pair.h"
#include "nn/checkpoint/file.h"
#include "nn/data/text_data.h"

namespace {

using namespace plangrad::examples;

void train_vocabulary(const std::string& data, int size, const std::string& out, bool overwrite) {
  using namespace plangrad::nn;
  const auto [text, vocabulary] = usage([&] {
    std::string all = read_file(data, most::data);
    check_text(data, all, "");
    BytePairVocabulary learned = train_byte_pairs(all, size);
    return std::pair(std::move(all), std::move(learned));
  });
  replace_tokenizer(vocabulary, out, overwrite);
  double tokens = static_cast<double>(vocabulary.encode(text).size());
  const double bytes = static_cast<double>(text.size());
  tell(plangrad::autograd::text(vocabulary.size(), " tokens in ", out, "/vocab.json and ", out,
                                "/merges.txt; a token of ", data, " has ", bytes / tokens,
                                " bytes on average"),
       std::cout);
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags(
      "Trains a byte-pair vocabulary like GPT-2's: starts from single bytes and repeatedly turns "
      "the most frequent pair of neighbours into a token. It never joins words.",
      "train_vocabulary");
  std::string data, out;
  int size = 0;
  bool overwrite = false;
  flags.words("--data", data, "FILE", "text to learn from").required();
  flags
      .whole("--size", size, 257,
             "tokens of the vocabulary: 256 bytes, one per merge, and <|endoftext|>; GPT-2's 50257")
      .required()
      .show_default("");
  flags.words("--out", out, "DIR", "folder for vocab.json and merges.txt, created if missing")
      .required();
  flags.yes("--overwrite", overwrite, "replace the files of a tokenizer there");
  add_examples(
      flags,
      {{"Learn 1,000 tokens from a text", "train_vocabulary --data my.txt --size 1000 --out v"},
       {"Train a GPT on these tokens", "train_gpt --data my.txt --vocab v/vocab.json"}});
  return run_program(flags, [&] {
    flags.parse(argc, argv);
    check_parent(out);
    if (!overwrite) usage([&] { plangrad::nn::check_no_tokenizer(out); });
    train_vocabulary(data, size, out, overwrite);
    return 0;
  });
}
