// player_module: plangrad's verifier, schedules and simulator as WebAssembly, for a page.
// Not here: what they answer (examples/pages/player/player_facts.h), and the page. Chapter 06.
//
// module.cmake   takes it from tutorials/player.html, and makes it anew by emscripten if asked to
// wasm.cpp       the function that JavaScript calls; answer.js: how it calls it
// shims/         what the standard library of emscripten lacks
#pragma once

namespace plangrad::examples {

/// A script that defines plangradPlayer(), which promises a module; module.answer(request) is
/// answer() of player_facts.h, in a page, a worker or Node.
extern const char* const player_module;

}  // namespace plangrad::examples
