// Pack: turns values into bytes for messages between ranks, and back.
// Not here: files, which are JSON; the ranks of a run are one build on machines of one kind.
// Chapter 05.
#pragma once

#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "autograd/error.h"

namespace plangrad::parallel {

/// Appends values to a string, or reads them from a string in the same order.
class Packer {
 public:
  Packer() = default;
  explicit Packer(std::string bytes) : bytes_(std::move(bytes)), reads_(true) {}

  /// Appends or reads a number, string, vector, map, pair, variant or plain struct. Other types
  /// name their members by `static auto fields(auto& x)`.
  template <class T>
  void pass(T& x) {
    if constexpr (requires { T::fields(x); }) {
      std::apply([this](auto&... members) { (this->pass(members), ...); }, T::fields(x));
    } else if constexpr (requires { typename T::mapped_type; }) {
      std::vector<std::pair<typename T::key_type, typename T::mapped_type>> all(x.begin(), x.end());
      pass(all);
      x = T(all.begin(), all.end());
    } else if constexpr (requires { x.resize(1); }) {
      const std::size_t count = passed(x.size());
      if (reads_) check(count);  // an element takes a byte or more
      x.resize(count);
      for (auto& element : x) pass(element);
    } else if constexpr (requires { std::tuple_size<T>::value; }) {
      std::apply([this](auto&... members) { (this->pass(members), ...); }, x);
    } else if constexpr (requires { x.valueless_by_exception(); }) {
      pass_variant(x);
    } else {
      static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
      pass_bytes(&x, sizeof x);
    }
  }
  const std::string& bytes() const { return bytes_; }
  std::size_t left() const { return bytes_.size() - at_; }

 private:
  void pass_bytes(void* x, std::size_t count) {
    if (!reads_) return void(bytes_.append(static_cast<const char*>(x), count));
    check(count);
    std::memcpy(x, bytes_.data() + at_, count);
    at_ += count;
  }
  /// Passes a number that says what follows, and returns it.
  std::size_t passed(std::size_t number) {
    pass(number);
    return number;
  }
  template <class... T>
  void pass_variant(std::variant<T...>& x) {
    std::size_t kind = passed(x.index()), i = 0;
    PG_CHECK(kind < sizeof...(T), "no such alternative in a message: ", kind, " of ", sizeof...(T),
             "; start all ranks from one build");
    if (reads_) ((i++ == kind ? void(x = T()) : void()), ...);
    std::visit([this](auto& value) { this->pass(value); }, x);
  }
  void check(std::size_t count) const {
    PG_CHECK(count <= left(), "a message of ", bytes_.size(), " bytes ends too early; start all ",
             "ranks from one build");
  }

  std::string bytes_;
  std::size_t at_ = 0;
  bool reads_ = false;
};

/// The bytes of a value, for unpack() on another rank.
template <class T>
std::string pack(T value) {
  Packer packer;
  packer.pass(value);
  return packer.bytes();
}

/// Reads back a value that pack() has written.
/// throws: Error if the bytes are not those of a T
template <class T>
T unpack(std::string bytes) {
  Packer packer(std::move(bytes));
  T value{};
  packer.pass(value);
  PG_CHECK(packer.left() == 0, packer.left(), " bytes more than expected in a message; start all ",
           "ranks from one build");
  return value;
}

}  // namespace plangrad::parallel
