// Safetensors files: what is written comes back, and every way to break a file has its message.
// Not here: what the tensors mean to a model. Chapter 02.
#include "nn/checkpoint/safetensors.h"

#include "autograd/error.h"
#include "nn/checkpoint/file.h"
#include "tests/catch.h"
#include "tests/error_of.h"
#include "tests/references.h"
#include "tests/small_disk.h"
#include "tests/temporary_folder.h"

using namespace plangrad::nn;
using plangrad::tests::tensors_of;
namespace fs = std::filesystem;

namespace {

/// A folder that is gone when the test ends.
struct Folder : plangrad::tests::TemporaryFolder {
  std::string file(const std::string& name) const { return (path / name).string(); }
};

std::string length_of(std::uint64_t header) {
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

/// A file of this header and this many bytes of data, whatever the header says about them.
std::string file_of(const std::string& header, std::size_t data = 0) {
  return length_of(header.size()) + header + std::string(data, 'x');
}

/// The message with which a file of these bytes is refused, behind its name; empty: it is not.
std::string refusal(const std::string& bytes, const std::string& behind_name = ": ") {
  Folder folder;
  const std::string path = folder.file("broken.safetensors");
  write_file(path, bytes);
  const std::string message = plangrad::tests::error_of([&] { SafetensorsFile file(path); });
  if (!message.empty()) CHECK_THAT(message, StartsWith(path + behind_name) && !Contains("\n"));
  return message;
}

/// The message with which a file of another kind is refused.
std::string refusal_of_other(const std::string& bytes) { return refusal(bytes, " is "); }

/// A source whose bytes are these; the caller keeps them.
SafetensorsSource source(const std::string& name, const std::string& dtype, const Shape& shape,
                         const std::string& bytes) {
  return {name, dtype, shape, [&bytes] { return std::as_bytes(std::span(bytes)); }};
}

std::string string_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

const std::string two_floats(8, 'a');

/// A tensor's header entry: one byte of data, each field as given.
std::string tensor(const std::string& name, const std::string& begin, const std::string& end,
                   const std::string& shape = "[1]", const std::string& dtype = "\"U8\"") {
  return "\"" + name + "\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":[" +
         begin + "," + end + "]}";
}

}  // namespace

TEST_CASE("every dtype comes back with its name, shape and bytes", "[safetensors]") {
  const std::vector<std::pair<std::string, std::size_t>> dtypes = {
      {"BOOL", 1},    {"U8", 1},   {"I8", 1},          {"F8_E4M3", 1},     {"F8_E5M2", 1},
      {"F8_E8M0", 1}, {"U16", 2},  {"F8_E4M3FNUZ", 1}, {"F8_E5M2FNUZ", 1}, {"I16", 2},
      {"F16", 2},     {"BF16", 2}, {"U32", 4},         {"I32", 4},         {"F32", 4},
      {"C64", 8},     {"U64", 8},  {"I64", 8},         {"F64", 8}};
  const std::vector<Shape> shapes = {{2, 3}, {}, {0, 4}, {3}};
  std::vector<std::string> data;
  for (const auto& [dtype, size] : dtypes)
    for (const Shape& shape : shapes)
      data.emplace_back(shape.numel() * size, static_cast<char>('a' + data.size()));

  std::vector<SafetensorsSource> sources;
  for (const auto& [dtype, size] : dtypes)
    for (const Shape& shape : shapes)
      sources.push_back(
          source(dtype + "." + std::to_string(sources.size()), dtype, shape, data[sources.size()]));
  Folder folder;
  write_safetensors(folder.file("all"), {{"step", "7"}, {"größe", "\"\n"}}, sources);

  SafetensorsFile file(folder.file("all"));
  CHECK(file.metadata() == std::map<std::string, std::string>{{"step", "7"}, {"größe", "\"\n"}});
  REQUIRE(file.entries().size() == sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const SafetensorsEntry& entry = file.entries()[i];
    CHECK(entry.name == sources[i].name);
    CHECK(entry.dtype == sources[i].dtype);
    CHECK(entry.shape == sources[i].shape);
    CHECK(string_of(entry.bytes()) == data[i]);
  }
}

TEST_CASE("the bytes of a file are as the format says", "[safetensors]") {
  Folder folder;
  const std::string path = folder.file("golden");
  const std::string scalar = "wxyz", none;
  write_safetensors(path, {{"format", "pt"}},
                    {source("w.b", "F32", {2, 1}, two_floats), source("a", "I32", {}, scalar),
                     source("e", "F16", {0}, none)});
  std::string header =
      R"({"__metadata__":{"format":"pt"},"w.b":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"I32","shape":[],"data_offsets":[8,12]},)"
      R"("e":{"dtype":"F16","shape":[0],"data_offsets":[12,12]}})";
  REQUIRE(header.size() == 197);
  CHECK(read_file(path) == length_of(200) + header + "   " + "aaaaaaaawxyz");

  write_safetensors(path, {}, {});
  CHECK(read_file(path) == length_of(8) + "{}      ");
  CHECK(SafetensorsFile(path).entries().empty());
}

TEST_CASE("a file of the reference package is read", "[safetensors]") {
  const fs::path tests = fs::path(__FILE__).parent_path().parent_path();
  SafetensorsFile file((tests / "references/safetensors_small.safetensors").string());
  CHECK_THAT(file.metadata().at("package"), Contains("safetensors 0."));
  REQUIRE(file.entries().size() == 9);
  const auto tensors = tensors_of(file);

  const std::vector<float> values = {0.5f, -1.25f, 3.0f, 65504.0f, -0.0f, 0x1p-14f};
  for (const char* name : {"half", "single", "double"}) {
    CHECK(tensors.at(name).shape == Shape{2, 3});
    CHECK(to_floats(tensors.at(name)) == values);
    CHECK(std::signbit(to_floats(tensors.at(name))[4]));
  }
  CHECK(to_floats(tensors.at("brain")) ==
        std::vector<float>{0.5f, -1.25f, 3.0f, 65280.0f, -0.0f, 0x1p-14f});
  CHECK(tensors.at("scalar").shape == Shape{});
  CHECK(to_floats(tensors.at("scalar")) == std::vector<float>{7.0f});
  CHECK(tensors.at("empty").shape == Shape{0, 4});
  CHECK(to_floats(tensors.at("empty")).empty());

  CHECK(tensors.at("tokens").dtype == "I64");
  std::int64_t tokens[3];
  REQUIRE(tensors.at("tokens").size == sizeof(tokens));
  std::memcpy(tokens, tensors.at("tokens").bytes().data(), sizeof(tokens));
  CHECK((tokens[0] == 0 && tokens[1] == 1 && tokens[2] == -50257));
  CHECK(string_of(tensors.at("bytes").bytes()) == "\x01\x02\xff");
  CHECK(string_of(tensors.at("größe").bytes()) == std::string("\x01\x00", 2));
  CHECK_THROWS_WITH(to_floats(tensors.at("tokens")),
                    Contains("\"tokens\" holds I64, expected F32"));
}

TEST_CASE("the order is that of the data, and padding and unknown fields are allowed",
          "[safetensors]") {
  Folder folder;
  const std::string extra = R"("c":{"note":[{}],"dtype":"U8","shape":[1],"data_offsets":[1,2]})";
  write_file(folder.file("good"),
             file_of("{" + tensor("b", "2", "3") + "," + extra + "," + tensor("a", "0", "1") + "," +
                         tensor("z", "1", "1", "[0]") + "} \n ",
                     3));
  SafetensorsFile file(folder.file("good"));
  std::string names;
  for (const SafetensorsEntry& entry : file.entries()) names += entry.name;
  CHECK(names == "azcb");
}

TEST_CASE("a file whose header breaks a rule is refused", "[safetensors]") {
  CHECK_THAT(refusal(""), Contains("cut short: expected at least 8 bytes, found 0"));
  CHECK_THAT(refusal("1234567"), Contains("cut short: expected at least 8 bytes, found 7"));
  CHECK_THAT(refusal(length_of(100'000'001) + "{}"), Contains("header length is 100000001 bytes"));
  CHECK_THAT(refusal(length_of(~0ull) + "{}"), Contains("header length is 18446744073709551615"));
  CHECK_THAT(refusal(length_of(100'000'000) + "{}"),
             Contains("cut short: the header needs 100000008 bytes, found 10"));
  CHECK_THAT(refusal(length_of(3) + "{}"), Contains("the header needs 11 bytes, found 10"));
  CHECK_THAT(refusal(file_of("")), Contains("does not begin with '{'"));
  CHECK_THAT(refusal(file_of(" {}")), Contains("does not begin with '{'"));
  CHECK_THAT(refusal(file_of("[]")), Contains("does not begin with '{'"));

  const std::string not_json = "header is not valid JSON in UTF-8";
  CHECK_THAT(refusal(file_of("{\"a\"}")), Contains(not_json));
  CHECK_THAT(refusal(file_of("{}x")), Contains(not_json));
  CHECK_THAT(refusal(file_of("{\"a\":1e999}")), Contains(not_json));
  CHECK_THAT(refusal(file_of("{" + tensor("\xff", "0", "1") + "}", 1)), Contains(not_json));
  CHECK_THAT(refusal(file_of(std::string("{}\0}", 4))), Contains("header holds a zero byte"));
  CHECK_THAT(
      refusal(file_of("{\"a\":{\"note\":" + std::string(9, '[') + std::string(9, ']') + "}}")),
      Contains("nested deeper"));

  const std::string a = tensor("a", "0", "1");
  CHECK_THAT(refusal(file_of("{" + a + "," + a + "}", 1)), Contains("has the key \"a\" twice"));
  CHECK_THAT(refusal(file_of("{" + a + "," + tensor("\\u0061", "1", "2") + "}", 2)),
             Contains("has the key \"a\" twice"));
  CHECK_THAT(refusal(file_of(R"({"__metadata__":{"k\n":"1","k\n":"2"}})")),
             Contains("has the key \"k\\n\" twice"));
  CHECK_THAT(refusal(file_of(R"({"a":{"dtype":"U8","dtype":"I8"}})")),
             Contains("has the key \"dtype\" twice"));

  const std::string not_map = "__metadata__ is not a map of strings to strings";
  CHECK_THAT(refusal(file_of(R"({"__metadata__":"x"})")), Contains(not_map));
  CHECK_THAT(refusal(file_of(R"({"__metadata__":null})")), Contains(not_map));
  CHECK_THAT(refusal(file_of(R"({"__metadata__":{"step":7}})")),
             Contains(not_map + ": \"step\" is a number"));
}

TEST_CASE("a tensor that is badly described is refused", "[safetensors]") {
  auto one = [](const std::string& begin, const std::string& end, const std::string& shape = "[1]",
                const std::string& dtype = "\"U8\"") {
    return refusal(file_of("{" + tensor("a", begin, end, shape, dtype) + "}", 1));
  };
  CHECK_THAT(refusal(file_of(R"({"a":7})")), Contains("\"a\" is not described by an object"));
  CHECK_THAT(refusal(file_of(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1)),
             Contains("tensor \"a\" has no dtype"));
  CHECK_THAT(refusal(file_of(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1)),
             Contains("tensor \"a\" has no shape"));
  CHECK_THAT(refusal(file_of(R"({"a":{"dtype":"U8","shape":[1]}})", 1)),
             Contains("tensor \"a\" has no data_offsets"));
  CHECK_THAT(refusal(file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1)),
             Contains("data_offsets has 1 numbers"));
  CHECK_THAT(refusal(file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":7}})", 1)),
             Contains("data_offsets is not a list"));
  CHECK_THAT(one("0", "1", "1"), Contains("shape is not a list"));
  CHECK_THAT(one("0", "1", "[1]", "\"F31\""), Contains("unknown dtype \"F31\""));
  CHECK_THAT(one("0", "1", "[1]", "\"u8\""), Contains("unknown dtype \"u8\""));
  CHECK_THAT(one("0", "1", "[1]", "8"), Contains("dtype is not a string"));

