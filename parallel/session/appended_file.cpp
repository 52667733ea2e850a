// Chapter 03.
#include "parallel/session/appended_file.h"

#include <unistd.h>

#include <cerrno>

namespace plangrad::parallel {

AppendedFile::AppendedFile(const std::filesystem::path& path) : file_(nn::create_file(path)) {}

void AppendedFile::write(std::string_view bytes) {
  waiting_ += bytes;
  problem_.clear();
  std::size_t written = 0;
  while (written < waiting_.size()) {
    const ssize_t count =
        ::write(file_.number, waiting_.data() + written, waiting_.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      problem_ = nn::system_message();
      break;
    }
    written += static_cast<std::size_t>(count);
  }
  waiting_.erase(0, written);
}

}  // namespace plangrad::parallel
