// A target under libFuzzer: its seeds are files of a folder, which joins the folders of inputs that
// the command names. Without any, what libFuzzer finds goes there, and is lost at the end. No
// folder joins files that the command names.
#include <algorithm>
#include <cstdint>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace plangrad::fuzz;
  static std::vector<char*> words(*argv, *argv + *argc);
  static std::string name = (folder() / "seeds").string();
  int number = 0;
  for (const std::string& seed : seeds()) write("seeds/" + std::to_string(number++), seed);
  const bool reads_files = std::any_of(words.begin() + 1, words.end(), [](const char* word) {
    return std::filesystem::is_regular_file(word);
  });
  if (!reads_files) words.push_back(name.data());
  *argc = static_cast<int>(words.size());
  words.push_back(nullptr);
  *argv = words.data();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    plangrad::fuzz::read_input({reinterpret_cast<const char*>(data), size});
  } catch (const plangrad::autograd::Error&) {
  }
  return 0;
}