  for (const char* bad :
       {"-1", "1.0", "1e0", "\"1\"", "null", "9223372036854775808", "99999999999999999999"})
    CHECK_THAT(one("0", "1", "[" + std::string(bad) + "]"),
               Contains("shape holds something other"));
  CHECK_THAT(one("-1", "0"), Contains("data_offsets holds something other"));
  CHECK_THAT(one("0", "1.0"), Contains("data_offsets holds something other"));

  CHECK_THAT(one("0", "1", "[4294967296,4294967296]"), Contains("overflows 63 bits"));
  CHECK_THAT(one("0", "0", "[4294967296,4294967296,0]"), Contains("overflows 63 bits"));
  CHECK_THAT(one("0", "0", "[2305843009213693952]", "\"F32\""), Contains("overflows 63 bits"));
  CHECK_THAT(one("1", "0"), Contains("ends at byte 0, before it begins at byte 1"));
  CHECK_THAT(one("0", "1", "[2]", "\"F32\""),
             Contains("F32 of shape (2) needs 8 bytes, data_offsets give 1"));
  CHECK_THAT(one("0", "1", "[0]"), Contains("needs 0 bytes, data_offsets give 1"));
  CHECK_THAT(one("0", "9223372036854775807", "[9223372036854775807]"),
             Contains("cut short: expected 9223372036854775904 bytes"));
}

