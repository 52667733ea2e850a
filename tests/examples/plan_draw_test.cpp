// plan draw: figures, pages, traces and text of every schedule, and the flags that change them.
// Not here: what a picture shows (tests/parallel/drawing).
#include "tests/examples/plan_program.h"

#include "nn/checkpoint/file.h"
#include "tests/parallel/support/ordinary_schedules.h"

using namespace plangrad::tests;

TEST_CASE("plan draw writes every schedule in every form, and says so") {
  Folder folder;
  for (const auto& [name, make] : ordinary_schedules()) {
    auto drawn = [&](const std::string& ending) {
      const std::string file = folder / (name + ending);
      CHECK_THAT(output_of(small_plan("draw", name) + Words{"--out", file}),
                 Contains("wrote " + file + ": " + name));
      return plangrad::nn::read_file(file);
    };
    CHECK(drawn(".svg").starts_with("<svg"));
    const std::string page = drawn(".html"), file = folder / (name + ".html");
    CHECK(page.starts_with("<!DOCTYPE html>"));
    CHECK_THAT(page, Contains("\"schedule\":\"" + name + "\"") && Contains("\"facts\":{") &&
                         Contains("class Timeline"));
    CHECK_THAT(page, Contains(R"("made":{"command":"plan draw --schedule )") && !Contains(file));
    CHECK(nlohmann::json::parse(drawn(".json")).contains("traceEvents"));
    CHECK(drawn(".txt") == output_of(small_plan("draw", name)));
    CHECK_THAT(drawn(".txt"), Contains("rank 0  0F0"));
  }
}

TEST_CASE("plan draw --alive is for figures") {
  Folder folder;
  const Words draw = small_plan("draw", "2bw") + Words{"--alive"};
  CHECK_THAT(output_of(draw + Words{"--out", folder / "plan.svg"}), Contains("wrote"));
  const std::string printed = output_of(draw + Words{"--format", "svg"});
  CHECK(printed == plangrad::nn::read_file(folder / "plan.svg"));
  check_refused(draw, "add --out FILE.svg");
  const Words large{"plan", "draw", "--schedule", "gpipe", "--microbatches", "140000", "--out"};
  check_refused(large + Words{folder / "x.html"},
                "cells would be too large to open, and 262144 are possible");
  CHECK_THAT(output_of(large + Words{folder / "x.json"}), Contains("wrote"));
  for (const char* name : {"plan.html", "plan.json", "plan.txt"}) {
    check_refused(draw + Words{"--out", folder / name}, "--alive changes a figure");
    CHECK_FALSE(std::filesystem::exists(folder / name));
  }
}

TEST_CASE("plan draw makes figures of one size and scale, if asked for") {
  Folder folder;
  for (const char* schedule : {"2bw", "1f1b"}) {
    const std::string file = folder / (schedule + std::string(".svg"));
    output_of(small_plan("draw", schedule) +
              Words{"--width", "700", "--seconds", "50", "--out", file});
    CHECK_THAT(plangrad::nn::read_file(file), Contains("width=\"700\"") && Contains(">50</text>"));
  }
  for (const Words& size : {Words{"--width", "700"}, Words{"--seconds", "50"}})
    check_refused(small_plan("draw", "2bw") + size,
                  size[0] + " changes a figure; add --out FILE.svg");
  check_refused(small_plan("draw", "2bw") + Words{"--width", "90", "--out", folder / "small.svg"},
                "give it more width");
}

TEST_CASE("plan draw says the setting of a cyclic schedule") {
  Folder folder;
  for (const std::string setting : {"data", "pipeline"}) {
    Words words{"plan",     "draw", "--schedule", "cyclic-v2",
                "--stages", "3",    "--out",      folder / "plan.html"};
    if (setting != "data") words = words + Words{"--setting", setting};
    CHECK_THAT(output_of(words), Contains("plan.html: cyclic-v2 (" + setting + "), makespan"));
    CHECK_THAT(plangrad::nn::read_file(folder / "plan.html"),
               Contains("\"title\":\"cyclic-v2 (" + setting + ")\""));
  }
}

TEST_CASE("plan draw writes the page of a plan that breaks a rule, and then rejects it") {
  Folder folder;
  const std::string file = folder.write("broken.plan", "stages 1 per_step 1 steps 1\n0F0v0 0Sv1\n");
  const std::string page = folder / "x.html";
  const Finished result = run({"plan", "draw", file, "--out", page});
  CHECK(result.status == 1);
  CHECK_THAT(result.output, Contains("wrote " + page));
  CHECK_THAT(plangrad::nn::read_file(page),
             Contains("\"title\":\"broken.plan\"") && Contains("\"rule\":\"sum\""));
}

TEST_CASE("plan draw --json has the facts beside the file that it wrote") {
  Folder folder;
  const std::string file = folder / "picture.svg";
  nlohmann::json facts = json_of(small_plan("draw", "2bw") + Words{"--out", file});
  CHECK(facts["file"] == file);
  CHECK(plangrad::nn::read_file(file).starts_with("<svg"));
  facts.erase("file");
  CHECK(facts == json_of(small_plan("verify", "2bw")));
  check_refused(small_plan("draw", "2bw") + Words{"--json"}, "give --out FILE");
}

TEST_CASE("plan draw marks the critical path where it is asked to, and a figure can show it") {
  Folder folder;
  const std::pair<const char*, const char*> marks[] = {{"x.svg", ">critical path<"},
                                                       {"x.html", "\"path\":true"}};
  for (const auto& [name, mark] : marks) {
    const Words words = small_plan("draw", "1f1b") + Words{"--out", folder / name};
    output_of(words);
    CHECK_THAT(plangrad::nn::read_file(folder / name), !Contains(mark));
    output_of(words + Words{"--critical-path"});
    CHECK_THAT(plangrad::nn::read_file(folder / name), Contains(mark));
  }
  for (const Words& out : {Words{}, Words{"--out", folder / "x.txt"}})
    check_refused(small_plan("draw", "1f1b") + out + Words{"--critical-path"},
                  "add --out FILE.svg or FILE.html");
}

TEST_CASE("programs replace the pages, figures, traces and texts that they wrote, and no others") {
  Folder folder;
  const std::string page = folder.write("a.html", "my notes"),
                    figure = folder.write("a.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>"),
                    trace = folder.write("a.json", R"({"traceEvents":[]})"),
                    text = folder.write("a.txt", "rank 0 of 4 is ready"),
                    machine = folder.write("machine.txt", "# Mine\nmachine laptop\n");
  const Words files{page, figure, trace, text, machine};
  std::vector<Words> commands{{"plan", "poster", "--out", figure},
                              {"plan", "machine", "dgx-a100", "--out", machine},
                              {"plan", "machine", "laptop", "--out", machine},
                              {"plan", "draw", "--schedule", "zb-h1", "--stages", "2",
                               "--microbatches", "2", "--endless", "--out", text}};
  for (const std::string& file : files)
    for (const char* schedule : {"1f1b", "gpipe"})
      commands.push_back(small_plan("draw", schedule) + Words{"--out", file});
  const auto theirs = files_in(folder / "");
  for (const Words& each : commands) check_refused(each, each.back() + " is there, and no program");
  CHECK(files_in(folder / "") == theirs);
  for (const std::string& file : files) {
    std::filesystem::rename(file, file + ".real");
    std::filesystem::resize_file(file + ".real", 0);
    std::filesystem::create_symlink(file + ".real", file);
  }
  for (int times = 0; times < 2; ++times)
    for (const Words& each : commands) output_of(each);
  for (const std::string& file : files) CHECK(std::filesystem::is_symlink(file));
  const std::string device = folder / "device";
  std::filesystem::create_symlink("/dev/null", device);
  output_of({"plan", "machine", "laptop", "--out", device});
  CHECK(std::filesystem::is_symlink(device));
}

TEST_CASE("a figure that goes to standard output is all that is printed") {
  Folder folder;
  const std::string file = folder / "x.svg";
  std::filesystem::create_symlink("/dev/stdout", file);
  const std::string printed = output_of(small_plan("draw", "1f1b") + Words{"--out", file});
  CHECK(printed.starts_with("<svg"));
  CHECK(printed.ends_with("</svg>\n"));
  CHECK(std::filesystem::is_symlink(file));
}
