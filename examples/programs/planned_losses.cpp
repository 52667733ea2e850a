// Losses are counted in updates, so that a lesson has the same course each time it is given.
// Chapter 15.
#include "examples/programs/planned_losses.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace plangrad::examples {

using autograd::text;

namespace {

/// Takes a whole number off the front of `words`.
int take_number(std::string_view& words, int lowest) {
  int number = -1;
  const auto [end, problem] = std::from_chars(words.data(), words.data() + words.size(), number);
  PG_CHECK(problem == std::errc() && number >= lowest, "no number of at least ", lowest);
  words.remove_prefix(static_cast<std::size_t>(end - words.data()));
  return number;
}

bool take(std::string_view& words, char expected) {
  const bool found = words.starts_with(expected);
  if (found) words.remove_prefix(1);
  return found;
}

PlannedLoss parse_loss(std::string_view words) {
  PlannedLoss loss;
  loss.rank = take_number(words, 0);
  PG_CHECK(take(words, '@'), "no @");
  loss.update = take_number(words, 1);
  if (take(words, '-')) loss.back = take_number(words, loss.update);
  PG_CHECK(words.empty(), "too long");
  return loss;
}

/// throws: Error if a rank is to be lost that is already lost and not yet back
void check_order(std::vector<PlannedLoss> losses) {
  std::ranges::sort(losses, {}, [](const PlannedLoss& x) { return std::pair(x.rank, x.update); });
  const auto gone = [](const PlannedLoss& a, const PlannedLoss& b) {
    return a.rank == b.rank && (a.back == 0 || a.back >= b.update);
  };
  const auto found = std::ranges::adjacent_find(losses, gone);
  PG_CHECK(found == losses.end(), "--lose: in update ", std::next(found)->update, " rank ",
           found->rank, " is still lost since update ", found->update,
           found->back > 0 ? text("; it is back after update ", found->back) : std::string());
}

}  // namespace

std::vector<PlannedLoss> parse_losses(const std::string& words) {
  std::vector<PlannedLoss> losses;
  if (words.empty()) return losses;
  std::istringstream list(words + ',');  // so that the last comma ends a loss, too
  for (std::string one; std::getline(list, one, ',');) try {
      losses.push_back(parse_loss(one));
    } catch (const autograd::Error&) {
      throw autograd::Error(text("--lose ", words, ": expected RANK@UPDATE or RANK@UPDATE-BACK, ",
                                 "as in 2@8,0@12-20; got \"", one, '"'));
    }
  check_order(losses);
  return losses;
}

std::string print(const std::vector<PlannedLoss>& losses) {
  std::string all;
  for (const auto& [rank, update, back] : losses)
    all += text(all.empty() ? "" : ",", rank, '@', update, back > 0 ? text('-', back) : "");
  return all;
}

parallel::Prolong losing(const PlannedLoss& loss, parallel::PlantedLoss& transport,
                         parallel::Prolong before) {
  return [loss, &transport, before](const parallel::Plan& plan, const parallel::Instruction& x,
                                    auto begun) {
    const int made = x.micro >= 0 ? plan.made_by(x.micro) : x.version;
    if (plan.steps > 0 && made >= loss.update) transport.lose();
    return before && before(plan, x, begun);
  };
}

}  // namespace plangrad::examples
