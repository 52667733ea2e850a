// Watches a process die.
// Not here: why it should.
#include "tests/cuda/machine.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "autograd/error.h"

namespace plangrad::tests {

namespace {

std::string read_all(int file) {
  std::string result;
  std::array<char, 4096> part;
  for (ssize_t bytes; (bytes = read(file, part.data(), part.size())) > 0;)
    result.append(part.data(), bytes);
  return result;
}

}  // namespace

std::string last_words(const std::function<void()>& body) {
  std::array<int, 2> ends;
  PG_CHECK(pipe(ends.data()) == 0, "no pipe");
  pid_t child = fork();
  PG_CHECK(child >= 0, "no process");
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    for (int fatal : {SIGSEGV, SIGABRT}) std::signal(fatal, SIG_DFL);  // not Catch2's
    cuda::emulator::configure({});                                     // the emulator's own
    body();
    _exit(0);
  }
  close(ends[1]);
  std::string words = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  PG_CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0,
           "expected a death, but it lived and said: ", words);
  return words;
}

}  // namespace plangrad::tests
