// What others' files can make a program print: no terminal obeys it.
#include "examples/programs/program.h"

#include "nn/checkpoint/file.h"
#include "tests/examples/plan_program.h"
#include "tests/examples/runs.h"
#include "tests/manifests.h"

using namespace plangrad::tests;
using plangrad::examples::printable;
using plangrad::examples::printable_line;
using plangrad::examples::PrintablePieces;

TEST_CASE("control characters are shown, and text stays as it is") {
  CHECK(printable("a\tb\nc é €") == "a\tb\nc é €");
  CHECK(printable("\x1b[2J\r\x7f") == "\\x1b[2J\\x0d\\x7f");
  CHECK(printable("\u009b31m\u0085") == "\\x9b31m\\x85");
  CHECK(printable("\x9b\xe2\x82") == "\uFFFD\uFFFD\uFFFD");
  CHECK(printable("a\u200bb\ufeff\U000e0041") == "a\\u200bb\\ufeff\\ue0041");
  CHECK(printable("a\u200d\u200cb") == "a\u200d\u200cb");
  CHECK(printable("a\u202eb\u2066c\u200fd\u2028") == "a\\u202eb\\u2066c\\u200fd\\u2028");
}

TEST_CASE("a line stays one line, and a long one loses its middle") {
  CHECK(printable_line("a\nerror: b\x1b") == "a\\x0aerror: b\\x1b");
  const std::string whole = printable_line("begin " + std::string(10'000'000, 'x') + " end");
  CHECK(whole.size() < 5000);
  CHECK(whole.starts_with("begin "));
  CHECK(whole.ends_with(" end"));
}

TEST_CASE("names of others forge no line on a terminal, whatever program quotes them") {
  const Runs runs;
  const std::string name = "x\nerror: \u202e\x1b[31m\u009b2J";
  const std::string out = runs.path(name), plan = runs.path(name) + ".plan";
  const std::string data = runs.folder.write(name + ".txt", varied_text());
  REQUIRE(run(runs.words(name, {"--data", data, "--note", name, "--profile"})).status == 0);
  const auto check = [&](const Words& words) {
    CAPTURE(words);
    const Finished ended = run(words);
    std::istringstream lines(ended.output + ended.errors);
    int quoted = 0;
    for (std::string line; std::getline(lines, line);) {
      quoted += line.find("\\x1b[31m") != line.npos;
      const bool is_first = ended.errors.starts_with(line);
      CHECK((is_first || !line.starts_with("error: ")));
      for (const char* raw : {"\x1b", "\u202e", "\u009b"}) CHECK_THAT(line, !Contains(raw));
    }
    CHECK(quoted > 0);
  };
  check(runs.words(name, {"--data", data, "--overwrite", "--note", name}));
  check({"train_gpt", "--resume", out, "--steps", "7"});
  check({"train_gpt", "--data", runs.path(name), "--out", out});
  check({"checkpoint", "show", out});
  check({"checkpoint", "verify", runs.path(name + "-")});
  check({"sample_gpt", "--from", out, "--export", out});
  check({"plan", "draw", "--schedule", "1f1b", "--stages", "2", "--out", out + ".svg"});
  runs.folder.write(name + ".plan", "stages 1 \x1b[31m 1\n-\n");
  check({"plan", "verify", plan});
  runs.folder.write(name + ".plan", output_of({"plan", "show", "--schedule", "data"}));
  check({"plan", "compare", plan, "1f1b"});
  check({"report", out, out, "--out", out + ".html"});
  check({"train_vocabulary", "--data", out, "--size", "260", "--out", out});
}

TEST_CASE("characters that come in pieces are printed once they are whole") {
  const std::string text = "é€😀\x1b\u009b\xc3 \xe2\x82z\xf0\x9f";
  PrintablePieces pieces;
  std::string out;
  for (char byte : text) out += pieces.take({&byte, 1});
  CHECK(out + pieces.rest() == printable(text));
  CHECK(pieces.take("\xc2") == "");
  CHECK(pieces.take("\x9b") == "\\x9b");
  CHECK(pieces.take("\xe2\x82") == "");
  CHECK(pieces.rest() == "\uFFFD\uFFFD");
}

TEST_CASE("an error does not pass on the commands in a file's names") {
  Folder folder;
  const std::string plan = folder.write("bad.plan", "stages 1 \x1b]0;title\x07 1\n-\n");
  const Finished result = run({"plan", "verify", plan});
  CHECK(result.status != 0);
  CHECK_THAT(result.errors, Contains("\\x1b]0;title\\x07"));
}

TEST_CASE("sampled text does not pass on the commands in it") {
  Folder folder;
  const std::string data = folder.write("escapes.txt", repeat("\x1b[1mab\t", 200));
  const std::string out = folder / "out";
  REQUIRE(run(tiny_run(data, out)).status == 0);
  const Finished result =
      succeeded(run({"sample_gpt", "--from", out, "--prompt", "\x1b[", "--tokens", "60"}));
  CHECK(result.output.starts_with("\\x1b["));
  CHECK(result.output.find('\x1b') == result.output.npos);
}

TEST_CASE("a resumed run says which files its checkpoint makes it read") {
  const Runs runs;
  runs.train("run", {"--stop-after", "2"});
  const Words resume{"train_gpt", "--resume", runs.path("run"), "--stop-after", "2"};
  const Finished told = succeeded(run(resume));
  CHECK_THAT(told.errors, Contains("the checkpoint names files to read: --data " + runs.data));
  const Finished given = succeeded(run(resume + Words{"--data", runs.data}));
  CHECK_THAT(given.errors, !Contains("the checkpoint names files"));
}

