// Turns exceptions into one line and an exit status.
// Not here: flags (program_flags.cpp). Chapter 02.
#include "examples/programs/program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include "autograd/version.h"
#include "examples/pages/machine_texts.h"
#include "examples/pages/page_text.h"
#include "examples/programs/plan_machine.h"
#include "nn/checkpoint/file.h"
#include "nn/text/vocabulary.h"

namespace plangrad::examples {

int rank_here() try {
  const auto started = parallel::rank_environment();
  return started ? started->rank : 0;
} catch (const autograd::Error&) {
  return 0;
}

namespace {

/// Names of flags, as users type them, and of commands.
std::vector<std::string> known_words(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(each->get_name());
  return names;
}

/// Words of other tools, and ours.
const std::map<std::string, std::string> synonyms{
    {"--lr", "--learning-rate"}, {"--epochs", "--steps"},     {"--bs", "--batch"},
    {"--batch-size", "--batch"}, {"--seq-len", "--context"},  {"--nproc", "--ranks"},
    {"--pp", "--stages"},        {"--dp", "--data-parallel"}, {"--max-iters", "--steps"},
    {"list", "schedules"},       {"help", "--help"}};

/// Describes a word that the program does not know: the command, else the first flag, as later
/// words may be values.
std::string unknown_word(CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  const std::vector<std::string> known = known_words(Flags(app).typed());
  const bool commands = app.get_subcommands().empty() && !known.back().starts_with('-');
  auto found = std::ranges::find_if(words, [](const auto& word) { return word.starts_with('-'); });
  if (commands || found == words.end()) found = words.begin();
  const bool is_flag = found->starts_with('-');
  const std::string word = is_flag ? found->substr(0, found->find('=')) : *found;
  const auto own = synonyms.find(word);
  const bool has_own = own != synonyms.end() && std::ranges::count(known, own->second) > 0;
  return text(is_flag    ? "there is no flag "
              : commands ? "there is no command "
                         : "nothing takes the word ",
              word, autograd::did_you_mean(has_own ? own->second : word, known));
}

/// Prints an error.
///   shared: all ranks find it, and share the terminal. The first one tells and ends, which makes
///   mpirun end the others; only one that still runs two seconds later tells, too
void print_error(const std::string& what, bool shared) {
  const int rank = shared ? rank_here() : 0;
  if (rank > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
  tell_lines(rank > 0 ? autograd::text("error of rank ", rank, ": ") : "error: ", what);
}

/// CLI11's --help with lines that are wrapped, and a flag's default behind what it does.
class Help : public CLI::Formatter {
 public:
  Help() {
    label("OPTIONS", "FLAGS");
    label("SUBCOMMAND", "COMMAND");
    column_width(30);
  }
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string all = CLI::Formatter::make_help(app, std::move(name), mode);
    if (app->get_prefix_command()) all.insert(all.find("[FLAGS]") + 7, " PROGRAM [ITS FLAGS]");
    return CLI::detail::find_and_replace(all, "\n\n\n", "\n\n");
  }
  std::string make_description(const CLI::App* app) const override {
    return in_lines(app->get_description()) + '\n';
  }
  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream out;
    CLI::detail::format_help(out, command->get_name(),
                             in_lines(command->get_description(), column_width_), column_width_);
    return out.str();
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const bool has_value = option->nonpositional() && option->get_expected_max() > 0;
    return has_value ? ' ' + option->get_type_name() : "";
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    std::string what = option->get_description();
    const std::string usual = option->get_default_str();
    if (option->get_required())
      what += " (required)";
    else if (!usual.empty() && option->get_expected_max() > 0 &&
             what.find("(default: ") == what.npos)
      what += " (default: " + usual + ")";
    return in_lines(what, column_width_);
  }
};

/// The flags that -h shows of a command with more than `few` flags, in about a line each.
constexpr std::size_t few = 16;
const std::set<std::string> first_flags{
    "--data",          "--layers",       "--width",   "--steps",    "--batch",
    "--learning-rate", "--out",          "--resume",  "--schedule", "--stages",
    "--data-parallel", "--microbatches", "--table",   "--json",     "--model",
    "--forward",       "--backward",     "--machine", "--device",   "--priorities",
    "--place",         "--most",         "--help",    "--endless",  "--plan"};

/// Leaves the first flags of a command with many in its help.
void keep_first_flags(CLI::App& command) {
  auto is_flag = [](const CLI::Option* each) { return each->nonpositional(); };
  const std::vector<CLI::Option*> flags = command.get_options(is_flag);
  if (flags.size() <= few) return;
  for (CLI::Option* flag : flags) {
    const bool is_first = first_flags.contains(flag->get_name());
    const std::string what = flag->get_description();
    flag->description(what.substr(0, what.find(';')));
    flag->group(is_first ? "First flags; --help has all" : "");  // without a group: left out
  }
}

/// A line for each command of a program, and where to go on.
std::string list_of_commands(const CLI::App& app) {
  std::string lines = text("Usage: ", app.get_name(), " COMMAND [FLAGS]\n\n");
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string what = each->get_description();
    lines +=
        fmt::format("  {:<11}{}\n", each->get_name(), what.substr(0, what.find_first_of(",.")));
  }
  return lines + text("\nGo on with ", app.get_name(), " COMMAND -h; --help has examples.\n");
}

