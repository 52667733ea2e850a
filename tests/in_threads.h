// Runs something in several threads at once, for tests.
#pragma once

#include <exception>
#include <thread>
#include <vector>

namespace plangrad::tests {

/// body(0), ..., body(count - 1), each in a thread of its own. Catch2's macros belong outside.
/// throws: what the first of them threw, once all have ended
template <class Body>
void in_threads(int count, Body&& body) {
  std::vector<std::exception_ptr> errors(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace plangrad::tests
