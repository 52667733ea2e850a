// What ranks of a session must agree on: the folder, the checkpoint, the weights of replicas; and
// that one run at a time writes to a folder.
#include "parallel/session/agreement.h"

#include "nn/checkpoint/file.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/threads_transport.h"
#include "tests/catch.h"
#include "tests/parallel/support/small_session.h"

using namespace plangrad::tests;

namespace {

namespace fs = std::filesystem;

/// Two replicas train two updates, and all changes of settings by rank are made before.
void train_replicas(const RunFolder& folder,
                    const std::function<void(int rank, SessionSettings&)>& change) {
  run_sessions(small_training(1), folder, 2, change);
}

/// Resumes `folder` with rank 1 reading another one.
void resume_apart(const RunFolder& folder, const RunFolder& other) {
  train_replicas(folder, [&](int rank, SessionSettings& settings) {
    settings.resume_from(rank == 0 ? folder.path : other.path);
    settings.steps = 4;
  });
}

}  // namespace

TEST_CASE("ranks that write to other folders are found at the start", "[session]") {
  const RunFolder folder, other;
  CHECK_THROWS_WITH(train_replicas(folder,
                                   [&](int rank, SessionSettings& settings) {
                                     if (rank == 1) settings.out = other.path;
                                   }),
                    Contains("rank 1 writes to " + (other / "checkpoint").string()) &&
                        Contains("which is not " + (folder / "checkpoint").string()) &&
                        Contains("name a folder that all hosts share with --out"));
  CHECK_FALSE(fs::exists(folder / "metrics.jsonl"));
  CHECK(fs::is_empty(folder / "checkpoint"));
  CHECK_FALSE(fs::exists(folder / "plangrad.lock"));
}

TEST_CASE("every rank finds that one writes to another folder", "[session]") {
  const RunFolder folder, other;
  std::atomic<int> found = 0;
  run_ranks(3, [&](Transport& transport) {
    try {
      claim_folder(transport, transport.rank() == 1 ? other.path : folder.path, 60);
    } catch (const SharedError& error) {
      found += std::string(error.what()).find("rank 1 writes to ") != std::string::npos;
    }
  });
  CHECK(found == 3);
}

TEST_CASE("every rank finds that another run holds the folder", "[session]") {
  const RunFolder folder;
  const FolderLock held(folder.path);
  std::atomic<int> found = 0;
  run_ranks(3, [&](Transport& transport) {
    try {
      claim_folder(transport, folder.path, 60);
    } catch (const SharedError& error) {
      found += std::string(error.what()).starts_with("another run writes to ");
    }
  });
  CHECK(found == 3);
}

TEST_CASE("ranks that resume other checkpoints are found at the start", "[session]") {
  const RunFolder one, two, shorter;
  auto nothing = [](int, SessionSettings&) {};
  train_replicas(one, nothing);
  train_replicas(two, nothing);  // the same weights, but another run
  train_replicas(shorter, [](int, SessionSettings& settings) { settings.steps = 1; });
  for (const RunFolder* other : {&two, &shorter}) {
    CHECK_THROWS_WITH(resume_apart(one, *other),
                      Contains("resumes another checkpoint, that of update"));
    CHECK(Checkpoint(one / "checkpoint").step() == 2);
  }
  resume_apart(one, one);
  CHECK(Checkpoint(one / "checkpoint").step() == 4);
}

TEST_CASE("replicas with other weights are named, with the stage", "[session]") {
  CHECK_NOTHROW(check_replicas({{{0, 1}, {1, 5}}, {{1, 5}, {2, 7}}, {{0, 1}}}, "now"));
  CHECK_THROWS_WITH(
      check_replicas({{{0, 1}, {1, 5}}, {{2, 7}}, {{0, 1}, {1, 6}}}, "after update 3"),
      Contains("ranks 0 and 2 have different weights of stage 1 after update 3"));
}

TEST_CASE("the run's id is the same from its first session to its last", "[session]") {
  const RunFolder folder, other;
  auto nothing = [](int, SessionSettings&) {};
  train_replicas(folder, nothing);
  train_replicas(other, nothing);
  const std::string id = Checkpoint(folder / "checkpoint").run_id();
  CHECK(id.size() == 16);
  CHECK(Checkpoint(other / "checkpoint").run_id() != id);
  resume_apart(folder, folder);
  CHECK(Checkpoint(folder / "checkpoint").run_id() == id);
  CHECK(manifests_of(folder / "checkpoint").size() == 2);
}

TEST_CASE("one run at a time writes to a folder", "[session]") {
  const RunFolder folder;
  {
    FolderLock first(folder.path);
    CHECK_THROWS_WITH(FolderLock(folder.path),
                      Contains("another run writes to " + folder.path + ": process ") &&
                          Contains(" on ") && Contains("choose another folder with --out"));
    fs::remove(folder / "plangrad.lock");
    CHECK_THROWS_WITH(FolderLock(folder.path), Contains("another run writes to " + folder.path));
    CHECK(first.is_here());
    CHECK(fs::exists(folder / "plangrad.lock"));
    CHECK_FALSE(is_abandoned(folder.path));  // its process lives
  }
  CHECK_FALSE(fs::exists(folder / "plangrad.lock"));
  CHECK_FALSE(is_abandoned(folder.path));  // the claim ended in order
  fs::create_symlink("/dev/null", folder / "plangrad.lock");
  CHECK_THROWS_WITH(FolderLock(folder.path), Contains("lock is a link, "));
  CHECK_THROWS_WITH(FolderLock(folder / std::string(300, 'x')), StartsWith("can't write to the "));
  fs::remove(folder / "plangrad.lock");
  std::ofstream(folder / "plangrad.lock") << "process 1 on a host that was killed\n";
  CHECK(is_abandoned(folder.path));
  CHECK_NOTHROW(FolderLock(folder.path));
}

TEST_CASE("a link in the place of a run's files is not followed", "[session]") {
  const RunFolder folder;
  write_file(folder / "precious", "mine");
  auto nothing = [](int, SessionSettings&) {};
  train_replicas(folder, nothing);
  for (const char* name :
       {"metrics.jsonl.plangrad-partial", "metrics.csv.plangrad-partial", "events.plangrad-partial",
        "summary.json.plangrad-partial", "report.html.plangrad-partial"})
    fs::create_symlink(folder / "precious", folder / name);
  train_replicas(folder, nothing);
  CHECK(read_file(folder / "precious") == "mine");
  const RunFolder other;
  fs::create_directories(other.path);
  fs::create_symlink(folder / "checkpoint", other / "checkpoint");
  CHECK_THROWS_WITH(FolderLock(other.path),
                    Contains("checkpoint is a link: another run may save to what it names"));
}
