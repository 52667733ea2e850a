// The programs at their edges: flags, --help, bad input, output. What fails says so in one line,
// and leaves an earlier run as it was.
#include "tests/examples/programs.h"

#include "examples/programs/run_flags.h"

using namespace plangrad::tests;

namespace {

const std::string letters = repeat("abcdefgh", 50);

struct Refusal {
  Words flags;
  std::string part;
};

/// The tiny run with these flags is refused before it begins: it prints nothing, makes no folder,
/// and changes no file of an earlier run.
void check_refusals(const Folder& folder, const std::vector<Refusal>& refusals) {
  const std::string data = folder.write("letters.txt", letters);
  REQUIRE(run(tiny_run(data, folder / "earlier")).status == 0);
  const auto before = files_in(folder / "earlier");
  // 3 of metrics, summary, trace, plan, 2 pages, 3 of the checkpoint, 6 of the export
  REQUIRE(before.size() == 17);
  for (const Refusal& refusal : refusals) {
    CAPTURE(refusal.flags);
    check_failed(run(tiny_run(data, folder / "new") + refusal.flags), refusal.part);
    CHECK_FALSE(std::filesystem::exists(folder / "new"));
    check_failed(run(tiny_run(data, folder / "earlier") + refusal.flags), refusal.part);
    const bool intact = files_in(folder / "earlier") == before;
    CHECK(intact);
  }
}

}  // namespace

TEST_CASE("the help of every program lists its flags") {
  const std::map<std::string, Words> flags{
      {"train_gpt", {"--layers",       "--heads",        "--width",
                     "--context",      "--dropout",      "--untied",
                     "--vocab",        "--data",         "--validation",
                     "--steps",        "--batch",        "--learning-rate",
                     "--warmup",       "--weight-decay", "--min-learning-rate",
                     "--clip",         "--seed",         "--out",
                     "--resume",       "--save-every",   "--evaluate-every",
                     "--keep",         "--save-minutes", "--quiet",
                     "--microbatches", "--recompute",    "--device",
                     "--dtype",        "--transport",    "--timeout"}},
      {"sample_gpt", {"--from", "--prompt", "--tokens", "--temperature", "--top-k", "--seed"}},
      {"train_vocabulary", {"--data", "--size", "--out"}}};
  for (const auto& [program, names] : flags) {
    Finished help = succeeded(run({program, "--help"}));
    CHECK(help.errors.empty());
    CHECK_THAT(help.output, Contains("Usage: " + program));
    for (const std::string& name : names) CHECK_THAT(help.output, Contains("\n  " + name + " "));
  }
}

TEST_CASE("every program refuses wrong flags") {
  const Words vocabulary{"train_vocabulary", "--data", "a", "--size", "300", "--out", "b"};
  for (const Words& program : {Words{"train_gpt"}, Words{"sample_gpt"}, vocabulary}) {
    check_failed(run(program + Words{"--no-such-flag"}), "--no-such-flag");
    check_failed(run(program + Words{"stray"}), "stray");
    check_failed(run(program + Words{"--out"}), "--out");
  }
  check_failed(run({"train_gpt"}), "--data FILE is needed");
  check_failed(run({"train_vocabulary"}), "is required");
  check_failed(run({"train_vocabulary", "--size", "256"}),
               "--size: expected a whole number, 257 or more");
  check_failed(run({"sample_gpt", "--tokens", "0"}),
               "--tokens: expected a whole number, 1 or more");
  check_failed(run({"sample_gpt", "--temperature", "-1"}), "--temperature: expected a number");
  check_failed(run({"sample_gpt", "--top-k", "-1"}), "--top-k: expected a whole number, 0 or more");
}

TEST_CASE("train_gpt refuses flags that make no sense, before it writes") {
  Folder folder;
  check_refusals(
      folder,
      {{{"--no-such-flag"}, "--no-such-flag"},
       {{"--steps"}, "--steps"},
       {{"--steps", "many"}, "--steps: expected a whole number, 1 or more"},
       {{"--steps", "1.5"}, "got 1.5"},
       {{"--steps", "99999999999999999999"}, "--steps: expected"},
       {{"--layers", "0"}, "--layers: expected"},
       {{"--layers", "3000000000"}, "from 1 to 2147483647"},
       {{"--learning-rate", "nan"}, "--learning-rate: expected a number"},
       {{"--learning-rate", "-1"}, "--learning-rate: expected a number"},
       {{"--dropout", "1"}, "--dropout: expected"},
       {{"--seed", "-1"}, "--seed: expected"},
       {{"--dtype", "f16"}, "--dtype: expected one of f32, tf32, bf16; got f16"},
       {{"--recompute=maybe"}, "--recompute: expected no value, true or false; got maybe"},
       {{"--transport", "nccl"}, "use --device cuda or emulator with it"},
       {{"--transport", "mpi"}, "leave the flag out"},
       {{"--heads", "3"}, "the width must be a multiple of the heads; 16 / 3 leaves 1"},
       {{"--microbatches", "3"}, "--batch 4 does not divide into 3 microbatches"},
       {{"--min-learning-rate", "1"}, "--min-learning-rate 1 is above --learning-rate 0.001"}});
}