TEST_CASE("tensors that do not fill the file exactly are refused", "[safetensors]") {
  auto two = [](const std::string& first, const std::string& second, std::size_t data) {
    return refusal(file_of("{" + first + "," + second + "}", data));
  };
  const std::string a = tensor("a", "0", "2", "[2]");
  CHECK_THAT(
      two(a, tensor("b", "1", "2"), 2),
      Contains("\"b\" begins at byte 1 and overlaps the one before it, which ends at byte 2"));
  CHECK_THAT(two(tensor("b", "0", "2", "[2]"), a, 2), Contains("overlaps"));
  CHECK_THAT(two(tensor("e", "1", "1", "[0]"), a, 2),
             Contains("\"e\" begins at byte 1 and overlaps"));
  CHECK_THAT(two(a, tensor("b", "3", "4"), 4), Contains("bytes 2 to 3 of the data are a hole"));
  CHECK_THAT(refusal(file_of("{" + tensor("b", "1", "2") + "}", 2)),
             Contains("bytes 0 to 1 of the data are a hole"));

  const std::string header = "{" + a + "," + tensor("b", "2", "3") + "}";
  const std::string full = std::to_string(8 + header.size() + 3);
  CHECK_THAT(refusal(file_of(header, 2)),
             Contains("file is cut short: expected " + full + " bytes, found "));
  CHECK_THAT(refusal(file_of(header, 4)),
             Contains("continues after its last tensor: expected " + full + " bytes, found "));
  CHECK_THAT(refusal(file_of("{}", 1)), Contains("expected 10 bytes, found 11"));

  const std::string good = file_of(header, 3);
  REQUIRE(refusal(good).empty());
  for (std::size_t size = 0; size < good.size(); ++size)
    CHECK_THAT(refusal(good.substr(0, size)), Contains("file is cut short"));
}

