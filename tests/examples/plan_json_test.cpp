// tutorials/plan-json.md lists the keys of all JSON that `plan` prints. Not here: their values.
#include <set>

#include "nn/checkpoint/file.h"
#include "tests/examples/plan_program.h"
#include "tests/folders.h"

using namespace plangrad::tests;
using nlohmann::json;

namespace {

/// Adds the keys of JSON, save those that are flags of programs or texts for people.
void add_keys(const json& all, std::set<std::string>& keys) {
  for (const auto& [key, value] : all.items()) {
    if (all.is_object()) keys.insert(key);
    const std::set<std::string> free{"flags", "shape", "difference"};
    if (value.is_structured() && !(all.is_object() && free.contains(key))) add_keys(value, keys);
  }
}

}  // namespace

TEST_CASE("the page of plan's JSON has each key that a command prints") {
  const Folder folder;
  const Words sizes{"--stages", "2", "--microbatches", "4"};
  std::set<std::string> keys;
  for (const Words& words :
       {small_plan("show", "cyclic-v2"), small_plan("verify", "2bw") + Words{"--weight-bytes", "8"},
        small_plan("draw", "gpipe") + Words{"--activation-bytes", "8", "--out", folder / "x.svg"},
        Words{"plan", "simulate", "--schedule", "2bw", "--endless"} + sizes,
        Words{"plan", "simulate", "--schedule", "1f1b", "--stages", "8", "--model", "2bw-2.2b",
              "--sequences", "4", "--device", "gpu"},
        Words{"plan", "compare", "1f1b", "gpipe", "--data-parallel", "2", "--zero", "1"} + sizes,
        Words{"plan", "order"} + sizes,
        Words{"plan", "place", folder.write("x.txt", "a 1 8\nb 2 8 a\n"), "--devices", "2"},
        Words{"plan", "search", "--model", "2bw-2.2b", "--machine", "dgx-a100", "--devices", "4",
              "--batch", "8", "--schedule", "gpipe"}})
    add_keys(json_of(words), keys);
  const std::string wrong = folder.write("hangs.plan", hanging_plan);
  add_keys(json::parse(run({"plan", "verify", wrong, "--json"}).output), keys);
  CHECK(keys.size() > 80);
  const std::string page = plangrad::nn::read_file(clone_path("tutorials/plan-json.md"));
  for (const std::string& key : keys) CHECK_THAT(page, Contains("`" + key + "`"));
}