TEST_CASE("a model larger than the memory is refused, before anything is written") {
  Folder folder;
  const std::string data = folder.write("letters.txt", letters),
                    ids = folder.write("ids.bin", repeat(std::string("\xff\xff\1\0", 4), 100));
  check_refusals(folder, {{{"--data", data, "--width", "1000000"}, "GB of memory, the machine has"},
                          {{"--data", data, "--batch", "99999999999"}, " GB; use fewer --lay"},
                          {{"--data", ids, "--batch", "1000000"}, "GB of memory"},
                          {{"--data", data, "--width", "200000000"}, "more than this network"},
                          {{"--data", data, "--warmup", "3000"}, "--warmup 3000 is longer than"}});
}

TEST_CASE("ranks on the CPU share what the machine has left, or hold what they are told") {
  plangrad::examples::RunFlags flags;
  CHECK(flags.cap(1) > 1 << 20);
  CHECK(flags.cap(100) < flags.cap(1) / 10);  // other programs may end between the two
  flags.memory_cap = 5;
  CHECK(flags.cap(2) == 5);
  flags = {};
  flags.device = "cuda";
  CHECK(flags.cap(2) == 0);
  CHECK(flags.type() == plangrad::autograd::DType::bf16);
}

TEST_CASE("train_gpt refuses data that it can't train on, before it writes") {
  Folder folder;
  const std::string empty = folder.write("empty.txt", ""), small = folder.write("small.txt", "abc");
  const std::string odd = folder.write("odd.bin", "abc"),
                    high = folder.write("high.bin", repeat(std::string("\x2c\1\x2d\1", 4), 100));
  const std::string bytes = folder.write("bytes.txt", letters + "\xff");
  check_refusals(
      folder, {{{"--data", folder / "none.txt"}, "no file "},
               {{"--data", folder / "earlier"}, "is a folder"},
               {{"--data", empty}, "is empty"},
               {{"--data", small}, "a context of 8 needs at least 9"},
               {{"--validation", small}, "the validation data"},
               {{"--validation", folder / "none.txt"}, "no file "},
               {{"--context", "100"}, "a context of 100 needs at least 101"},
               {{"--data", odd}, "odd number of bytes"},
               {{"--data", high, "--vocab", "bytes"}, "token 300 at position 0, outside the vocab"},
               {{"--data", high, "--vocab", "chars"}, "holds token ids"},
               {{"--data", bytes}, "is not valid UTF-8 at byte 400"},
               {{"--vocab", "words"}, "neither \"chars\" nor \"bytes\" nor a file"}});
}

TEST_CASE("train_gpt refuses to resume what is not the same run") {
  Folder folder;
  const std::string other = folder.write("other.txt", repeat("abcdefghi", 50));
  const std::string ids = folder.write("ids.bin", repeat(std::string("\7\0\10\0", 4), 100));
  const std::string turned =
      folder.write("turned.txt", std::string(letters.rbegin(), letters.rend()));
  const Words resume{"--resume", folder / "earlier"};
  check_refusals(folder,
                 {{{"--resume", folder / "none"}, "holds no checkpoint"},
                  {resume, "the run has done 6 of its 6 updates"},
                  {resume + Words{"--steps", "9", "--layers", "2"},
                   "the run began with --layers 1, not 2; leave this flag out"},
                  {resume + Words{"--steps", "9", "--seed", "5"}, "began with --seed 1337, not 5"},
                  {resume + Words{"--steps", "9", "--untied"}, "began with --untied false"},
                  {resume + Words{"--steps", "9", "--dtype", "bf16"}, "began with --dtype"},
                  {resume + Words{"--steps", "9", "--data", other}, "vocabulary is not the run's"},
                  {resume + Words{"--steps", "9", "--data", turned}, "is not the text"},
                  {resume + Words{"--steps", "9", "--data", ids}, "vocabulary is not the run's"}});
}

TEST_CASE("an output folder that can't be written is found before training") {
  Folder folder;
  const std::string data = folder.write("letters.txt", letters),
                    file = folder.write("file", "kept");
  folder.write("blocked/checkpoint", "kept, too");
  for (const std::string& out : {file, file + "/below", folder / "blocked"})
    check_failed(run(tiny_run(data, out)), "can't write to the folder " + out);
  CHECK(files_in(folder / "blocked") ==
        std::map<std::string, std::string>{{"checkpoint", "kept, too"}});
}

