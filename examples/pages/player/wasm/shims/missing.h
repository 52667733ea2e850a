// What the standard library of emscripten 3.1.6 (Debian 12) lacks of C++20 and plangrad uses: some
// algorithms on ranges, views::reverse, bit_cast, and from_chars of a double. Every source includes
// it first. In namespace plangrad the name std then is plangrad::std, which has all of ::std and
// these; ::std itself stays as it is.
// Not here: all of C++20. Where a source uses another algorithm, add a line below.
#pragma once

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <ranges>
#include <string>

namespace plangrad::std {
using namespace ::std;

#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 15000
template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}

namespace ranges {
using namespace ::std::ranges;

#define PLANGRAD_OF_TEST(algorithm)                                                              \
  template <class Range, class Test, class Of = ::std::identity>                                 \
  constexpr auto algorithm(Range&& range, Test test, Of of = {}) {                               \
    return ::std::algorithm(::std::begin(range), ::std::end(range),                              \
                            [&](auto& x) { return ::std::invoke(test, ::std::invoke(of, x)); }); \
  }
PLANGRAD_OF_TEST(all_of)
PLANGRAD_OF_TEST(any_of)
PLANGRAD_OF_TEST(count_if)
PLANGRAD_OF_TEST(find_if)
PLANGRAD_OF_TEST(none_of)
#undef PLANGRAD_OF_TEST

#define PLANGRAD_OF_TWO(algorithm, Usual)                                     \
  template <class Range, class Test = Usual, class Of = ::std::identity>      \
  constexpr auto algorithm(Range&& range, Test test = {}, Of of = {}) {       \
    auto both = [&](const auto& a, const auto& b) {                           \
      return ::std::invoke(test, ::std::invoke(of, a), ::std::invoke(of, b)); \
    };                                                                        \
    return ::std::algorithm(::std::begin(range), ::std::end(range), both);    \
  }
PLANGRAD_OF_TWO(adjacent_find, ::std::equal_to<>)
PLANGRAD_OF_TWO(max_element, ::std::less<>)
PLANGRAD_OF_TWO(min_element, ::std::less<>)
PLANGRAD_OF_TWO(sort, ::std::less<>)
PLANGRAD_OF_TWO(stable_sort, ::std::less<>)
#undef PLANGRAD_OF_TWO

#define PLANGRAD_PLAIN(algorithm)                                   \
  template <class Range, class... More>                             \
  constexpr auto algorithm(Range&& range, More&&... more) {         \
    return ::std::algorithm(::std::begin(range), ::std::end(range), \
                            ::std::forward<More>(more)...);         \
  }
PLANGRAD_PLAIN(copy)
PLANGRAD_PLAIN(distance)
PLANGRAD_PLAIN(fill)
PLANGRAD_PLAIN(lower_bound)
PLANGRAD_PLAIN(replace)
PLANGRAD_PLAIN(reverse)
PLANGRAD_PLAIN(upper_bound)
#undef PLANGRAD_PLAIN

#define PLANGRAD_OF_SETS(algorithm)                                                               \
  template <class A, class B, class Out>                                                          \
  constexpr auto algorithm(A&& a, B&& b, Out out) {                                               \
    return ::std::algorithm(::std::begin(a), ::std::end(a), ::std::begin(b), ::std::end(b), out); \
  }
PLANGRAD_OF_SETS(set_difference)
PLANGRAD_OF_SETS(set_symmetric_difference)
#undef PLANGRAD_OF_SETS

template <class Range>
constexpr auto max(Range&& range) {
  return *max_element(range);
}
template <class Range, class T, class Of = ::std::identity>
constexpr auto find(Range&& range, const T& value, Of of = {}) {
  return find_if(
      range, [&](const auto& x) { return x == value; }, of);
}
template <class Range, class T, class Of = ::std::identity>
constexpr auto count(Range&& range, const T& value, Of of = {}) {
  return count_if(
      range, [&](const auto& x) { return x == value; }, of);
}

}  // namespace ranges

namespace views {

/// A range from its end to its beginning. It holds a temporary, and refers to anything else.
template <class Range>
struct Reversed {
  Range range;
  auto begin() { return ::std::make_reverse_iterator(range.end()); }
  auto end() { return ::std::make_reverse_iterator(range.begin()); }
};

inline constexpr struct {
} reverse;
template <class Range>
Reversed<Range> operator|(Range&& range, decltype(reverse)) {
  return {::std::forward<Range>(range)};
}

}  // namespace views
#endif

#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 200000
using ::std::from_chars;  // of whole numbers

/// Like strtod, but without spaces or a + in front, and without hexadecimal digits.
inline from_chars_result from_chars(const char* begin, const char* end, double& value) {
  string word(begin, end);
  word.resize(min(word.size(), word.find_first_of("xX")));
  if (word.empty() || isspace(static_cast<unsigned char>(word[0])) || word[0] == '+')
    return {begin, errc::invalid_argument};
  char* stop = nullptr;
  errno = 0;
  const double read = strtod(word.c_str(), &stop);
  if (stop == word.c_str()) return {begin, errc::invalid_argument};
  if (errno == ERANGE) return {begin + (stop - word.c_str()), errc::result_out_of_range};
  value = read;
  return {begin + (stop - word.c_str()), errc()};
}
#endif

}  // namespace plangrad::std
