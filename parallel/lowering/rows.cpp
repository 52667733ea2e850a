// The place of a message in the two rows that it connects.
// Not here: what is sent, and when (lower.cpp, homes.cpp).
// Chapter 06.
#include "parallel/lowering/rows.h"

#include "parallel/lowering/walk.h"

namespace paragrad::parallel {

void Rows::send(int from, Instruction value, int to) {
  value.op = Op::send;
  value.peer = to;
  emit(from, value);
  value.op = Op::recv;
  value.peer = from;
  Row& row = rows_[to];
  auto comes_first =
      [&](const Instruction& x) {  // what the channel had before, an older copy's end
        return (receives(x) && x.peer == from) ||
               (drops(x) && x.what == value.what && x.stage == value.stage);
      };
  const auto computed = std::find_if(row.rbegin(), row.rend(), uses_weights);
  auto place = computed == row.rend() ? row.end() : computed.base() - 1;
  for (auto x = place; x != row.end(); ++x)
    if (comes_first(*x)) place = x + 1;
  row.insert(place, value);
}

}  // namespace paragrad::parallel
