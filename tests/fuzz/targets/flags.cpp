// Command lines of train_gpt, a word a line: flags are read, and nothing runs.
#include "tests/fuzz/program.h"

namespace plangrad::fuzz {

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
  if (const examples::GptRun* run = parsed(lines_of(input))) lay_out(*run, 0);
}

}  // namespace plangrad::fuzz