namespace {

/// Removes a field from the checkpoint's description of the run, and signs the manifest anew.
void forget(const Runs& runs, const char* field) {
  const std::string name = "run/checkpoint/manifest.json";
  nlohmann::json manifest = nlohmann::json::parse(plangrad::nn::read_file(runs.path(name)));
  manifest["run"].erase(field);
  runs.folder.write(name, signed_manifest(manifest));
}

}  // namespace

TEST_CASE("a resumed run reads no other plan than before, unless the user names it") {
  const Runs runs;
  auto write_plan = [&](const char* schedule) {
    return runs.folder.write("own.plan", run({"plan", "show", "--schedule", schedule, "--stages",
                                              "2", "--microbatches", "2", "--clip", "--tied"})
                                             .output);
  };
  const std::string file = write_plan("1f1b");
  runs.train("run", {"--plan", file, "--stop-after", "2"});
  const Words resume{"train_gpt", "--resume", runs.path("run"), "--stop-after", "1"};
  CHECK(run(resume).status == 0);
  const std::string refusal =
      file + " is not the plan that its checkpoint says the run was made with";
  write_plan("gpipe");
  CHECK_THAT(run(resume).errors, Contains(refusal));
  write_plan("1f1b");
  CHECK(run(resume).status == 0);
  forget(runs, "plan");
  CHECK_THAT(run(resume).errors, Contains(refusal));
}

TEST_CASE("a resumed run reads no other text than before, unless the user names it") {
  const Runs runs;
  const std::string little = runs.folder.write("little.txt", repeat("to be or not to be ", 40));
  runs.train("run", {"--validation", little, "--stop-after", "2"});
  const Words resume{"train_gpt", "--resume", runs.path("run"), "--stop-after", "1"};
  CHECK(run(resume).status == 0);
  runs.folder.write("little.txt", repeat("not to be or to be ", 40));
  check_ended(run(resume), 2, little + " is not the text that the run was validated on");
  CHECK(run(resume + Words{"--validation", little}).status == 0);
  CHECK(run(resume).status == 0);  // the new text is the run's now
  forget(runs, "validation");
  CHECK_THAT(run(resume).errors, Contains("does not say on which text the run was validated"));
}

TEST_CASE(
    "what a stranger's checkpoint says reaches no terminal raw, and sets no flag of a session") {
  const Runs runs;
  runs.train("run", {"--stop-after", "2"});
  const std::string path = runs.path("run/checkpoint/manifest.json");
  nlohmann::json manifest = nlohmann::json::parse(plangrad::nn::read_file(path));
  manifest["run"]["flags"].update({{"--help", true}, {"--quiet", true}, {"--lose", "0@3"}});
  manifest["run"]["flags"]["--validation"] = "";  // takes no other flag as its value
  runs.folder.write("run/checkpoint/manifest.json", old_manifest(manifest));
  const Words resume{"train_gpt", "--resume", runs.path("run"), "--stop-after", "1"};
  const Finished harmless = succeeded(run(resume));
  CHECK_THAT(harmless.output, !Contains("Usage:") && Contains("loss"));
  CHECK_THAT(harmless.errors, Contains("the checkpoint names files to read"));
  nlohmann::json edited = manifest;
  edited["run"]["flags"]["-h"] = "x";
  runs.folder.write("run/checkpoint/manifest.json", old_manifest(edited));
  CHECK_THAT(run(resume).errors, Contains("its checkpoint is damaged: -h is no flag"));
  edited = manifest;
  edited["run"]["flags"]["--steps"] = "9";
  runs.folder.write("run/checkpoint/manifest.json", old_manifest(edited));
  check_ended(run(resume), 2, "damaged: it says --steps \"9\", expected a number; go back with");
  manifest["files"][0]["name"] = "\x1b]0;title\x07";
  runs.folder.write("run/checkpoint/manifest.json", old_manifest(manifest));
  const Finished escaped = run(resume);
  CHECK_THAT(escaped.errors, Contains("\\x1b]0;title\\x07"));
  CHECK(escaped.errors.find('\x1b') == escaped.errors.npos);
  manifest["run"] = nlohmann::json::array();
  runs.folder.write("run/checkpoint/manifest.json", old_manifest(manifest));
  CHECK_THAT(run({"checkpoint", "show", runs.path("run")}).errors, !Contains("json.exception"));
}

TEST_CASE("runs that nobody can finish are refused before they begin") {
  const Runs runs;
  runs.check_refused({"--steps", "2000000000", "--microbatches", "4"},
                     "a run has fewer than 268435456 microbatches in all");
  runs.check_refused({"--data-parallel", "1000000"}, "does not divide into 1000000 microbatches");
  runs.check_refused({"--microbatches", "1000000", "--batch", "1000000"},
                     "cells, and 4194304 are possible: use fewer microbatches");
  runs.check_refused({"--microbatches", "90000", "--batch", "90000", "--reduction", "ring"},
                     "no group of ranks sums gradients");  // and not: too many microbatches
  runs.check_refused(
      {"--schedule", "cyclic-v1", "--stages", "450", "--batch", "450", "--layers", "448"},
      "cells, and 4194304 are possible: use fewer --stages");
  runs.check_refused({"--layers", "100000"}, "the layers are at most 4096");
  runs.check_refused({"--data", "/dev/zero"}, "/dev/zero is a pipe or a device");
}
