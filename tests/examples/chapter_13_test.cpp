// What chapter 13 shows of train_gpt on devices: losses of one run on several of them, and what is
// refused. Compared with tutorials/figures/.
// Not here: bounds, and all pairs of features (device_runs_test.cpp).
#include "autograd/error.h"
#include "tests/examples/runs.h"
#include "tests/figures.h"

#if EMULATOR_BUILT

using namespace plangrad::tests;
using plangrad::autograd::text;

namespace {

std::string joined(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += text(line.empty() ? "" : " ", word);
  return line;
}

std::string rounded(double x) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.3f", x);
  return digits;
}

}  // namespace

TEST_CASE("chapter 13: one run on the CPU and on emulated devices") {
  const Runs runs{{"--layers", "2", "--batch", "12", "--ranks", "4", "--stages", "2",
                   "--data-parallel", "2", "--schedule", "2bw"}};
  const std::vector<Words> ways{
      {},
      {"--device", "emulator"},
      {"--device", "emulator", "--transport", "nccl", "--reduction", "scatter"},
      {"--device", "emulator", "--transport", "nccl"}};
  std::string table =
      "| flags | loss of updates 1, 2, 3 | 4, 5, 6 | weights |\n"
      "| --- | --- | --- | --- |\n";
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const std::string name = std::to_string(i), before = std::to_string(i - 1);
    runs.train(name, ways[i]);
    std::vector<std::string> losses;
    for (const auto& line : losses_of(runs.path(name)))
      if (line.contains("loss")) losses.push_back(rounded(line.at("loss")));
    REQUIRE(losses.size() == 6);
    const bool same = i > 0 && weights_of(runs.path(name)) == weights_of(runs.path(before));
    table += text("| ", i == 0 ? "none: the CPU, threads" : text('`', joined(ways[i]), '`'), " | ",
                  losses[0], ", ", losses[1], ", ", losses[2], " | ", losses[3], ", ", losses[4],
                  ", ", losses[5], " | ", same ? "the same bits as above" : "", " |\n");
  }
  check_figure("device_runs", table);
}

TEST_CASE("chapter 13: what train_gpt refuses of devices") {
  const Runs runs;
  const std::vector<Words> asked{
      {"--transport", "nccl"},
      {"--device", "emulator", "--ranks", "2", "--schedule", "data", "--reduction", "nccl"},
      {"--device", "emulator", "--transport", "nccl", "--ranks", "2", "--schedule", "data",
       "--reduction", "nccl", "--codec", "quantize:4"},
      {"--device", "emulator", "--transport", "nccl", "--ranks", "65", "--schedule", "data",
       "--batch", "65"}};
  std::string said;
  for (const Words& flags : asked) {
    const Finished result = run(runs.words("refused", flags));
    CHECK(result.status == 2);
    said += text("$ build/bin/train_gpt --data build/quickstart/corpus.txt ", joined(flags), '\n',
                 result.errors);
  }
  check_printed("device_refused", said);
}

#endif
