// Endless plans: their text, their parts, the plan of any length, and when versions die at bars.
// Not here: which bars are right (repeat_test), and who writes them (endless_test of schedules/).
#include "parallel/plan/plan.h"

#include "parallel/plan/lifetimes.h"
#include "parallel/verifier/verify.h"
#include "tests/catch.h"
#include "tests/parallel/support/plan_cases.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;

namespace {

using Pairs = std::vector<std::pair<int, int>>;

/// One rank and one stage; microbatches read the version before the newest.
const std::string delayed =
    "stages 1 per_step 1 steps 3 keep 2 period 1\n"
    "0F0v0 0B0v0 0Sv1 | 0F1v0 0B1v0 0Sv2 | 0F2v1 0B2v1 0Sv3\n";

/// The body reads the version before the newest, head and tail the newest.
const std::string body_reads_old =
    "stages 1 per_step 1 steps 3 period 1\n"
    "0F0v0 0B0v0 0Sv1 | 0F1v0 0B1v0 0Sv2 | 0F2v2 0B2v2 0Sv3\n";

/// The tail reads the version before the newest, head and body the newest.
const std::string tail_reads_old =
    "stages 1 per_step 1 steps 3 period 1\n"
    "0F0v0 0B0v0 0Sv1 | 0F1v1 0B1v1 0Sv2 | 0F2v1 0B2v1 0Sv3\n";

struct Row0 {
  explicit Row0(const std::string& text)
      : plan(parse(text)), tied(tied_versions(plan)), lifetimes(plan, 0, tied) {}
  Plan plan;
  std::vector<int> tied;
  Lifetimes lifetimes;
};

}  // namespace

TEST_CASE("endless: bars in the text come back", "[plan]") {
  const Plan plan = parse(plan_text("2bw_endless"));
  CHECK(plan.period == 1);
  CHECK(plan.bars == std::vector<Bars>{{16, 29}, {22, 41}, {13, 26}});
  CHECK(print(plan) == golden("2bw_endless"));

  const Plan idle = parse("stages 1 per_step 1 steps 1 period 1\n| 0F0v0 0B0v0 0Sv1 |\n| - |\n");
  CHECK(idle.bars == std::vector<Bars>{{0, 3}, {0, 0}});
  CHECK(parse(print(idle)) == idle);
  CHECK(print(idle).ends_with("\n| 0F0v0 0B0v0 0Sv1 |\n| | -\n"));
}

TEST_CASE("endless: text with wrong bars says what is wrong, and in which line", "[plan]") {
  auto check = [](const std::string& text, const std::string& words) {
    CHECK_THROWS_WITH(parse(text), Contains(words));
  };
  check(replaced(delayed, " | 0F2v1", " 0F2v1"),
        "plan, line 2: this row has 1 bar; each row of a plan with a period has two");
  check(replaced(delayed, "0B2v1", "| 0B2v1"), "plan, line 2: this row has 3 bars");
  check(replaced(delayed, " period 1", ""),
        "plan, line 2: this row has 2 bars; only a plan with a period has bars");
  check(replaced(plan_text("2bw_endless"), "1B2v0 0g2>0 | ", "1B2v0 0g2>0 "),
        "plan, line 4: this row has 1 bar");
  check(golden("2bw").replace(0, 6, "period 1 stages"), "plan, line 2: this row has 0 bars");
  check("stages 1 per_step 1 steps 1\n0F0v0 - 0B0v0 0Sv1\n",
        "plan, line 2: \"-\" is the whole row of a rank without work; a row has no pauses");
  check(replaced(delayed, "period 1", "period"), "plan, line 1: the header ends after \"period\"");
  check(replaced(delayed, "0F1v0 ", "|0F1v0 "), "plan, line 2: \"|0F1v0\" is not an instruction");
}

