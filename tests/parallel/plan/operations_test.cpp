// The table of operations: its text is read back, and what its rows say fits together.
// Not here: plans that break a rule (verify_rules_test.cpp).

#include "parallel/plan/lifetimes.h"
#include "tests/catch.h"

namespace plangrad::tests {

using namespace parallel;

namespace {

/// An instruction with the numbers that its operation takes.
Instruction example(const Operation& row) {
  Instruction x{.op = row.op, .what = row.what};
  if (row.fields.stage) x.stage = 2;
  if (row.fields.micro) x.micro = 5;
  if (row.fields.version) x.version = 3;
  if (row.mark != 0) x.peer = 1;
  return x;
}

Plan three_stages() {
  Plan plan;
  plan.stages = 3;
  plan.per_step = 2;
  plan.steps = 3;
  plan.clip = true;
  plan.rows.resize(2);
  return plan;
}

}  // namespace

TEST_CASE("operations: the text of each is read back", "[plan]") {
  std::set<std::string> words;
  for (const Operation& row : operations()) {
    const Instruction x = example(row);
    INFO(print(x));
    CHECK(&operation(x) == &row);
    CHECK(is_named_fully(x));
    CHECK(parse_instruction(print(x)) == x);
    CHECK(words.insert(print(x)).second);  // no two are written alike
    CHECK_THAT(describe(x), !Contains("{"));
    CHECK(is_compute(x) == (row.lane() == Lane::compute));
  }
}

TEST_CASE("operations: a word that is none says what it lacks", "[plan]") {
  CHECK_THROWS_WITH(parse_instruction("2F5"), Contains("F takes a stage, a microbatch and a ver"));
  CHECK_THROWS_WITH(parse_instruction("2a5"), Contains("a takes a stage, a microbatch and a rank"));
  CHECK_THROWS_WITH(parse_instruction("2X5v1"),
                    Contains("expected one of F B I W S Da") && Contains("for \"X\""));
  CHECK_THROWS_WITH(parse_instruction("2F05v1"), Contains("did you mean 2F5v1?"));
  CHECK_THROWS_WITH(parse_instruction("2F5v1@0"), Contains("is not an instruction"));
  CHECK_THROWS_WITH(parse_instruction("2F5v1 "), Contains("expected nothing"));
  CHECK_THROWS_WITH(parse_instruction("2a5>"), Contains("expected a number"));
  CHECK_THROWS_WITH(parse_instruction("2F99999999999v1"), Contains("expected a number"));
  // Examples are the operation's own; letters that stand for two have both.
  CHECK_THROWS_WITH(
      parse_instruction("0p5v1>1"),
      Contains("p takes a stage, a microbatch and a rank, as 2p5>3, or ") && Contains("as 2p5<3"));
  CHECK_THROWS_WITH(parse_instruction("2R"), Contains("a version and a group, as 2Rv1@0") &&
                                                 Contains("a stage and a microbatch, as 2R5"));
  CHECK_FALSE(find_operation({.op = Op::step, .what = Value::turn}));
  CHECK_THROWS_WITH(operation({.op = Op::gather, .what = Value::norm}),
                    Contains("does not take this value"));
}

TEST_CASE("operations: what is needed is what another one makes", "[plan]") {
  const Plan plan = three_stages();
  const std::vector<int> tied = tied_versions(plan);
  auto need = [&](const char* word) { return needs(plan, tied, parse_instruction(word)); };
  auto make = [&](const char* word) { return makes(plan, parse_instruction(word)); };
  using enum Value;
  CHECK(need("1F3v1") == std::vector<Name>{{activation, 0, 3}, {turn, 1, 3}, {weights, 1, 1}});
  CHECK(make("0F3v1") == std::vector<Name>{{stash, 0, 3}, {activation, 0, 3}});
  CHECK(make("2F3v1") == std::vector<Name>{{stash, 2, 3}});  // the last stage has a loss
  CHECK(need("1B3v1") ==
        std::vector<Name>{{stash, 1, 3}, {activation_gradient, 1, 3}, {weights, 1, 1}});
  CHECK(need("1W3v1") == std::vector<Name>{{stash, 1, 3}, {weights, 1, 1}});
  CHECK(make("1B3v1") == std::vector<Name>{{activation_gradient, 0, 3}, {open_sum, 1, 2}});
  CHECK(make("1I3v1") == std::vector<Name>{{activation_gradient, 0, 3}});
  CHECK(make("1W3v1") == std::vector<Name>{{open_sum, 1, 2}});
  CHECK(need("1Rv2@0") == std::vector<Name>{{open_sum, 1, 2}});
  CHECK(make("1Rv2@0") == std::vector<Name>{{gradient_sum, 1, 3}});
  const Instruction sum{.op = Op::reduce, .stage = 1, .micro = 3, .peer = 0, .what = activation};
  CHECK(needs(plan, tied, sum) == std::vector<Name>{{activation, 1, 3}});
  CHECK(makes(plan, sum) == std::vector<Name>{{activation, 1, 3}});
  CHECK(need("1R3") == std::vector<Name>{{open_sum, 1, 2}});
  CHECK(make("1R3") == std::vector<Name>{{gradient_sum, 1, 3}});
  CHECK(need("1Sv2") ==
        std::vector<Name>{{gradient_sum, 1, 3}, {weights, 1, 1}, {Value::norm, 0, 2}});
  CHECK(make("Rnv2@0") == std::vector<Name>{{Value::norm, 0, 2}});
  CHECK(make("1Sv2") == std::vector<Name>{{weights, 1, 2}});
  CHECK(need("1a3>0") == make("1a3<0"));
  CHECK(need("1Da3") == std::vector<Name>{{stash, 1, 3}});
  CHECK(need("1Dpv2") == std::vector<Name>{{gradient_sum, 1, 3}});
}

TEST_CASE("operations: what is freed", "[plan]") {
  using enum Value;
  auto frees = [](const char* word, Value what) {
    return parallel::frees(parse_instruction(word), what);
  };
  CHECK(frees("1F3v1", activation));
  CHECK(frees("1F3v1", turn));
  CHECK_FALSE(frees("1F3v1", weights));
  CHECK(frees("1B3v1", stash));
  CHECK(frees("1W3v1", stash));
  CHECK_FALSE(frees("1I3v1", stash));
  CHECK(frees("1I3v1", activation_gradient));
  CHECK(frees("1Da3", stash));
  CHECK(frees("1Dwv1", weights));
  CHECK_FALSE(frees("1wv1>0", weights));
  CHECK(frees("1a3>0", activation));
  CHECK_FALSE(frees("1Sv2", Value::norm));
}

TEST_CASE("plans: a header has the plan's size, and what differs from the defaults", "[plan]") {
  Plan plan = three_stages();
  plan.clip = false;
  CHECK(print(plan) == "stages 3 per_step 2 steps 3\n-\n-\n");
  plan.clip = true;
  plan.keep = {2, 2, 1};
  plan.groups = {{0, 1}, {1}};
  plan.first = 4;
  CHECK(print(plan) ==
        "stages 3 per_step 2 steps 3 first 4 clip 1 keep 2,2,1 groups 0,1/1\n-\n-\n");
  CHECK(parse(print(plan)) == plan);
  plan.keep = {1, 1};  // one too few, which is for a rule to say
  CHECK(parse(print(plan)) == plan);
  // Defaults may be said.
  CHECK(parse("stages 1 first 0 sharded 0 clip 0 stagger 0 gap 2 keep 1\n-") ==
        parse("stages 1\n-"));
}

}  // namespace plangrad::tests