TEST_CASE("a damaged byte is refused or read, nothing else", "[safetensors]") {
  Folder folder;
  const std::string path = folder.file("damaged");
  const std::string good =
      file_of(R"({"__metadata__":{"k":"v"},)" + tensor("a", "0", "2", "[1,2]") + "," +
                  tensor("b", "2", "6", "[]", "\"F32\"") + "}",
              6);
  std::size_t refused = 0, accepted = 0;
  for (std::size_t at = 0; at < good.size() - 6; ++at) {
    for (char byte : {'\0', '"', '{', '}', '[', ',', '9', '-', '\\', '\n', '\xff'}) {
      std::string damaged = good;
      damaged[at] = byte;
      write_file(path, damaged);
      try {
        SafetensorsFile file(path);
        std::size_t bytes = 0;
        for (const SafetensorsEntry& entry : file.entries()) bytes += entry.bytes().size();
        REQUIRE(bytes == 6);
        ++accepted;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  CHECK(refused > accepted);
  CHECK(accepted > 0);  // letters of names and of the metadata
}

TEST_CASE("a tensor's fields are lists of few numbers, whatever else the header holds",
          "[safetensors]") {
  auto shape = [](const std::string& list) {
    return refusal(file_of("{" + tensor("a", "0", "1", list) + "}", 1));
  };
  CHECK_THAT(shape("[[1]]"), Contains("shape holds something other"));
  CHECK_THAT(shape("[{}]"), Contains("shape holds something other"));
  CHECK_THAT(shape("{}"), Contains("shape is not a list"));
  std::string ones = "[1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  CHECK_THAT(shape(ones + "]"), Contains("shape has more than 64 numbers"));
  CHECK_THAT(refusal(file_of(R"({"a":{"dtype":["U8"],"shape":[1]}})")),
             Contains("dtype is not a string"));
  CHECK_THAT(refusal(file_of(R"({"__metadata__":{"step":["7"]}})")),
             Contains("\"step\" is a array"));
  CHECK_THAT(refusal(file_of("{" + tensor(std::string(10'000, 'n'), "0", "1", "7") + "}")),
             Contains("nnn\"...: shape is not a list"));
  Folder folder;
  write_file(folder.file("good"),
             file_of(R"({"a":{"shape":[1],"note":{"shape":7,"x":[1]},"dtype":"U8",)"
                     R"("data_offsets":[0,1]}})",
                     1));
  CHECK(tensors_of(SafetensorsFile(folder.file("good"))).at("a").shape == Shape{1});
}

TEST_CASE("a file that shrinks while it is read is an error that names it", "[safetensors]") {
  Folder folder;
  const std::string path = folder.file("shrinks"), many(3 << 20, 'm');
  write_safetensors(
      path, {},
      {source("first", "U8", {std::ssize(many)}, many), source("w", "F32", {2}, two_floats)});
  const SafetensorsFile file(path);
  fs::resize_file(path, fs::file_size(path) - (2 << 20));
  const auto refused = Contains(path + " is cut short: another program made it shorter");
  for (const SafetensorsEntry& entry : file.entries()) {
    CHECK_THROWS_WITH(entry.bytes(), refused);
    CHECK_THROWS_WITH(entry.read_parts([](auto) {}), refused);
  }
  CHECK_THROWS_WITH(to_floats(tensors_of(file).at("w")), refused);
  fs::resize_file(path, 0);
  CHECK_THROWS_WITH(tensors_of(file).at("first").bytes(), refused);
  CHECK(file.header().size() > 8);
}

TEST_CASE("what is no safetensors file is named, with what to do", "[safetensors]") {
  CHECK_THAT(refusal_of_other("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n"),
             Contains("is a Git LFS pointer") && Contains("git lfs pull"));
  CHECK_THAT(refusal_of_other("<!DOCTYPE html>\n<html>"), Contains("is a web page"));
  CHECK_THAT(refusal_of_other("  <HTML><body>503"), Contains("is a web page"));
  CHECK_THAT(refusal_of_other("Entry not found"), Contains("is a web page"));
  CHECK_THAT(refusal_of_other("PK\x03\x04 and more"), Contains("is a zip archive"));
  CHECK_THAT(refusal_of_other("\x80\x02}q\x01 and more"), Contains("is a file of torch.save"));
  CHECK_THAT(refusal_of_other("GGUF\x03 and more"), Contains("is a GGUF file"));
  CHECK_THAT(refusal_of_other("\x1f\x8b\x08 and more"), Contains("is packed by gzip"));
}

TEST_CASE("what can't be opened is an error", "[safetensors]") {
  Folder folder;
  CHECK_THROWS_WITH(SafetensorsFile(folder.file("absent")), Contains("there is no file"));
  CHECK_THROWS_WITH(SafetensorsFile(folder.path.string()), Contains("is a folder"));
}

TEST_CASE("a file stays readable after its copies and its path are gone", "[safetensors]") {
  Folder folder;
  const std::string path = folder.file("kept"), other(8, 'b');
  write_safetensors(path, {}, {source("w", "F32", {2}, two_floats)});
  auto first = std::make_unique<SafetensorsFile>(path);
  SafetensorsFile copy = *first;
  first.reset();
  write_safetensors(path, {}, {source("w", "F32", {2}, other)});
  CHECK(string_of(tensors_of(copy).at("w").bytes()) == two_floats);
  CHECK(string_of(tensors_of(SafetensorsFile(path)).at("w").bytes()) == other);
}

TEST_CASE("one staging buffer serves all tensors of a file", "[safetensors]") {
  Folder folder;
  std::string staging;
  std::vector<SafetensorsSource> sources;
  for (char letter : {'p', 'q', 'r'})
    sources.push_back({std::string(1, letter), "U8", {4}, [&staging, letter] {
                         staging.assign(4, letter);
                         return std::as_bytes(std::span(staging));
                       }});
  write_safetensors(folder.file("staged"), {}, sources);
  SafetensorsFile file(folder.file("staged"));
  CHECK(string_of(tensors_of(file).at("p").bytes()) == "pppp");
  CHECK(string_of(tensors_of(file).at("q").bytes()) == "qqqq");
  CHECK(string_of(tensors_of(file).at("r").bytes()) == "rrrr");
}

TEST_CASE("a write that fails says why and leaves the earlier file", "[safetensors]") {
  Folder folder;
  const std::string path = folder.file("model");
  const SafetensorsSource good = source("w", "F32", {2}, two_floats);
  write_safetensors(path, {}, {good});
  const std::string before = read_file(path);
  auto fails = [&](const std::vector<SafetensorsSource>& tensors, const std::string& message,
                   const std::map<std::string, std::string>& metadata = {}) {
    CHECK_THROWS_WITH(write_safetensors(path, metadata, tensors),
                      Contains(path) && Contains(message));
    CHECK(read_file(path) == before);
    CHECK_FALSE(fs::exists(fs::symlink_status(path + ".plangrad-partial")));
  };
  fails({good, good}, "\"w\" can't be written: its name is used twice");
  fails({source("__metadata__", "F32", {2}, two_floats)}, "its name is used twice or reserved");
  fails({source("w", "f32", {2}, two_floats)}, "unknown dtype \"f32\"");
  fails({source("\xff", "F32", {2}, two_floats)}, "not UTF-8");
  fails({good}, "not UTF-8", {{"key", "\xff"}});
  fails({source("w", "F32", {1ll << 61}, two_floats)}, "overflows 63 bits");
  fails({source("v", "U8", {1ll << 62}, two_floats), source("w", "U8", {1ll << 62}, two_floats)},
        "the file's size overflows 63 bits");
  fails({good}, "the header needs", {{"key", std::string(100'000'000, 'x')}});
  fails({good, source("v", "F32", {3}, two_floats)},
        "tensor \"v\" of shape (3) needs 12 bytes, got 8");
  fails({good,
         {"v",
          "F32",
          {1},
          [&]() -> std::span<const std::byte> { throw Error(path + ": the device is lost"); }}},
        "the device is lost");

  {
    const plangrad::tests::SmallDisk disk(20);
    fails({good}, "can't be written: File too large");
  }
  CHECK_THROWS_WITH(
      write_safetensors(folder.file("absent/model"), {}, {good}),
      Contains("absent/model.plangrad-partial: can't be created: No such file or directory"));
  fs::create_directory(folder.file("taken"));
  CHECK_THROWS_WITH(write_safetensors(folder.file("taken"), {}, {good}),
                    Contains("taken: can't be replaced by "));
  CHECK_FALSE(fs::exists(folder.file("taken.plangrad-partial")));
}

TEST_CASE("each floating-point type becomes float, at any address", "[safetensors]") {
  Folder folder;
  auto entry = [&](const std::string& dtype, const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    const Shape shape{static_cast<std::int64_t>(values.size())};
    // One byte before the values puts them off any alignment.
    write_safetensors(folder.file("floats"), {},
                      {{"a", "U8", {1}, [&] { return bytes.first(1); }},
                       {"w", dtype, shape, [&] { return bytes; }}});
    return tensors_of(SafetensorsFile(folder.file("floats"))).at("w");
  };
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<float> floats = to_floats(entry("F16", halves));
  REQUIRE(floats.size() == halves.size());
  std::size_t wrong = 0;
  for (int i = 0; i < 65536; ++i) {
    int exponent = (i >> 10) & 31, mantissa = i & 1023;
    double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    if (exponent == 31) magnitude = mantissa ? NAN : INFINITY;
    bool same = std::isnan(magnitude) ? std::isnan(floats[i]) : std::fabs(floats[i]) == magnitude;
    wrong += !same || std::signbit(floats[i]) != (i >= 32768);
  }
  CHECK(wrong == 0);

  const std::vector<double> doubles = {1.0 + 0x1p-25, 1.0 + 0x1.8p-24, 1e300, -0.1};
  CHECK(to_floats(entry("F64", doubles)) ==
        std::vector<float>{1.0f, 1.0f + 0x1p-23f, INFINITY, -0.1f});
  CHECK(to_floats(entry("BF16", std::vector<bf16>{1.5f, -2.0f})) ==
        std::vector<float>{1.5f, -2.0f});
  CHECK(to_floats(entry("F32", std::vector<float>{0.1f, -3.0f})) ==
        std::vector<float>{0.1f, -3.0f});
  CHECK_THROWS_WITH(to_floats(entry("I32", std::vector<int>{1})),
                    Contains("holds I32, expected F32, F64, F16 or BF16"));
}

TEST_CASE("plangrad's dtypes have their names of the format", "[safetensors]") {
  CHECK(safetensors_dtype(DType::f32) == "F32");
  CHECK(safetensors_dtype(DType::bf16) == "BF16");
  CHECK(safetensors_dtype(DType::f64) == "F64");
  CHECK(safetensors_dtype(DType::i32) == "I32");
}
