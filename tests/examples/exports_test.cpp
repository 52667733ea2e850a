// Exports: into which folders they go, what of others stays there, and damage.
// Not here: their content (fine_tune_test.cpp).

#include <unistd.h>

#include "examples/programs/exports.h"
#include "nn/checkpoint/file.h"
#include "tests/examples/runs.h"

using namespace plangrad::tests;
namespace fs = std::filesystem;

TEST_CASE("exports go only into new folders and into earlier exports") {
  const Runs runs;
  runs.train("run", {"--stop-after", "3"});
  const std::string out = runs.path("run"), theirs = runs.path("theirs");
  fs::create_directories(theirs);
  for (const char* file : {"notes.txt", "model.safetensors"}) {
    runs.folder.write("theirs/" + std::string(file), "theirs");
    check_untouched(theirs, {"sample_gpt", "--from", out, "--export", theirs}, "name a new folder");
    check_untouched(theirs, {"checkpoint", "export", out, theirs}, "name a new folder");
  }
  const Words own{"sample_gpt", "--from", out, "--export", runs.path("own/")};
  runs.succeed(own);
  CHECK(succeeded(run(own)).output ==
        "wrote " + runs.path("own/") + ": a GPT for Hugging Face's from_pretrained()\n");
  fs::create_directories(out + "/huggingface");
  fs::rename(theirs + "/model.safetensors", out + "/huggingface/model.safetensors");
  const Words resume{"train_gpt", "--resume", out, "--data", runs.data};
  check_untouched(out, resume, "move it away, or replace it with --overwrite");
  runs.succeed(resume + Words{"--overwrite"});
  CHECK(run({"checkpoint", "verify", out}).status == 0);
}

TEST_CASE("a run whose export can't be read is refused with the cure") {
  const Folder run;
  fs::create_directory(run / "huggingface");
  fs::permissions(run / "", fs::perms(0755));
  fs::permissions(run / "huggingface", fs::perms::none);
  const bool was_root = ::geteuid() == 0;  // whom no permissions stop
  if (was_root) std::ignore = ::seteuid(65534);
  const auto check = [&] { plangrad::examples::check_export_of(run / "", "go"); };
  CHECK_THROWS_WITH(check(), Contains("or can't be read: move it away, or go"));
  if (was_root) std::ignore = ::seteuid(0);
}

TEST_CASE("a new vocabulary replaces a whole tokenizer if it is told to, and two don't mix") {
  const Runs runs;
  const std::string other = runs.folder.write("other.txt", repeat("the other text", 40));
  const std::string out = runs.path("out");
  const auto words = [&](const std::string& data, const std::string& folder) {
    return Words{"train_vocabulary", "--data", data, "--size", "262", "--out", folder};
  };
  runs.succeed(words(runs.data, out));
  runs.succeed(words(other, runs.path("second")));
  const auto first = files_in(out), second = files_in(runs.path("second"));
  check_untouched(out, words(other, out), "vocab.json is there: name another folder");
  for (const auto& [file, bytes] : first) fs::remove(out + "/" + file);
  runs.folder.write("out/tokenizer.json", "older");
  check_untouched(out, words(other, out), "tokenizer.json is there: name another folder");
  for (int round = 0; round < 10; ++round) {
    Running a(words(runs.data, out) + Words{"--overwrite"}),
        b(words(other, out) + Words{"--overwrite"});
    succeeded(a.finish()), succeeded(b.finish());
    const auto left = files_in(out);
    CHECK((left == first || left == second));
  }
}

TEST_CASE("each damaged byte of an export is found") {
  const Runs runs;
  const std::string vocabulary = runs.path("pairs");
  runs.succeed({"train_vocabulary", "--data", runs.data, "--size", "260", "--out", vocabulary});
  runs.train("run", {"--vocab", vocabulary});
  const std::string folder = runs.path("run/huggingface");
  CHECK_THAT(run({"checkpoint", "verify", runs.path("run")}).output,
             Contains("huggingface: intact"));
  for (const auto& [file, bytes] : files_in(folder)) {
    for (const std::size_t at : {std::size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
      CAPTURE(file, at);
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ 1);
      runs.folder.write("run/huggingface/" + file, damaged);
      const Finished verified = run({"checkpoint", "verify", runs.path("run/checkpoint")});
      CHECK(verified.status == 1);
      CHECK_THAT(verified.output, Contains("huggingface: DAMAGED: ") && Contains(file));
    }
    check_ended(run({"sample_gpt", "--from", folder, "--tokens", "1"}), 2, file);
    const Words tune{"train_gpt", "--from", folder,  "--data",          runs.data,
                     "--steps",   "1",      "--out", runs.path("tuned")};
    CHECK_THAT(run(tune).errors, Contains(file));
    runs.folder.write("run/huggingface/" + file, bytes);
  }
  CHECK(run({"checkpoint", "verify", folder}).status == 0);
  fs::remove(folder + "/merges.txt");
  CHECK_THAT(run({"checkpoint", "verify", folder}).output, Contains("merges.txt is missing"));
  fs::remove(folder + "/plangrad-checksums.txt");
  const Finished unlisted = succeeded(run({"checkpoint", "verify", runs.path("run")}));
  CHECK_THAT(unlisted.output, Contains("huggingface: without checksums"));
}

