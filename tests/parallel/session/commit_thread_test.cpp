// A save's end when a file that its writer has described never comes.
// Not here: saves of runs (tests/examples/runs_test.cpp).
#include "parallel/session/commit_thread.h"

#include "nn/checkpoint/file.h"
#include "tests/catch.h"
#include "tests/temporary_folder.h"

using namespace paragrad;

TEST_CASE("a save whose file is gone ends, and says which") {
  const tests::TemporaryFolder folder;
  nn::write_file(folder.path / "metrics.jsonl", "");
  parallel::CommitThread saving(folder.path / "checkpoint", folder.path / "metrics.jsonl", 3,
                                nlohmann::json::object(), {{.name = "model-3.safetensors"}}, {});
  CHECK_FALSE(saving.is_done());
  CHECK_THROWS_WITH(saving.finish(), Contains("lacks model-3.safetensors"));
}
