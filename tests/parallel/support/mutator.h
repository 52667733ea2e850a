// Mutator: makes plans with one random fault, to find out who notices.
// Not here: who does (mutation_test).
#pragma once

#include <array>
#include <random>

#include "parallel/plan/plan.h"

namespace plangrad::tests {

enum class Mutation {
  swap_neighbours,
  exchange_sends,
  microbatch,
  version,
  peer,
  deletion,
  duplication,
  detour
};
inline constexpr std::array fault_names{
    "swap of neighbours", "exchange of sends", "other microbatch", "other version",
    "other peer",         "deletion",          "duplication",      "detour of a value"};

/// The numbers drawn are the same on every machine.
class Mutator {
 public:
  Mutator(parallel::Plan plan, unsigned seed) : plan_(std::move(plan)), random_(seed) {}

  /// The plan with one fault, or the plan itself where it has nothing that can go wrong so.
  parallel::Plan mutate(Mutation fault);

 private:
  int draw(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }
  void exchange(parallel::Row& row);
  void renumber(parallel::Row& row, int parallel::Instruction::*field, int begin, int end);
  void send_around(parallel::Plan& plan, int here, int there);

  parallel::Plan plan_;
  std::mt19937 random_;
};

}  // namespace plangrad::tests
