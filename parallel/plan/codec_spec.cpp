// Reads and prints codec specs by the numbers that a kind lists, and checks that a plan has a use
// for its codecs: a flag without effect is an error.
// Not here: the codecs themselves (codecs/). Chapter 10.
#include "parallel/plan/codec_spec.h"

#include <fmt/format.h>

#include <charconv>

#include "parallel/plan/plan.h"

namespace plangrad::parallel {
namespace {

template <class T>
bool read(const std::string& word, const CodecNumber& number, T& value) {
  auto [stop, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool whole = problem == std::errc() && stop == word.data() + word.size();
  return whole && value >= number.least && value <= number.most;
}

bool read(const std::string& word, const CodecNumber& number, bool& value) {
  return value = word == number.word;
}

/// Says what is wrong with a word that should be the number.
std::string complaint(const std::string& word, const CodecNumber& number) {
  if (std::holds_alternative<bool CodecSpec::*>(number.value))
    return text("expected ", number.word, " after ", number.what, ", or nothing, got ", word);
  if (word.empty()) return text(number.what, " is missing; ", number.use);
  return text(word, " can't be ", number.what, "; ", number.use);
}

std::string print(const CodecSpec& spec, const CodecNumber& number) {
  if (auto yes = std::get_if<bool CodecSpec::*>(&number.value))
    return spec.**yes ? number.word : "";
  if (auto whole = std::get_if<int CodecSpec::*>(&number.value))
    return fmt::format("{}", spec.**whole);
  return fmt::format("{}", spec.*std::get<double CodecSpec::*>(number.value));
}

/// How users type a codec: "NAME:NUMBER[:NUMBER]".
std::string usage(const CodecKind& kind) {
  std::string all = kind.name, end;
  for (const CodecNumber& number : kind.numbers) {
    all += text(number.may_lack ? "[:" : ":", number.word);
    if (number.may_lack) end += "]";
  }
  return all + end;
}

std::string listed(const std::vector<std::string>& names, const char* last) {
  std::string all;
  for (std::size_t i = 0; i < names.size(); ++i)
    all += text(i == 0 ? "" : i + 1 < names.size() ? ", " : last, names[i]);
  return all;
}

}  // namespace

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> words;
  for (std::size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find(separator, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
  }
  return words;
}

std::string codec_usages(WhichCodecs which, const char* last) {
  std::vector<std::string> usages;
  for (const CodecKind* kind : codec_kinds())
    if (which(*kind)) usages.push_back(usage(*kind));
  return listed(usages, last);
}

std::string codecs_to_use(WhichCodecs which, bool numbers) {
  std::vector<std::string> names;
  for (bool plain : {false, true})  // codecs with numbers come first
    for (const CodecKind* kind : codec_kinds()) {
      const CodecSpec usual{.name = kind->name};
      if (which(*kind) && kind->numbers.empty() == plain && !usual.is_none())
        names.push_back(numbers ? print(usual) : usual.name);
    }
  return listed(names, " or ");
}

const CodecKind& CodecSpec::kind() const {
  std::vector<std::string> names;
  for (const CodecKind* kind : codec_kinds()) {
    if (name == kind->name) return *kind;
    names.emplace_back(kind->name);
  }
  throw Error(text(name, ": there is no such codec; use ", codec_usages(any_codec, " or "),
                   autograd::did_you_mean(name, names)));
}

CodecSpec parse_codec(const std::string& typed) {
  const std::vector<std::string> words = split(typed, ':');
  CodecSpec spec{.name = words[0]};
  std::size_t at = 1;
  for (const CodecNumber& number : spec.kind().numbers) {
    if (number.may_lack && at == words.size()) break;
    const std::string word = at < words.size() ? words[at++] : "";
    std::visit(
        [&](auto value) {
          PG_CHECK(read(word, number, spec.*value), typed, ": ", complaint(word, number));
        },
        number.value);
  }
  PG_CHECK(at == words.size(), typed, ": nothing can follow here, got :", words[at]);
  return spec;
}

std::string print(const CodecSpec& spec) {
  const CodecSpec usual;
  std::string all = spec.name, defaults;
  for (const CodecNumber& number : spec.kind().numbers) {
    const std::string word = print(spec, number);
    defaults += ":" + word;
    if (number.may_lack && word == print(usual, number)) continue;
    all += std::exchange(defaults, "");
  }
  return all;
}

std::int64_t encoded_bytes(const CodecSpec& spec, std::int64_t count, std::int64_t element) {
  PG_CHECK(is_local(spec), "codec ", print(spec), ": it sends sums of factors, not the values of ",
           "one buffer; use quantize:4 or another codec here");
  return spec.kind().encoded_bytes(spec, count, element);
}

std::int64_t index_bytes(const CodecSpec& spec, std::int64_t count) {
  const CodecKind& kind = spec.kind();
  return kind.index_bytes ? kind.index_bytes(spec, count) : 0;
}

// ---- plans ----

/// Whether the plan has an instruction that does this with such a value.
static bool has(const Plan& plan, Value what, bool (*does)(const Instruction&)) {
  for (const Row& row : plan.rows)
    for (const Instruction& x : row)
      if (x.what == what && does(x)) return true;
  return false;
}

bool sums_in_groups(const Plan& plan) { return has(plan, Value::gradient_sum, meets); }

void check_codecs(const Plan& plan) {
  if (plan.steps == 0) return;
  const bool group_sums = sums_in_groups(plan), passed_sums = has(plan, Value::gradient_sum, sends),
             activations = has(plan, Value::activation, sends);
  const std::string codec = print(plan.codec), channel = print(plan.channel);
  PG_CHECK(plan.codec.is_none() || group_sums || passed_sums, "the codec ", codec,
           " is for sums of gradients, and in this plan none leaves its rank; leave it out",
           activations ? ", or encode activations with --codec-channel" : "");
  const WhichCodecs local = [](const CodecKind& kind) { return kind.is_local(); };
  PG_CHECK(is_local(plan.codec) || !passed_sums, "the codec ", codec, " needs a group that ",
           "sums its factors; in this plan sums go from rank to rank. Use ", codecs_to_use(local));
  PG_CHECK(plan.channel.is_none() || activations, "the channel's codec ", channel,
           " is for activations, and in this plan none leaves its rank; leave it out");
  PG_CHECK(plan.channel.kind().is_for_activations(), "the codec ", channel,
           " is for gradients; for activations use ", codecs_to_use(for_activations));
}

}  // namespace plangrad::parallel
