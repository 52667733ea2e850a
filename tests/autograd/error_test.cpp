// What a mistyped name may have meant.
#include "autograd/error.h"

#include "tests/catch.h"

using plangrad::autograd::did_you_mean;

TEST_CASE("a name at most two letters away is suggested, and all that are as near") {
  const std::vector<std::string> names{"1f1b", "cyclic-v1", "cyclic-v2",
                                       "data", "f32",       "--schedule"};
  CHECK(did_you_mean("cyclic-v3", names) == "; did you mean cyclic-v1 or cyclic-v2?");
  CHECK(did_you_mean("cyclic-v1", names) == "; did you mean cyclic-v1?");
  CHECK(did_you_mean("--schedual", names) == "; did you mean --schedule?");
  CHECK(did_you_mean("1F1B", names) == "; did you mean 1f1b?");
  CHECK(did_you_mean("f11b", names) == "; did you mean 1f1b?");  // two letters swapped
  CHECK(did_you_mean("daata", names) == "; did you mean data?");
  CHECK(did_you_mean("dat", names) == "; did you mean data?");
}

TEST_CASE("a name that is far away, or mostly wrong, is not suggested") {
  const std::vector<std::string> names{"1f1b", "cyclic-v1", "data", "f32"};
  for (const char* word : {"", "x", "zigzag", "f16", "cyclic", "dada2", "b1f1b1"})
    CHECK(did_you_mean(word, names) == "");
  CHECK(did_you_mean("data", {}) == "");
}
