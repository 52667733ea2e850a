// A save's end when a file that its writer has described never comes.
// Not here: saves of runs (tests/examples/runs_test.cpp).
#include "parallel/session/saving.h"

#include "nn/checkpoint/file.h"
#include "tests/catch.h"
#include "tests/temporary_folder.h"

using namespace plangrad;

TEST_CASE("a save whose file is gone ends, and says which") {
  const tests::TemporaryFolder folder;
  nn::write_file(folder.path / "metrics.jsonl", "");
  parallel::CommitThread saving(folder.path / "checkpoint", folder.path / "metrics.jsonl", 3,
                                nlohmann::json::object(), {{.name = "model-3.safetensors"}}, {});
  CHECK_FALSE(saving.is_done());
  CHECK_THROWS_WITH(saving.finish(), Contains("lacks model-3.safetensors"));
}

TEST_CASE("a save waits for no metrics that others have moved away") {
  const tests::TemporaryFolder folder;
  nn::make_folder(folder.path / "checkpoint");
  parallel::CommitThread saving(
      folder.path / "checkpoint", folder.path / "metrics.jsonl", 3, nlohmann::json::object(),
      {nn::write_checkpoint_file(folder.path / "checkpoint", "model", 3, {}, {})}, {});
  CHECK_NOTHROW(saving.finish());
}

TEST_CASE("a save leaves a folder alone that has got another's name meanwhile") {
  const tests::TemporaryFolder folder;
  const auto out = folder.path / "run", checkpoint = out / "checkpoint";
  const auto claim = std::make_shared<parallel::FolderLock>(out);
  std::vector files{nn::write_checkpoint_file(checkpoint, "model", {4, "own"}, {}, {})};
  std::filesystem::rename(out, folder.path / "moved");
  nn::make_folder(checkpoint);
  nn::commit_checkpoint(checkpoint, {9, "another"}, nlohmann::json::object(),
                        {nn::write_checkpoint_file(checkpoint, "model", {9, "another"}, {}, {})});
  std::filesystem::copy(folder.path / "moved/checkpoint" / files[0].name, checkpoint);
  parallel::CommitThread saving(checkpoint, "", {4, "own"}, nlohmann::json::object(), files, {},
                                claim);
  CHECK_THROWS_WITH(saving.finish(), Contains("or its folder was removed or renamed"));
  CHECK(nn::find_intact(checkpoint).checkpoint->manifest().step == 9);
}

namespace {

/// A stream for messages. The first one ends the disk's work, so that the wait has one message.
struct Disk : std::stringbuf {
  std::promise<int> work;
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    if (str().empty()) work.set_value(7);
    return std::stringbuf::xsputn(text, count);
  }
};

}  // namespace

TEST_CASE("a save that waits long for its disk says so", "[session]") {
  Disk disk;
  std::ostream out(&disk);
  std::future<int> work = disk.work.get_future();
  CHECK(parallel::wait_for_disk(work, std::chrono::milliseconds(10), out) == 7);
  CHECK_THAT(disk.str(), StartsWith("a save has waited for its disk for 0.01 s"));
}
