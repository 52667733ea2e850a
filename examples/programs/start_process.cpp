// The new process tells by a pipe why it could not become the program; the pipe closes if it could.
// Chapter 15.
#include "examples/programs/start_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <cerrno>

#include "examples/programs/program.h"
#include "nn/checkpoint/file.h"

namespace plangrad::examples {

namespace {

/// Becomes another program, in a process after fork(). Only returns if it can't.
void become(const std::vector<char*>& words, pid_t parent) {
  ::setpgid(0, 0);
  ::signal(SIGPIPE, SIG_DFL);
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // so that nothing outlives this program
#endif
  if (::getppid() == parent) ::execvp(words[0], words.data());
}

}  // namespace

pid_t start_process(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int ends[2];
  PG_CHECK(::pipe2(ends, O_CLOEXEC) == 0, "can't make a pipe: ", nn::system_message());
  const pid_t parent = ::getpid(), process = ::fork();
  if (process == 0) {
    become(pointers, parent);
    const int problem = errno;
    [[maybe_unused]] const ssize_t told = ::write(ends[1], &problem, sizeof problem);
    ::_exit(1);
  }
  const nn::Descriptor answer(ends[0]);
  ::close(ends[1]);
  PG_CHECK(process > 0, "can't start a process: ", nn::system_message());
  int problem = 0;
  if (::read(answer.number, &problem, sizeof problem) <= 0) return process;  // it has begun
  ::waitpid(process, nullptr, 0);
  throw UsageError(text("can't start ", words[0], ": ", std::generic_category().message(problem),
                        "; name it with --mpirun"));
}

}  // namespace plangrad::examples
