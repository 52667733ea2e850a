// A program is forked with its output in temporary files or on a pseudo-terminal, and killed when
// its object goes. Not here: what to expect of it.
#include "tests/examples/programs.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <iterator>
#include <thread>

#include "autograd/error.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"

namespace plangrad::tests {

namespace fs = std::filesystem;

Words operator+(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::string repeat(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string Folder::write(const std::string& name, const std::string& bytes) const {
  const fs::path path = folder_.path / name;
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
  return path.string();
}

namespace {

/// A pair of ends: what is written into the second can be read from the first.
std::pair<int, int> open_terminal() {
  int ours = ::posix_openpt(O_RDWR | O_NOCTTY);
  PG_CHECK(ours >= 0 && ::grantpt(ours) == 0 && ::unlockpt(ours) == 0, "no terminal to be had");
  return {ours, ::open(::ptsname(ours), O_RDWR | O_NOCTTY)};
}

/// What a started program finds in its environment, beside what is there already.
void set_environment() {
  ::unsetenv("COLUMNS");
  // As quick on a large machine as on a small one, and beside other tests as alone.
  ::setenv("OMP_NUM_THREADS", "2", 1);
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  // A sanitizer leaves it to the program to say that memory is out.
  for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS"}) {
    const char* before = std::getenv(name);
    std::string options = std::string(before ? before : "") + ":allocator_may_return_null=1";
    ::setenv(name, options.c_str(), 1);
  }
}

std::string read_all(int file) {
  std::string bytes(4096, '\0'), all;
  for (ssize_t n; (n = ::read(file, bytes.data(), bytes.size())) > 0;)
    all.append(bytes, 0, static_cast<std::size_t>(n));
  return all;  // a terminal whose other end is closed gives an error, which ends the loop, too
}

}  // namespace

std::string program(const std::string& name) {
  return (fs::read_symlink("/proc/self/exe").parent_path() / name).string();
}

Running::Running(const Words& arguments, bool on_terminal)
    : output_(std::tmpfile()), errors_(std::tmpfile()) {
  PG_CHECK(output_ && errors_, "can't make a temporary file");
  Words words = arguments;
  words[0] = program(words[0]);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int out = ::fileno(output_), err = ::fileno(errors_);
  if (on_terminal) {
    std::tie(terminal_, out) = open_terminal();
    err = out;
  }
  process_ = ::fork();
  if (process_ == 0) {
    set_environment();
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  if (on_terminal) ::close(out);
  PG_CHECK(process_ > 0, "can't start ", words[0]);
}

Running::~Running() {
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  if (terminal_ >= 0) ::close(terminal_);
  std::fclose(output_);
  std::fclose(errors_);
}

void Running::signal(int number) const { ::kill(process_, number); }

Finished Running::finish() {
  Finished result{0, terminal_ >= 0 ? read_all(terminal_) : "", ""};
  int status = 0;
  ::waitpid(process_, &status, 0);
  process_ = -1;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (terminal_ >= 0) return result;
  for (auto [file, text] :
       {std::pair(output_, &result.output), std::pair(errors_, &result.errors)}) {
    ::lseek(::fileno(file), 0, SEEK_SET);
    *text = read_all(::fileno(file));
  }
  return result;
}

Finished succeeded(const Finished& ended) {
  INFO(ended.output << ended.errors);
  REQUIRE(ended.status == 0);
  return ended;
}

void check_ended(const Finished& ended, int status, const std::string& part) {
  INFO(ended.errors);
  CHECK(ended.status == status);
  CHECK_THAT(ended.errors, Contains(part));
}

void check_failed(const Finished& failed, const std::string& part, long lines, int status) {
  check_ended(failed, status, part);
  CHECK(failed.output.empty());
  CHECK(failed.errors.starts_with("error: "));
  CHECK(failed.errors.ends_with('\n'));
  CHECK(std::count(failed.errors.begin(), failed.errors.end(), '\n') == lines);
}

Words tiny_run(const std::string& data, const std::string& out, const Words& more) {
  return Words{"train_gpt", "--data",  data,      "--out",    out,         "--layers", "1",
               "--heads",   "2",       "--width", "16",       "--context", "8",        "--batch",
               "4",         "--steps", "6",       "--warmup", "2"} +
         more;
}

std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  if (!fs::exists(folder)) return files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[fs::relative(entry.path(), folder).string()] = nn::read_file(entry.path());
  return files;
}

std::vector<nlohmann::json> metrics_of(const std::string& folder) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(folder + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

void wait_for_steps(const std::string& folder, std::ptrdiff_t lines) {
  for (int i = 0; i < 60000; ++i) {
    std::ifstream file(folder + "/metrics.jsonl");
    if (std::count(std::istreambuf_iterator<char>(file), {}, '\n') >= lines) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  throw autograd::Error("no steps are written to " + folder);
}

std::vector<nlohmann::json> losses_of(const std::string& folder) {
  std::vector<nlohmann::json> lines = metrics_of(folder);
  for (nlohmann::json& line : lines)
    // Bytes are those of a plan, evenly divided among its updates, and stops change plans. An
    // endless run shares out the bytes that it has heard of, which depends on when it hears.
    for (const char* timed : {"seconds", "tokens_per_second", "images_per_second", "bytes_sent"})
      line.erase(timed);
  return lines;
}

nlohmann::json summary_of(const std::string& folder) {
  return nlohmann::json::parse(nn::read_file(folder + "/summary.json"));
}

nlohmann::json report_of(const std::string& folder) {
  const std::string page = nn::read_file(folder + "/report.html"), begin = "id=\"data\">";
  const std::size_t at = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
}

std::int64_t step_of(const std::string& folder) {
  return nn::Checkpoint(folder + "/checkpoint").step();
}

std::vector<std::string> weights_of(const std::string& folder) {
  std::vector<std::string> weights;
  const nn::Checkpoint checkpoint(folder + "/checkpoint");
  for (const nn::SafetensorsFile& file : checkpoint.files()) {
    std::string& all = weights.emplace_back();
    for (const nn::SafetensorsEntry& entry : file.entries()) {
      all.append(entry.name);
      entry.read_parts([&](nn::format::Bytes part) {
        all.append(reinterpret_cast<const char*>(part.data()), part.size());
      });
    }
  }
  return weights;
}

}  // namespace plangrad::tests
