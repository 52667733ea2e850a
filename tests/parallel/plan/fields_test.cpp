// Fields of a table: how each type is typed, shown and refused, and JSON there and back.
// Not here: the tables themselves (tests/examples/saved_spec_test.cpp).
#include "parallel/plan/fields.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"

namespace plangrad::parallel {

namespace {

enum class Colour { red, green };
const std::map<std::string, Colour>& colours() {
  static const std::map<std::string, Colour> all{{"green", Colour::green}, {"red", Colour::red}};
  return all;
}

struct Inner {
  int count = 2;
};
struct Thing {
  bool yes = false;
  double length = 1;
  std::vector<int> sizes = {1};
  std::optional<Colour> colour = {};
  CodecSpec codec = {};
  std::string words = {};
  Inner inner = {};
};

}  // namespace

template <>
struct AsText<Colour> : AsChoice<Colour, colours> {};

namespace {

constexpr Field<Thing> fields[] = {
    row<&Thing::yes>("yes", ""),
    row<&Thing::length>("length", "", {.least = 1e-30}),
    row<&Thing::sizes>("sizes", "", {.least = 1}),
    row<&Thing::colour>("colour", "", {.flag = "--color"}),
    row<&Thing::codec>("codec", ""),
    row<&Thing::words>("words", ""),
    row<&Thing::inner, &Inner::count>("inner_count", "", {.least = 1, .most = 8}),
};

TEST_CASE("a field is set by what users type, and shows it") {
  const std::vector<std::pair<std::string, std::string>> typed{
      {"yes", "true"},         {"length", "0.25"}, {"sizes", "3,1,2"},  {"colour", "red"},
      {"codec", "quantize:4"}, {"words", "a b"},   {"inner_count", "7"}};
  Thing thing;
  for (const auto& [name, word] : typed) {
    const auto field = std::ranges::find(fields, name, [](const auto& x) { return x.name; });
    CAPTURE(name);
    CHECK_FALSE(field->is_set(thing));
    field->take(thing, word);
    CHECK(field->is_set(thing));
    CHECK(field->show(thing) == word);
    // The same by way of JSON.
    const nlohmann::json json = json_of(field->kind, word);
    check_type(field->kind, json);
    CHECK(text_of(nlohmann::json::parse(json.dump())) == word);
  }
  CHECK(thing.yes);
  CHECK(thing.length == 0.25);
  CHECK(thing.sizes == std::vector{3, 1, 2});
  CHECK(thing.colour == Colour::red);
  CHECK(thing.codec == parse_codec("quantize:4"));
  CHECK(thing.inner.count == 7);
}

TEST_CASE("a field says what can be typed, and stays as it was") {
  struct Wrong {
    int field;
    const char *word, *message;
  };
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {0, "maybe", "expected true or false"},
           {1, "0", "expected a number above 0, got 0"},
           {1, "1e40", "expected a number above 0, at most 1e+30, got 1e40"},
           {2, "3,,2", "expected a whole number, 1 or more, got nothing"},
           {2, "3,0", "expected a whole number, 1 or more, got 0"},
           {2, "1,99999999999999999999", "from 1 to 2147483647, got 99999999999999999999"},
           {3, "grene", "expected one of green, red; got grene; did you mean green?"},
           {4, "none-such", "none-such"},
           {6, "9", "expected a whole number from 1 to 8, got 9"},
           {6, "", "expected a whole number from 1 to 8, got nothing"},
           {6, "3x", "got 3x"}}) {
    CAPTURE(fields[wrong.field].name, wrong.word);
    Thing thing;
    CHECK_THROWS_WITH(fields[wrong.field].take(thing, wrong.word), Contains(wrong.message));
    CHECK_FALSE(fields[wrong.field].is_set(thing));
  }
}

TEST_CASE("a field has the flag of its name, or one of its own") {
  CHECK(fields[6].flag_name() == "--inner-count");
  CHECK(fields[3].flag_name() == "--color");
  CHECK(fields[3].choices() == std::vector<std::string>{"green", "red"});
  Thing thing;
  *fields[0].yes(thing) = true;
  CHECK(thing.yes);
}

TEST_CASE("JSON of another type is refused, and whole floats are whole numbers") {
  using nlohmann::json;
  const std::vector<std::pair<Kind, json>> wrong{{Kind::yes, 1},
                                                 {Kind::whole, 2.5},
                                                 {Kind::number, "1"},
                                                 {Kind::numbers, json()},
                                                 {Kind::numbers, {1, "two"}},
                                                 {Kind::words, 3},
                                                 {Kind::choice, true},
                                                 {Kind::numbers, json::array()}};
  for (const auto& [kind, value] : wrong) {
    CAPTURE(name_of(kind), value.dump());
    CHECK_THROWS_WITH(check_type(kind, value), Contains("expected "));
  }
  CHECK(text_of(1e6) == "1000000");
  CHECK(text_of({0.5, 2}) == "0.5,2");
}

}  // namespace
}  // namespace plangrad::parallel
