// What all drawings share: instructions in words, numbers, units and ticks.
#include "parallel/drawing/figure.h"
#include "tests/parallel/support/drawing.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;

TEST_CASE("figure: instructions in words", "[draw]") {
  auto words = [](const char* text) { return describe(parse_instruction(text)); };
  CHECK(words("2F5v1") == "forward of microbatch 5 on stage 2, with weights of version 1");
  CHECK(words("2W5v1") ==
        "backward, gradient of the weights, of microbatch 5 on stage 2, with weights of version 1");
  CHECK(words("2Sv2") == "update of stage 2: makes version 2");
  CHECK(words("2Da5") == "drops the activations of stage 2 for microbatch 5");
  CHECK(words("2Dpv1") == "drops the gradient sum of stage 2 for version 1");
  CHECK(words("2g5<1") == "receives the gradient of stage 2's output for microbatch 5 from rank 1");
  CHECK(words("2Rv1@0") == "adds the gradient sum of stage 2 for version 1 over group 0");
  CHECK(words("2R5") == "adds its own to the gradient sum of stage 2 up to microbatch 5");
  CHECK(words("Rnv1@0") == "adds the norm of update 1 over group 0");
  CHECK(words("2Gwv1@0") == "gathers version 1 of stage 2 in group 0");
}

TEST_CASE("figure: numbers, units and ticks", "[draw]") {
  CHECK(seconds_text(0.00125) == "1.25 ms");
  CHECK(seconds_text(2e-7) == "0.2 µs");
  CHECK(seconds_text(0) == "0 µs");
  CHECK(seconds_text(999.6) == "1000 s");
  CHECK(seconds_text(8320) == "8320 s");
  CHECK(seconds_text(9999.4) == "9999 s");
  CHECK(seconds_text(9999.6) == "2 h 47 min");
  CHECK(seconds_text(36000 - 1) == "10 h 0 min");
  CHECK(bytes_text(2e12) == "2000 GB");
  CHECK(bytes_text(12.5e6) == "12.5 MB");
  CHECK(bytes_text(999) == "999 B");
  CHECK(bytes_text(999700) == "1 MB");
  CHECK(ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(ticks(3, 3, 5) == std::vector<double>{3});
  CHECK(ticks(-1, 1, 4) == std::vector<double>{-1, -0.5, 0, 0.5, 1});
  CHECK(number(-0.0001) == "0");
  CHECK(number(1200) == "1200");
  CHECK(escape("<a href='x'>&\"") == "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
}
