// Command lines of train_gpt, a word a line: flags are read, and nothing runs.
#include <sstream>

#include "examples/programs/run_layout.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/program.h"

namespace plangrad::fuzz {

using namespace examples;

std::vector<std::string> seeds() {
  return {
      "--data\nx\n--layers\n2\n--heads\n2\n--width\n16\n--context\n8\n--batch\n8\n--stages\n2\n"
      "--schedule\n1f1b\n--microbatches\n4\n--steps\n20\n",
      "--data\nx.bin\n--vocab\nbytes\n--ranks\n4\n--schedule\ndata\n--batch\n8\n--zero\n2\n"
      "--codec\nquantize:4:64\n--reduction\nring\n",
      "--data=x\n--batch=8\n--schedule=cyclic-v2\n--setting=pipeline\n--stages=4\n--clip=0\n",
      "--data\nx\n--batch\n8\n--prune\n0.9\n--samo\n--prune-method\ngradual\n--learning-rate\n1e-"
      "3\n",
      "--data\nx\n--batch\n8\n--schedule\n2bw\n--stages\n2\n--microbatches\n2\n--codec-channel\n"
      "topk:0.1\n--dtype\nbf16\n--untied\n--recompute\n--quiet\n",
      "--help\n"};
}

void read_input(const std::string& input) {
  std::vector<std::string> words{"train_gpt"};
  std::istringstream in(input);
  for (std::string word; std::getline(in, word);) words.push_back(word);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  auto& [app, run] = program();
  try {
    run.parse(app, static_cast<int>(words.size()), pointers.data());
  } catch (const CLI::Error& error) {
    must(error.what() != std::string(), "a refusal says nothing");
    return;
  }
  const ScheduleFlags& parts = run.parts;
  if (parts.plan_file == "-") return;  // standard input
  // A large plan takes time and memory in proportion, and that is no fault.
  const parallel::Layout& asked = parts.layout;
  if (std::max({asked.stages, asked.microbatches, asked.width, run.ranks}) > 8) return;
  const RunLayout layout(run, 0, run.model.tied, 4);
  must(!layout.describe().empty(), "a layout has no description");
}

}  // namespace plangrad::fuzz
