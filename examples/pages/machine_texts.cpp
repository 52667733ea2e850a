// Divides the one text of all machines that the build embeds. Chapter 06.
#include "examples/pages/machine_texts.h"

#include <sstream>

namespace plangrad::examples {

extern const char* const machine_texts;  // one after the other

const std::map<std::string, std::string>& known_machines() {
  static const std::map<std::string, std::string> all = [] {
    std::map<std::string, std::string> texts;
    std::istringstream in(machine_texts);
    std::string name, comments;
    for (std::string line; std::getline(in, line); comments.clear()) {
      while (line.starts_with("#") && in) {
        comments += line + '\n';
        std::getline(in, line);
      }
      if (line.starts_with("machine ")) name = line.substr(8);
      texts[name] += comments + line + '\n';
    }
    return texts;
  }();
  return all;
}

}  // namespace plangrad::examples
