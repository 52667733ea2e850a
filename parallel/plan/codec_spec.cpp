// Reading and printing what codec is asked for, and the bytes that it needs.
// Not here: the codecs themselves (make_codec.cpp).
// Chapter 10.
#include "parallel/plan/codec_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "autograd/error.h"

namespace paragrad::parallel {

using autograd::text;
using Kind = CodecSpec::Kind;

namespace {

/// NAME or NAME:NUMBER[:NUMBER...], read from left to right.
class Words {
 public:
  explicit Words(const std::string& text) : text_(text) {
    for (std::size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
      end = std::min(text.find(':', begin), text.size());
      words_.push_back(text.substr(begin, end - begin));
    }
  }

  const std::string& name() const { return words_[0]; }
  bool more() const { return at_ < words_.size(); }
  std::string next() { return more() ? words_[at_++] : ""; }

  /// The next word as a number for which `good` holds; `what` it is and must be goes into errors.
  template <class T, class Good>
  void number(T& value, const char* what, const char* use, Good good) {
    std::string word = next();
    auto [stop, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
    bool whole = problem == std::errc() && stop == word.data() + word.size();
    if (!whole || !good(value))
      fail(word.empty() ? text(what, " is missing; ", use)
                        : text(word, " can't be ", what, "; ", use));
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw autograd::Error(text(text_, ": ", why));
  }

 private:
  const std::string& text_;
  std::vector<std::string> words_;
  std::size_t at_ = 1;
};

constexpr auto positive = [](auto n) { return n >= 1; };

void read_bucket(Words& words, CodecSpec& spec) {
  words.number(spec.bucket, "the bucket", "use 1 element or more, such as 1024", positive);
}

void read_period(Words& words, CodecSpec& spec) {
  if (spec.kind == Kind::pca)
    return words.number(spec.period, "the period", "use 2 or more, as one sum in it is whole",
                        [](int n) { return n >= 2; });
  words.number(spec.period, "the period", "use 1 or more", positive);
}

void read_numbers(Words& words, CodecSpec& spec) {
  switch (spec.kind) {
    case Kind::none:
    case Kind::bf16: return;
    case Kind::quantize:
      words.number(spec.bits, "the number of bits", "use 1 to 8 bits, such as quantize:4",
                   [](int n) { return n >= 1 && n <= 8; });
      if (words.more()) read_bucket(words, spec);
      if (words.more()) {
        std::string rounding = words.next();
        if (rounding != "stochastic")
          words.fail(text("expected stochastic after the bucket, or nothing, got ", rounding));
        spec.stochastic = true;
      }
      return;
    case Kind::adaptive:
      if (words.more()) read_bucket(words, spec);
      if (words.more()) read_period(words, spec);
      return;
    case Kind::topk:
    case Kind::threshold:
      words.number(spec.fraction, "the fraction of values to send",
                   "use more than 0, at most 1, such as topk:0.01",
                   [](double f) { return f > 0 && f <= 1; });
      if (spec.kind == Kind::threshold && words.more()) read_period(words, spec);
      return;
    case Kind::lowrank:
    case Kind::pca:
      words.number(spec.rank, "the rank", "use 1 column or more, such as lowrank:4", positive);
      if (spec.kind == Kind::pca && words.more()) read_period(words, spec);
  }
}

const std::vector<std::pair<const char*, Kind>> names{
    {"none", Kind::none},         {"bf16", Kind::bf16}, {"quantize", Kind::quantize},
    {"adaptive", Kind::adaptive}, {"topk", Kind::topk}, {"threshold", Kind::threshold},
    {"lowrank", Kind::lowrank},   {"pca", Kind::pca},
};

}  // namespace

CodecSpec parse_codec(const std::string& text) {
  Words words(text);
  for (const auto& [name, kind] : names)
    if (words.name() == name) {
      CodecSpec spec;
      spec.kind = kind;
      read_numbers(words, spec);
      if (words.more()) words.fail(autograd::text("nothing can follow here, got :", words.next()));
      return spec;
    }
  words.fail(
      "there is no such codec; use none, bf16, quantize:BITS[:BUCKET[:stochastic]], "
      "adaptive[:BUCKET[:PERIOD]], topk:FRACTION, threshold:FRACTION[:PERIOD], lowrank:RANK or "
      "pca:RANK[:PERIOD]");
}

std::string print(const CodecSpec& spec) {
  const CodecSpec usual;
  std::string bucket = spec.bucket != usual.bucket ? fmt::format(":{}", spec.bucket) : "";
  std::string period = spec.period != usual.period ? fmt::format(":{}", spec.period) : "";
  switch (spec.kind) {
    case Kind::none: return "none";
    case Kind::bf16: return "bf16";
    case Kind::quantize:
      if (spec.stochastic) return fmt::format("quantize:{}:{}:stochastic", spec.bits, spec.bucket);
      return fmt::format("quantize:{}{}", spec.bits, bucket);
    case Kind::adaptive:
      if (!period.empty()) return fmt::format("adaptive:{}{}", spec.bucket, period);
      return fmt::format("adaptive{}", bucket);
    case Kind::topk: return fmt::format("topk:{}", spec.fraction);
    case Kind::threshold: return fmt::format("threshold:{}{}", spec.fraction, period);
    case Kind::lowrank: return fmt::format("lowrank:{}", spec.rank);
    default: return fmt::format("pca:{}{}", spec.rank, period);
  }
}

bool is_local(const CodecSpec& spec) {
  return spec.kind != Kind::lowrank && spec.kind != Kind::pca;
}

bool is_sparse(const CodecSpec& spec) {
  return spec.kind == Kind::topk || spec.kind == Kind::threshold;
}

bool leaves_out(const CodecSpec& spec) { return is_sparse(spec) || !is_local(spec); }

std::int64_t encoded_bytes(const CodecSpec& spec, std::int64_t count, std::int64_t element) {
  switch (spec.kind) {
    case Kind::none: return count * element;
    case Kind::bf16: return count * 2;
    case Kind::quantize:
    case Kind::adaptive: {
      std::int64_t buckets = (count + spec.bucket - 1) / spec.bucket;
      return 2 * buckets * element + aligned((count * spec.bits + 7) / 8);
    }
    case Kind::topk:
    case Kind::threshold: return index_bytes(spec, count) + element * slots(spec, count);
    default:
      throw autograd::Error(text("codec ", print(spec),
                                 ": it sends sums of factors, no values of one buffer; use "
                                 "quantize:4 or another codec here"));
  }
}

std::int64_t slots(const CodecSpec& spec, std::int64_t count) {
  // 0.07 * 100 is a little more than 7 in a double.
  double exact = spec.fraction * static_cast<double>(count) * (1 - 1e-12);
  return std::min(count, static_cast<std::int64_t>(std::ceil(exact)));
}

std::int64_t index_bytes(const CodecSpec& spec, std::int64_t count) {
  return is_sparse(spec) ? 4 * slots(spec, count) : 0;
}

}  // namespace paragrad::parallel
