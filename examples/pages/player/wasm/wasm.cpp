// What a page calls: the player's answer to a request. Compiled by emscripten alone.
// Not here: the answer (player_facts.h). Chapter 06.

#include "examples/pages/player/player_facts.h"

/// Returns the answer, which stays until the next call.
extern "C" const char* player_answer(const char* request) {
  static std::string answer;
  answer = plangrad::examples::answer(request);
  return answer.c_str();
}
