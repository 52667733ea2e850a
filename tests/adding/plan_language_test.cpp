// Chapter 00's page of the plan language: its table is written from the table of operations, and it
// names each entry that a plan's header can have. Not here: parsing. Chapter 00.
#include <sstream>

#include "nn/checkpoint/file.h"
#include "parallel/plan/plan.h"
#include "tests/catch.h"
#include "tests/error_of.h"
#include "tests/figures.h"
#include "tests/folders.h"

using namespace plangrad::parallel;

namespace {

/// The operation on the middle one of three stages, for microbatch 5, whose update makes version 3.
Instruction example_of(const Operation& row) {
  const auto [stage, micro, version] = row.fields;
  const bool of_sums =
      row.op == Op::step || row.what == Value::gradient_sum || row.what == Value::norm;
  const int peer = row.mark == 0 ? -1 : row.by_group() ? 0 : 2;
  return {.op = row.op,
          .stage = stage ? 1 : -1,
          .micro = micro ? 5 : -1,
          .version = !version  ? -1
                     : of_sums ? 3
                               : 2,
          .peer = peer,
          .what = row.what};
}

/// The values that it needs on its rank, and in italics those that it takes away.
std::string needs_of(const Plan& plan, const Instruction& x) {
  std::string out;
  for (const Name& name : needs(plan, {}, x)) {
    if (name.what == Value::turn) continue;  // only where a row receives one
    const char* star = frees(x, name.what) ? "*" : "";
    out += (out.empty() ? "" : "; ") + (star + describe(name)) + star;
  }
  return out;
}

std::string makes_of(const Plan& plan, const Instruction& x) {
  std::string out;
  for (const Name& name : makes(plan, x)) out += (out.empty() ? "" : "; ") + describe(name);
  return out;
}

std::string chapter() {
  return plangrad::nn::read_file(plangrad::tests::clone_path("tutorials/00-map.md"));
}

}  // namespace

TEST_CASE("plan language: chapter 00 has every operation") {
  Plan plan;
  plan.stages = 3;
  plan.per_step = 2;
  plan.steps = 4;
  plan.clip = true;
  std::string table = "| text | what the rank does | needs | makes |\n| --- | --- | --- | --- |\n";
  for (const Operation& row : operations()) {
    const Instruction x = example_of(row);
    REQUIRE(is_named_fully(x));
    table += "| `" + print(x) + "` | " + describe(x) + " | " + needs_of(plan, x) + " | " +
             makes_of(plan, x) + " |\n";
  }
  plangrad::tests::check_figure("operations", table);
}

TEST_CASE("plan language: chapter 00 names every entry of a header") {
  const std::string said = plangrad::tests::error_of([] { parse("nothing 1\n-\n"); });
  REQUIRE_THAT(said, Contains("it has stages per_step"));
  std::istringstream keys(said.substr(said.find("it has ") + 7));
  for (std::string key; keys >> key;) {
    INFO(key);
    CHECK_THAT(chapter(), Contains("`" + key + "`"));
  }
}
