// A file has its name once all of it is on disk, so the thread looks for names.
// Chapter 15.
#include "parallel/session/commit_thread.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "nn/checkpoint/file.h"
#include "parallel/session/disk_wait.h"

namespace plangrad::parallel {

namespace fs = std::filesystem;

CommitThread::CommitThread(fs::path folder, fs::path metrics, nn::SaveMark mark, nlohmann::json run,
                           std::vector<nn::CheckpointFile> files, nn::Kept kept)
    : step_(static_cast<int>(mark.step)) {
  auto work = [=, wait = wait_]() mutable {
    constexpr std::chrono::milliseconds pause(2);
    auto is_here = [&](const nn::CheckpointFile& file) {
      std::error_code ignored;
      return !file.failure.empty() || fs::exists(folder / file.name, ignored);
    };
    auto is_being_written = [&](const nn::CheckpointFile& file) {
      std::error_code ignored;
      return fs::exists(folder / (file.name + ".tmp"), ignored);
    };
    int hurry = 30 * 500;  // pauses: 30 seconds while files are being written, one if none is
    while (!std::ranges::all_of(files, is_here) && *wait != over && hurry > 0) {
      std::this_thread::sleep_for(pause);
      if (*wait == hasty) hurry -= std::ranges::any_of(files, is_being_written) ? 1 : 30;
    }
    try {
      nn::sync_to_disk(metrics);
    } catch (const autograd::Error& error) {  // the save fails, and takes its files away
      files.push_back({.name = "", .failure = error.what()});
    }
    commit_checkpoint(folder, mark, run, files, kept);
  };
  committed_ = std::async(std::launch::async, std::move(work));
}

CommitThread::~CommitThread() { *wait_ = hasty; }  // the future waits for the thread

bool CommitThread::is_done() const {
  return committed_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void CommitThread::finish(const std::string& failure) {
  *wait_ = failure.empty() ? hasty : over;
  try {
    wait_for_disk(committed_);
  } catch (const std::exception& error) {
    throw autograd::Error(failure.empty() ? error.what() : failure);
  }
}

}  // namespace plangrad::parallel