TEST_CASE("an export of another model, or one that was broken off, is told by checkpoint verify") {
  const Runs runs;
  runs.train("run"), runs.train("other", {"--seed", "5"}), runs.train("more", {"--heads", "1"});
  const std::string out = runs.path("run"), folder = out + "/huggingface";
  const auto check_told = [&](const std::string& part) {
    const Finished verified = run({"checkpoint", "verify", out});
    CHECK(verified.status == 1);
    CHECK_THAT(verified.output, Contains("huggingface: DAMAGED: ") && Contains(part));
  };
  for (const char* other : {"other", "more"}) {
    fs::remove_all(folder);
    fs::copy(runs.path(other) + "/huggingface", folder);
    check_told("it is of another model than the newest checkpoint: move it away, or export again");
  }
  runs.succeed({"checkpoint", "export", out, folder});
  runs.succeed({"checkpoint", "verify", out});
  for (const std::string end : {".partial", ".plangrad-partial"}) {  // an older version's, and ours
    fs::rename(folder, folder + end);
    check_told(end + " is an export that was broken off: remove it, and export again");
    fs::rename(folder + end, folder);
  }
  runs.folder.write("run/huggingface/plangrad-checksums.txt",
                    "an export by plangrad that is not complete\n");
  check_told("broken export: export again");
  const std::string cure = "what is there is not the run's export: move it away, and export again";
  fs::remove_all(folder);
  runs.folder.write("run/huggingface", "mine");
  check_told(cure);
  fs::remove(folder);
  fs::create_directory(folder);
  check_told(cure);
  runs.folder.write("run/huggingface/README.md", "mine");
  check_told(cure);
  runs.resume("run", {"--steps", "9", "--stop-after", "1"});  // not at its end yet
  runs.succeed({"checkpoint", "verify", out});
}

TEST_CASE("an export that another program changed is not replaced") {
  const Runs runs;
  runs.train("run", {"--stop-after", "3"});
  const std::string out = runs.path("run"), own = runs.path("own");
  const Words again{"checkpoint", "export", out, own};
  runs.succeed(again);
  for (const char* file : {"model.safetensors", "tokenizer_config.json", "vocab.json"}) {
    CAPTURE(file);
    const auto before = files_in(own);
    runs.folder.write("own/" + std::string(file), "mine");  // an export of characters has no vocab
    check_untouched(own, again, "own/" + std::string(file) + " is not as plangrad exported it");
    if (before.contains(file))
      runs.folder.write("own/" + std::string(file), before.at(file));
    else
      fs::remove(own + "/" + file);
  }
  runs.succeed(again);
  runs.resume("run");  // to its end, which exports it
  const Words longer{"train_gpt", "--resume", out, "--data", runs.data, "--steps", "8"};
  std::ofstream(out + "/huggingface/model.safetensors", std::ios::app) << "tuned";
  check_untouched(out, longer, "move it away, or replace it with --overwrite");
}

TEST_CASE("an export keeps its folder's permissions and the link to it, and needs a free folder") {
  const Runs runs;
  runs.train("run", {"--stop-after", "3"});
  const std::string out = runs.path("run"), real = runs.path("real"), link = runs.path("link");
  fs::create_directory(real);
  fs::permissions(real, fs::perms::owner_all);
  fs::create_directory_symlink(real, link);
  runs.succeed({"checkpoint", "export", out, link});
  CHECK(fs::is_symlink(link));
  CHECK(fs::exists(real + "/model.safetensors"));
  CHECK(fs::status(real).permissions() == fs::perms::owner_all);
  const Words nowhere{"sample_gpt", "--from", out, "--export", ""};
  check_untouched(out, nowhere, "an export needs a folder: name one");
  check_untouched(out, {"checkpoint", "export", out, "/dev/null"}, "name a new folder");
  const Words here{"/usr/bin/env", "-C", real, program("checkpoint"), "export", out, "."};
  CHECK_THAT(run(here).errors, Contains("this one is in use: name another folder"));
  CHECK(fs::exists(real + "/model.safetensors"));
}

TEST_CASE("two exports into one folder at once don't mix") {
  const Runs runs;
  runs.train("run", {"--stop-after", "3"});
  const Words words{"checkpoint", "export", runs.path("run"), runs.path("own")};
  for (int round = 0; round < 5; ++round) {
    Running a(words), b(words);
    int done = 0;
    for (const Finished& each : {a.finish(), b.finish()}) {
      done += each.status == 0;
      if (each.status != 0) CHECK_THAT(each.errors, Contains("another program exports there now"));
    }
    CHECK(done >= 1);
    CHECK(run({"checkpoint", "verify", runs.path("own")}).status == 0);
  }
}