/// Opens /dev/null for each of standard input, output and error that the caller has closed: else
/// the program prints to the next file that is opened.
void open_standard_streams() {
  int last = 0;
  do last = ::open("/dev/null", O_RDWR);
  while (last >= 0 && last <= STDERR_FILENO);
  ::close(last);
}

/// Whether standard output is a pipe that nobody reads, as after `| head`.
bool reader_is_gone() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

/// Runs the body, and returns its status, or 0 after -h, --help and --version.
int run_or_help(CLI::App& app, const std::function<int()>& body) {
  int status = 0;
  try {
    status = body();
  } catch (const CLI::CallForAllHelp&) {
    std::cout << app.help();
  } catch (const CLI::CallForHelp&) {
    keep_first_flags(Flags(app).typed());
    const bool chooses = app.get_subcommands().empty() && !app.get_subcommands({}).empty();
    std::cout << (chooses ? list_of_commands(app) : app.help());
  } catch (const CLI::CallForVersion&) {
    std::cout << app.get_name() << " of plangrad " << autograd::version() << '\n';
  }
  if (!std::cout.flush() && !reader_is_gone())
    throw autograd::Error("can't write to standard output; is the disk full?");
  return status;
}

}  // namespace

void ProgressLine::show(const std::string& line) {
  static const bool is_terminal = ::isatty(STDERR_FILENO) == 1;
  if (is_terminal && shown_++ % 8 == 0) std::cerr << "\r\33[K" << line << std::flush;
}

ProgressLine::~ProgressLine() {
  if (shown_ > 0) std::cerr << "\r\33[K";
}

int status_of(const std::exception& error) {
  if (dynamic_cast<const Diverged*>(&error)) return diverged;
  const bool is_shared = dynamic_cast<const parallel::SharedError*>(&error) != nullptr;
  return is_shared || dynamic_cast<const UsageError*>(&error) ? misused : failed;
}

int run_program(CLI::App& app, const std::function<int()>& body, bool has_ranks) {
  open_standard_streams();
  std::vector<CLI::App*> all = app.get_subcommands({});
  all.push_back(&app);
  for (CLI::App* each : all) {
    each->set_help_flag("-h", "print the flags that one needs first")->group("Options");
    each->set_help_all_flag("--help", "print this help: all flags")->group("Options");
    each->formatter(std::make_shared<Help>());
    each->set_version_flag("--version", autograd::version(), "print the version")->group("Options");
  }
  try {
    return run_or_help(app, body);
  } catch (const CLI::ParseError& error) {
    const bool lacks = dynamic_cast<const CLI::RequiredError*>(&error) && app.remaining_size(true);
    const bool unknown = lacks || dynamic_cast<const CLI::ExtrasError*>(&error);
    print_error((unknown ? unknown_word(app) : error.what()) + " (--help lists the flags)",
                has_ranks);
    return misused;
  } catch (const UsageError& error) {
    print_error(error.what(),
                has_ranks && dynamic_cast<const SharedUsageError*>(&error) != nullptr);
    return misused;
  } catch (const std::bad_alloc&) {
    print_error("out of memory; use a smaller model, batch or file", false);
  } catch (const std::exception& error) {
    print_error(error.what(), false);
    return status_of(error);
  }
  return failed;
}

namespace {

bool is_control(char32_t c) { return (c < 32 && c != '\n' && c != '\t') || (c >= 127 && c < 160); }

/// Whether the character breaks a line as \n does, changes the direction of what follows, or is
/// not seen: names that differ would look the same. Letters may need U+200C and U+200D.
bool turns_text(char32_t c) {
  return c == 0x061C || c == 0x200B || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x2069) || c == 0xFEFF || (c >= 0xE0000 && c <= 0xE007F);
}

