// Shapes: sizes, negative axes, broadcasting.
#include "autograd/shape.h"

#include "tests/catch.h"

using namespace plangrad::autograd;

TEST_CASE("shape: sizes and products", "[shape]") {
  Shape s{2, 3, 5};
  CHECK(s.rank() == 3);
  CHECK(s.numel() == 30);
  CHECK(s[0] == 2);
  CHECK(s[-1] == 5);
  CHECK(s.axis(-3) == 0);
  CHECK(s.product(1, 3) == 15);
  CHECK(s.product(1, 1) == 1);
  CHECK(s.with(-1, 7) == Shape{2, 3, 7});
  CHECK(s == Shape{2, 3, 5});
  CHECK(s != Shape{2, 15});
  CHECK(Shape{}.numel() == 1);  // a scalar
  CHECK(Shape{4, 0}.numel() == 0);
  CHECK(text(s, Shape{}, Shape{7}) == "(2,3,5)()(7)");
}

TEST_CASE("shape: broadcasting aligns at the end and stretches 1", "[shape]") {
  struct {
    Shape a, b, both;
  } cases[] = {{{2, 3}, {3}, {2, 3}}, {{2, 1}, {1, 3}, {2, 3}},       {Shape{}, {4, 5}, {4, 5}},
               {{1}, {7}, {7}},       {{5, 1, 2}, {3, 1}, {5, 3, 2}}, {{3, 0}, {1}, {3, 0}}};
  for (const auto& c : cases) {
    CHECK(broadcast(c.a, c.b) == c.both);
    CHECK(broadcast(c.b, c.a) == c.both);
  }
  CHECK_THROWS_WITH(broadcast({2, 3}, {2}), "shapes (2,3) and (2) do not broadcast");
}

TEST_CASE("shape: what is not there is refused", "[shape]") {
  Shape s{2, 3};
  CHECK_THROWS_WITH(s[2], "shape (2,3) has no dimension 2");
  CHECK_THROWS_WITH(s[-3], "shape (2,3) has no dimension -3");
  CHECK_THROWS_WITH(Shape{}[0], "shape () has no dimension 0");
  CHECK_THROWS_WITH((Shape{2, -1}), "shape (2,-1) has a negative size");
}
