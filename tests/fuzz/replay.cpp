// A target as a test: reads its seeds, then seeds with damage that is the same in each run, then
// files that the command names, such as those that libFuzzer found: fuzz_plan [FILE...]
// An input that is to blame for a crash stays in the folder that the first line names.
#include <cstdio>
#include <random>

#include "tests/fuzz/fuzz.h"
#include "tests/sanitized.h"

namespace {

using namespace plangrad::fuzz;

constexpr int damaged_inputs = plangrad::tests::sanitized ? 300 : 1500;

class Damage {
 public:
  explicit Damage(const std::vector<std::string>& seeds) : seeds_(seeds) {}

  /// A seed with one to four faults.
  std::string next() {
    std::string text = seeds_[below(seeds_.size())];
    for (std::size_t faults = 1 + below(4); faults > 0; --faults) spoil(text);
    return text;
  }

 private:
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }

  void spoil(std::string& text) {
    static const std::vector<std::string> words = {
        "0",          "-1",       "1e400",      "255",
        "2147483647", "99999999", "4294967296", "9223372036854775808",
        "null",       "[]",       "{}",         "\"\"",
        ",",          "/",        "|",          "-",
        "\x1b",       "é",        "[[[[",       "#",
        "../x",       "%%",       "true",       "1.5"};
    const std::size_t at = below(text.size() + 1), length = 1 + below(below(8) == 0 ? 300 : 8);
    switch (below(8)) {
      case 0: text.insert(at, words[below(words.size())]); break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, text.substr(below(text.size()), length)); break;
      case 3: text.resize(at); break;
      case 4: replace_number(text, at, words[below(words.size())]); break;
      case 5: {
        const std::string& other = seeds_[below(seeds_.size())];
        text.insert(at, other.substr(below(other.size()), length));
        break;
      }
      case 6: text.insert(at, std::string(length, "[{0 \n"[below(5)])); break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ 1 << below(8));
    }
  }

  /// Puts a word in the place of the next number.
  void replace_number(std::string& text, std::size_t at, const std::string& word) {
    const std::string digits = "0123456789";
    const std::size_t begin = text.find_first_of(digits, at);
    if (begin == text.npos) return;
    const std::size_t end = std::min(text.size(), text.find_first_not_of(digits, begin));
    text.replace(begin, end - begin, word);
  }

  const std::vector<std::string>& seeds_;
  std::mt19937 random_{1337};
};

/// Whether the input was accepted. A crash leaves it in the folder.
bool accepts(const std::string& input) {
  write("input", input);
  try {
    read_input(input);
    return true;
  } catch (const plangrad::autograd::Error&) {
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> good = seeds();
  std::printf("if an input crashes this, it is %s\n", (folder() / "input").c_str());
  std::fflush(stdout);
  for (const std::string& seed : good) must(accepts(seed), "a seed is refused");
  Damage damage(good);
  int accepted = 0;
  for (int i = 0; i < damaged_inputs; ++i) accepted += accepts(damage.next());
  for (int i = 1; i < argc; ++i) accepts(read(argv[i]));
  std::printf("%zu seeds, %d damaged inputs, %d of them accepted, %d files\n", good.size(),
              damaged_inputs, accepted, argc - 1);
}