TEST_CASE("endless: parts, and names counted on", "[plan]") {
  const Plan plan = parse(delayed);
  CHECK(part_of(plan, 0, 2) == Part::head);
  CHECK(part_of(plan, 0, 3) == Part::body);
  CHECK(part_of(plan, 0, 6) == Part::tail);
  CHECK(cells_of(plan, 0, Part::head) == std::pair{0, 3});
  CHECK(cells_of(plan, 0, Part::body) == std::pair{3, 6});
  CHECK(cells_of(plan, 0, Part::tail) == std::pair{6, 9});
  const Plan once = parse(golden("2bw"));
  CHECK(part_of(once, 1, 0) == Part::tail);
  CHECK(cells_of(once, 1, Part::tail) == std::pair{0, static_cast<int>(once.rows[1].size())});
  CHECK(cells_of(once, 1, Part::body).first == cells_of(once, 1, Part::body).second);

  Plan by_two;
  by_two.per_step = 3;
  by_two.period = 2;
  auto later = [&](const char* word) { return print(shifted(by_two, parse_instruction(word), 5)); };
  CHECK(later("2B7v1") == "2B37v11");
  CHECK(later("0a7>1") == "0a37>1");
  CHECK(later("0Rv1@0") == "0Rv11@0");
  CHECK(later("1Da4") == "1Da34");
  CHECK(print(shifted(by_two, parse_instruction("2B37v11"), -5)) == "2B7v1");
  for (Value by_version : {Value::weights, Value::open_sum, Value::norm})
    CHECK(shifted(by_two, Name{by_version, 1, 4}, 2) == Name{by_version, 1, 8});
  for (Value by_micro : {Value::activation, Value::gradient_sum, Value::turn, Value::stash})
    CHECK(shifted(by_two, Name{by_micro, 1, 4}, 2) == Name{by_micro, 1, 16});
}

TEST_CASE("endless: the plan of any length", "[plan]") {
  const Plan plan = parse(delayed);
  CHECK(print(unrolled(plan, 0)) ==
        "stages 1 per_step 1 steps 2 keep 2\n"
        "0F0v0 0B0v0 0Sv1 0F1v0 0B1v0 0Sv2\n");
  CHECK(print(unrolled(plan, 1)) ==
        "stages 1 per_step 1 steps 3 keep 2\n"
        "0F0v0 0B0v0 0Sv1 0F1v0 0B1v0 0Sv2 0F2v1 0B2v1 0Sv3\n");
  CHECK(print(unrolled(plan, 3)) ==
        "stages 1 per_step 1 steps 5 keep 2\n"
        "0F0v0 0B0v0 0Sv1 0F1v0 0B1v0 0Sv2 0F2v1 0B2v1 0Sv3 0F3v2 0B3v2 0Sv4 0F4v3 0B4v3 0Sv5\n");
  CHECK_THROWS_WITH(unrolled(plan, -1), Contains("has no length of -1 bodies"));
  const Plan body_only = parse("stages 1 per_step 1 steps 1 period 1\n| 0F0v0 0B0v0 0Sv1 |\n");
  CHECK(unrolled(body_only, 2).steps == 2);
  CHECK_THROWS_WITH(unrolled(body_only, 0), Contains("1 step and period 1 has no length of 0"));
  CHECK_THROWS_WITH(unrolled(parse(golden("2bw")), 2), Contains("without a period"));
}

TEST_CASE("endless: a version that another body would read lives to the second bar", "[plan]") {
  const Row0 row(body_reads_old);
  verify(row.plan);
  // At the first bar version 0 is read next. At the second one version 1 would be, a body later.
  CHECK(row.lifetimes.needed_after(0, 0, 2));
  CHECK(row.lifetimes.needed_after(0, 1, 5));
  CHECK_FALSE(row.lifetimes.needed_after(0, 0, 5));
  CHECK(row.lifetimes.ending_at(5).empty());
  CHECK(row.lifetimes.ending_at(6) == Pairs{{0, 1}});  // the tail does without
  CHECK_FALSE(row.lifetimes.needed_after(0, 1, 6));
}

TEST_CASE("endless: a version that the tail would read lives to the first bar", "[plan]") {
  const Row0 row(tail_reads_old);
  verify(row.plan);
  CHECK(row.lifetimes.needed_after(0, 0, 2));
  CHECK(row.lifetimes.ending_at(2).empty());
  CHECK(row.lifetimes.ending_at(3) == Pairs{{0, 0}});  // the body does without
  CHECK_FALSE(row.lifetimes.needed_after(0, 0, 3));
  CHECK(row.lifetimes.needed_after(0, 1, 5));
  CHECK(row.lifetimes.last_reader(0, 1) == 7);
}

TEST_CASE("endless: lifetimes inside a body are those of the unrolled plan", "[plan]") {
  const Plan plan = parse(golden("2bw_endless")), longer = unrolled(plan, 3);
  const std::vector<int> tied = tied_versions(plan), tied_longer = tied_versions(longer);
  int ends = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const Lifetimes endless(plan, rank, tied), whole(longer, rank, tied_longer);
    const auto [first, second] = plan.bars[rank];
    for (int cell = first; cell < second; ++cell) {
      INFO("rank " << rank << ", cell " << cell);
      Pairs expected = endless.ending_at(cell);
      for (auto& [stage, version] : expected) ++version;
      CHECK(whole.ending_at(cell + second - first) == expected);  // in the second of three bodies
      ends += static_cast<int>(expected.size());
    }
  }
  CHECK(ends == plan.ranks());  // of one version each
}