TEST_CASE("a loss that is not finite ends the run and leaves the earlier one in its folder") {
  Folder folder;
  const std::string data = folder.write("letters.txt", letters), out = folder / "out";
  REQUIRE(run(tiny_run(data, out)).status == 0);
  auto before = files_in(out);
  auto check_kept = [&] {
    auto after = files_in(out);
    for (const char* name : {"metrics.jsonl", "metrics.csv", "events"})  // tell how the run failed
      CHECK(after.erase(std::string(name) + ".plangrad-partial") == 1);
    const bool intact = after == before;
    CHECK(intact);
  };
  const Words explode{"--learning-rate", "1e25", "--clip", "0", "--warmup", "0"};
  const Finished beside = run(tiny_run(data, out, explode + Words{"--overwrite"}));
  constexpr int diverged = 3;
  CHECK(beside.status == diverged);
  CHECK_THAT(beside.errors,
             Contains("holds an earlier run, which stays") && Contains("the loss is "));
  check_kept();

  const Finished resumed =
      run(tiny_run(data, out, explode + Words{"--resume", out, "--steps", "9"}));
  CHECK(resumed.status == diverged);
  CHECK_THAT(resumed.errors, Contains("update 7 is saved aside") &&
                                 Contains("this rank's weights are as the step before left them"));
  CHECK(step_of(out) == 6);

  const std::string alone = folder / "new";
  const Finished ended = run(tiny_run(data, alone, explode));
  CHECK(ended.status == diverged);
  CHECK_THAT(ended.errors,
             Contains("saved aside, in " + alone + "/diverged") &&
                 Contains("begin anew: the same command with --overwrite and a lower"));
  CHECK(step_of(alone + "/diverged") == 1);
  const Finished again = run(tiny_run(data, alone, explode + Words{"--overwrite"}));
  CHECK_THAT(again.errors, Contains("saved aside, in " + alone + "/diverged"));
  CHECK(run(tiny_run(data, alone, {"--overwrite"})).status == 0);
  CHECK(step_of(alone) == 6);
}

TEST_CASE("whole numbers are decimal in every program, also with zeros in front") {
  Folder folder;
  const std::string data = folder.write("letters.txt", letters), out = folder / "out";
  const auto check_status = [](int status, const Words& words) {
    CAPTURE(words);
    const Finished ended = run(words);
    CHECK(ended.status == status);
    return ended.output;
  };
  check_status(0, tiny_run(data, out, {"--steps", "020", "--save-every", "010", "--keep", "08"}));
  CHECK(step_of(out) == 20);
  const Words again{"train_gpt", "--resume", out, "--overwrite", "--at", "010"};
  check_status(0, again + Words{"--steps", "012"});
  CHECK(step_of(out) == 12);
  const Words sampled{"sample_gpt", "--from", out, "--prompt", "a", "--seed", "1", "--tokens"};
  CHECK(check_status(0, sampled + Words{"010"}) == check_status(0, sampled + Words{"10"}));
  const Words vocabulary{"train_vocabulary", "--data", data, "--out", folder / "pairs", "--size"};
  check_status(0, vocabulary + Words{"0258"});
  CHECK(nlohmann::json::parse(files_in(folder / "pairs").at("vocab.json")).size() == 258);
  for (const char* other : {"0x10", "1e1", "+10", " 10", "0b1", "1'0"})
    check_status(2, tiny_run(data, folder / "new", {"--steps", other}));
}

TEST_CASE("output into a file is plain lines, and --quiet prints nothing") {
  Folder folder;
  const std::string data = folder.write("letters.txt", letters);
  Finished plain = succeeded(run(tiny_run(data, folder / "plain")));
  CHECK(plain.errors.empty());
  CHECK_THAT(plain.output, Contains("\nstep      6/6  0:00 left  loss "));
  CHECK(plain.output.find_first_of("\r\033") == std::string::npos);
  CHECK(plain.output.back() == '\n');

  Finished quiet = succeeded(run(tiny_run(data, folder / "quiet", {"--quiet"})));
  CHECK(quiet.output + quiet.errors == "");
  CHECK(losses_of(folder / "quiet") == losses_of(folder / "plain"));
}

TEST_CASE("a terminal gets one progress line, and a validation or error has a line of its own") {
  Folder folder;
  const std::string data = folder.write("letters.txt", letters);
  Finished good =
      succeeded(run_on_terminal(tiny_run(data, folder / "good", {"--evaluate-every", "2"})));
  CHECK_THAT(good.output, Contains("\r\033[Kstep      1/6"));
  CHECK_THAT(good.output, Contains("\r\nvalidation loss"));  // a terminal adds the \r to a \n
  for (const char* begin : {"\033[Kstep      3/6", "\033[Kstep      5/6"}) {
    const std::string line = good.output.substr(good.output.find(begin) + 1);
    CHECK(line.find("  validation ") < line.find('\n'));
    CHECK(line.find('\n') < line.find('\033'));  // nothing is written over it
  }

  Finished bad = run_on_terminal(
      tiny_run(data, folder / "bad", {"--learning-rate", "1e25", "--clip", "0", "--warmup", "0"}));
  CHECK(bad.status == 3);
  CHECK_THAT(bad.output, Contains("\r\nupdate 1 is saved aside") && Contains("\r\nerror: step "));

  Words narrow = tiny_run(data, folder / "narrow");
  narrow[0] = program(narrow[0]);
  const std::string shown =
      run_on_terminal(Words{"/bin/sh", "-c", "stty cols 44 <&1 && exec \"$@\"", "sh"} + narrow)
          .output;
  const std::string last = shown.substr(shown.rfind("\033[K") + 3);
  CHECK_THAT(last, Contains("step      6/6  0:00 left  loss "));
  CHECK(last.find('\r') < 44);
  CHECK(last.find("tokens") > last.find('\r'));
}