/// The bytes at the end that may be the beginning of a character of up to four.
std::size_t unfinished(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) return 0;
    if (byte >= 0xC0) return byte >= 0xF0 || back < (byte >= 0xE0 ? 3u : 2u) ? back : 0;
  }
  return 0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto [point, length] = nn::first_code_point(text.substr(at));
    if (length == 0)
      out += "\uFFFD";
    else if (is_control(point))
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(point));
    else if (turns_text(point))
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(point));
    else
      out += text.substr(at, static_cast<std::size_t>(length));
    at += static_cast<std::size_t>(std::max(length, 1));
  }
  return out;
}

std::string printable_line(std::string_view text) {
  constexpr std::size_t longest = 4000, part = longest / 2;
  const bool is_long = text.size() > longest;
  const std::string line =
      is_long ? autograd::text(text.substr(0, part), " ... ", text.substr(text.size() - part))
              : std::string(text);
  return CLI::detail::find_and_replace(printable(line), "\n", "\\x0a");
}

void tell(std::string_view line, std::ostream& out) { out << printable_line(line) + '\n'; }

void tell_lines(const std::string& begin, const std::string& what) {
  std::istringstream lines(what);
  std::string all;
  for (std::string line; std::getline(lines, line);)
    all += (all.empty() ? begin : line.starts_with("  ") ? "\n" : "\n  ") + printable_line(line);
  std::cerr << all + '\n';
}

std::string PrintablePieces::take(std::string_view piece) {
  held_ += piece;
  const std::size_t kept = unfinished(held_);
  const std::string out = printable(std::string_view(held_).substr(0, held_.size() - kept));
  held_.erase(0, held_.size() - kept);
  return out;
}

/// Whether bytes are a page, figure, trace or text that the programs write.
static bool is_result(std::string_view bytes) {
  if (bytes.starts_with("<svg ")) return bytes.find(parallel::idle_pattern()) != bytes.npos;
  static constexpr std::string_view starts[] = {
      page_start, measured_start, "rank 0  ", "rank 0 |",
      R"({"displayTimeUnit":"ms","traceEvents":[{"args":{"name":"rank 0)"};
  const auto begins = [&](auto start) { return bytes.starts_with(start); };
  const auto is_whole = [&](const auto& machine) { return bytes == machine.second; };
  return std::ranges::any_of(starts, begins) || std::ranges::any_of(known_machines(), is_whole);
}

void check_parent(const std::filesystem::path& made) {
  std::error_code none;
  const auto parent = (std::filesystem::absolute(made) / "").parent_path().parent_path();
  const auto runs = std::filesystem::weakly_canonical(std::filesystem::absolute("runs"), none);
  if (std::filesystem::weakly_canonical(parent, none) != runs &&
      !std::filesystem::exists(parent, none))
    throw UsageError(text("the folder ", parent.string(), " does not exist: make it, or name a ",
                          "result in another one"));
}

/// Whether a file is standard output, which has many names, and may be a pipe or any file.
static bool is_output(const std::filesystem::path& file) {
  struct stat named = {}, output = {};
  return ::stat(file.c_str(), &named) == 0 && ::fstat(STDOUT_FILENO, &output) == 0 &&
         named.st_dev == output.st_dev && named.st_ino == output.st_ino;
}

void write_result(const std::filesystem::path& file, const std::string& bytes,
                  const std::string& line) {
  check_parent(file);
  if (is_output(file)) return static_cast<void>(std::cout << bytes);
  std::error_code none;
  if (!std::filesystem::exists(file, none)) {
    nn::write_file(file, bytes);
  } else if (!std::filesystem::is_regular_file(file, none)) {
    if (!(std::ofstream(file) << bytes << std::flush))
      throw nn::Unwritable(file.string() + ": can't be written: name another file with --out");
  } else {
    const nn::OpenFile there(file);
    std::string old(std::min<std::uint64_t>(there.size(), 1 << 20), '\0');
    there.read(0, std::as_writable_bytes(std::span(old)));
    if (!old.empty() && old != bytes && !is_result(old))
      throw UsageError(text(file.string(), " is there, and no program of plangrad wrote it: name ",
                            "another file with --out, or move it away"));
    nn::write_file(std::filesystem::canonical(file), bytes);  // a link to it stays
  }
  if (!line.empty()) tell(line, std::cout);
}

}  // namespace plangrad::examples
