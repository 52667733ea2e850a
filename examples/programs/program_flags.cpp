// Hands flags to CLI11, which reads command lines. Not here: --help (program.cpp). Chapter 02.
#include "examples/programs/program.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include "autograd/version.h"
#include "parallel/plan/fields.h"

namespace plangrad::examples {

/// Checks a value by a function that throws an Error if the value is none.
static CLI::Validator checked_by(const std::function<void(std::string&)>& read) {
  return {[read](std::string& value) {
            try {
              return read(value), std::string();
            } catch (const autograd::Error& error) {
              return std::string(error.what());
            }
          },
          ""};
}

Flag Flag::required() const { return {option->required()}; }
Flag Flag::show_default() const { return {option->capture_default_str()}; }
Flag Flag::show_default(const std::string& text) const { return {option->default_str(text)}; }

Flag Flag::check(const std::function<void(const std::string&)>& read) const {
  return {option->check(checked_by(read))};
}

Flag Flag::ends_in(const std::vector<std::string>& endings) const {
  return check([=](const std::string& file) {
    const std::string ending = std::filesystem::path(file).extension();
    PG_CHECK(std::ranges::count(endings, ending) > 0, "expected a file that ends in ",
             CLI::detail::join(endings, " or "), ", got ", file);
  });
}

Flags::Flags(std::shared_ptr<CLI::App> app) : app_(std::move(app)) {
  app_->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

Flags::Flags(const std::string& what, const std::string& program)
    : Flags(std::make_shared<CLI::App>(what, program)) {
  app_->set_version_flag("--version", autograd::version());  // a checkpoint has all flags
}

Flags Flags::command(const char* name, const char* what, const std::vector<Example>& examples) {
  Flags added(*app_->require_subcommand(0, 1)->add_subcommand(name, what));
  add_examples(added, examples);
  return added;
}

/// Writes a whole number anew, without zeros in front, which CLI11, which reads it again, would
/// take for octal.
template <class T>
Flag Flags::number(const char* name, T& value, std::type_identity_t<T> lowest,
                   std::type_identity_t<T> highest, const char* what, const char* kind) {
  const Flag flag = words(name, value, kind, what);
  flag.option->transform(checked_by([=](std::string& text) {
    const T number = parallel::read_number<T>(text, lowest, highest);
    if constexpr (std::is_integral_v<T>) text = std::to_string(number);
  }));
  return std::string(what).find("(default: ") == std::string::npos ? flag.show_default() : flag;
}
template Flag Flags::number(const char*, int&, int, int, const char*, const char*);
template Flag Flags::number(const char*, std::int64_t&, std::int64_t, std::int64_t, const char*,
                            const char*);
template Flag Flags::number(const char*, double&, double, double, const char*, const char*);

template <class T>
Flag Flags::words(const char* name, T& value, const char* kind, const std::string& what) {
  return {app_->add_option(name, value, what)->type_name(kind)};
}
template Flag Flags::words(const char*, std::string&, const char*, const std::string&);
template Flag Flags::words(const char*, std::optional<std::string>&, const char*,
                           const std::string&);
template Flag Flags::words(const char*, std::filesystem::path&, const char*, const std::string&);
template Flag Flags::words(const char*, std::vector<std::filesystem::path>&, const char*,
                           const std::string&);

void Flags::choice(const char* name, std::string& value, const std::vector<std::string>& names,
                   const char* what) {
  words(name, value, "NAME", fmt::format("{}; one of {}", what, fmt::join(names, ", ")))
      .check([names](const auto& got) { parallel::check_choice(got, names); })
      .show_default();
}

void Flags::yes(const char* name, bool& value, const std::string& what) {
  app_->add_flag(name, value, what)->check(checked_by([](const std::string& got) {
    bool read = false;
    PG_CHECK(CLI::detail::lexical_cast(got, read), "expected no value, true or false; got ", got);
  }));
}

Flag Flags::taken(const std::string& name, const char* kind, const std::string& what,
                  const std::function<void(const std::string&)>& take) {
  return {app_->add_option_function(name, take, what)->type_name(kind)};
}

void Flags::group(const std::string& name) { app_->option_defaults()->group(name); }
void Flags::needs(const char* a, const char* b) { app_->get_option(a)->needs(std::string(b)); }
void Flags::excludes(const char* a, const char* b) {
  app_->get_option(a)->excludes(std::string(b));
}
void Flags::remove(const char* name) { app_->remove_option(app_->get_option(name)); }
bool Flags::given(const char* name) const { return app_->count(name) > 0; }
std::string Flags::name() const { return app_->get_name(); }

std::vector<std::string> Flags::parse(int argc, char** argv, bool front) const {
  app_->prefix_command(front);
  app_->parse(argc, argv);
  const std::vector<std::string> words = app_->remaining();
  if (front && !words.empty() && words[0].starts_with('-')) throw CLI::ExtrasError(name(), words);
  return words;
}

Flags Flags::typed() const {
  return app_->get_subcommands().empty() ? *this : Flags(*app_->get_subcommands().front());
}

void add_examples(CLI::App& app, const std::vector<Example>& examples) {
  std::string all = examples.size() == 1 ? "Example:" : "Examples:";
  for (const Example& example : examples)
    all += autograd::text("\n", example.what, ":\n  ", example.command);
  app.footer(all);
}

/// The columns of --help: what COLUMNS says or the terminal has, but at least 60 and at most 100.
static std::size_t columns_of_help() {
  const char* set = std::getenv("COLUMNS");
  std::int64_t columns = set ? std::strtol(set, nullptr, 10) : 0;
  winsize window = {};
  if (columns <= 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0) columns = window.ws_col;
  return columns > 0 ? std::clamp<std::int64_t>(columns, 60, 100) : 100;
}

std::string in_lines(const std::string& text, std::size_t indent) {
  const std::size_t columns = columns_of_help();
  std::string all;
  std::size_t length = 0;
  std::istringstream in(text);
  for (std::string word; in >> word; length += 1 + word.size()) {
    const bool fits = indent + length + word.size() <= columns;
    if (length > 0) all += fits ? ' ' : '\n';
    if (!fits) length = 0;
    all += word;
  }
  return all;
}

}  // namespace plangrad::examples
