// Text data: windows and targets, cuts of a batch, validation, token files, and their errors.
// Not here: encoding (vocabulary_test.cpp, byte_pair_test.cpp).
#include "nn/data/text_data.h"

#include <sys/resource.h>

#include <numeric>
#include <set>

#include "nn/checkpoint/file.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/temporary_folder.h"

using namespace plangrad::nn;
using plangrad::tests::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

/// Tokens 0, 1, 2, ..., so that a window shows where it lies.
TokenData counting(int count, int vocabulary_size) {
  std::vector<std::int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0);
  return TokenData("the data", tokens, vocabulary_size);
}

std::string text_of(const TextData& data, const TokenData& part) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < part.size(); ++i) tokens.push_back(part[i]);
  return data.vocabulary->decode(tokens);
}

}  // namespace

TEST_CASE("text data: targets are the inputs one token later") {
  Batch batch = counting(1000, 1000).batch(7, 3, 0, 5, 16);
  REQUIRE(batch.inputs.size() == 5 * 16);
  REQUIRE(batch.targets.size() == 5 * 16);
  for (int i = 0; i < 5 * 16; ++i) {
    CHECK(batch.inputs[i] == batch.inputs[i / 16 * 16] + i % 16);
    CHECK(batch.targets[i] == batch.inputs[i] + 1);
  }
}

TEST_CASE("text data: windows start everywhere, from the first token to the last that fits") {
  auto data = counting(10, 10);
  std::set<std::int32_t> starts;
  for (int step = 0; step < 100; ++step) starts.insert(data.batch(1, step, 0, 1, 7).inputs[0]);
  CHECK(starts == std::set<std::int32_t>{0, 1, 2});
  CHECK(counting(8, 8).batch(1, 0, 0, 1, 7).targets.back() == 7);
}

TEST_CASE("text data: a batch depends on seed and step, and can be cut") {
  auto data = counting(5000, 5000);
  auto whole = data.batch(1, 42, 0, 12, 8).inputs;
  CHECK(data.batch(1, 42, 0, 12, 8).inputs == whole);
  CHECK(data.batch(1, 43, 0, 12, 8).inputs != whole);
  CHECK(data.batch(2, 42, 0, 12, 8).inputs != whole);

  std::vector<std::int32_t> joined;
  for (int rank = 0; rank < 3; ++rank) {
    auto part = data.batch(1, 42, rank * 4, rank * 4 + 4, 8).inputs;
    joined.insert(joined.end(), part.begin(), part.end());
  }
  CHECK(joined == whole);
}

TEST_CASE("text data: the order is the same on every machine") {
  auto batch = counting(5000, 5000).batch(1337, 0, 0, 4, 1);
  CHECK(batch.inputs == std::vector<std::int32_t>{1097, 670, 1185, 4054});
}

TEST_CASE("text data: evaluation windows cover the data end to end") {
  auto data = counting(26, 26);
  REQUIRE(data.evaluation_windows(5) == 5);
  std::vector<std::int32_t> targets;
  for (int first = 0; first < 5; first += 2) {
    auto batch = data.evaluation_batch(first, std::min(first + 2, 5), 5);
    targets.insert(targets.end(), batch.targets.begin(), batch.targets.end());
  }
  REQUIRE(targets.size() == 25);
  for (int i = 0; i < 25; ++i) CHECK(targets[i] == i + 1);
  CHECK(counting(25, 25).evaluation_windows(5) == 4);
  CHECK_THROWS_WITH(data.evaluation_batch(0, 6, 5), Contains("only 5"));
}

TEST_CASE("text data: the last tenth is validation") {
  TemporaryFolder folder;
  auto data = load_text_data(folder.file("a.txt", "abcdefghijabcdefghiX"), "", "chars");
  CHECK(data.vocabulary->size() == 11);
  CHECK(text_of(data, data.training) == "abcdefghijabcdefgh");
  CHECK(text_of(data, data.validation) == "iX");
}

TEST_CASE("text data: a validation file is used whole, and its characters are known") {
  TemporaryFolder folder;
  auto data = load_text_data(folder.file("a.txt", "aab"), folder.file("b.txt", "xyz"), "chars");
  CHECK(text_of(data, data.training) == "aab");
  CHECK(text_of(data, data.validation) == "xyz");
  CHECK(data.training.vocabulary_size() == 5);
}

TEST_CASE("text data: nanoGPT's token files are little-endian uint16") {
  TemporaryFolder folder;
  auto train = folder.file("train.bin", std::string("\x01\x00\x00\x01\xff\x00", 6));
  auto validation = folder.file("val.bin", std::string("\x00\x02", 2));
  auto data = load_text_data(train, validation, "");
  CHECK(data.vocabulary == nullptr);
  CHECK(data.training.size() == 3);
  CHECK(data.training[1] == 256);
  CHECK(data.validation[0] == 512);
  CHECK(data.training.vocabulary_size() == 513);

  CHECK_THROWS_WITH(load_text_data(train, validation, "bytes"),
                    Contains("token 256 at position 1, outside the vocabulary of 256"));
  CHECK_THROWS_WITH(load_text_data(train, validation, "chars"),
                    Contains("token ids, not characters"));
  CHECK_THROWS_WITH(load_text_data(folder.file("odd.bin", "abc"), "", ""),
                    Contains("odd number of bytes, 3"));
  CHECK_THROWS_WITH(load_text_data(train, folder.file("v.txt", "abc"), ""),
                    Contains("of different kinds"));
}

namespace {

std::string word(std::uint32_t number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

std::string half(std::uint32_t number) { return word(number).substr(0, 2); }

/// A file of llm.c: 256 words, of which the first three say what follows, and ids of 2 bytes.
std::string llmc_file(std::uint32_t kind, std::uint32_t count, const std::string& ids,
                      std::uint32_t version = 1) {
  return word(kind) + word(version) + word(count) + std::string(1012, '\0') + ids;
}

}  // namespace

TEST_CASE("text data: llm.c's token files are read behind their header, others are named") {
  TemporaryFolder folder;
  const std::string ids("\x01\x00\x00\x01\xff\x00", 6);
  auto load = [&](const std::string& bytes) {
    return load_text_data(folder.file("a.bin", bytes), folder.file("b.bin", ids), "");
  };
  const TextData data = load(llmc_file(20240520, 3, ids));
  CHECK(data.training.size() == 3);
  CHECK(data.training[1] == 256);
  CHECK(data.training.vocabulary_size() == 257);
  CHECK_THROWS_WITH(load(llmc_file(20240520, 4, ids)), Contains("which says 4 tokens of 2 bytes"));
  CHECK_THROWS_WITH(load(llmc_file(20240520, 3, ids).substr(0, 1000)),
                    Contains("cut short: expected llm.c's header of 1024 bytes, found 1000"));
  CHECK_THROWS_WITH(load(llmc_file(20240520, 3, ids, 2)), Contains("version 2, expected 1"));
  CHECK_THROWS_WITH(load(llmc_file(__builtin_bswap32(20240520), 3, ids)), Contains("big-endian"));
  for (const std::uint32_t kind : {20240801u, 20240326u, 20240328u})
    CHECK_THROWS_WITH(load(llmc_file(kind, 3, ids)),
                      Contains(text("of the kind ", kind, "; only 20240520 has ids of 2 bytes")));
}

TEST_CASE("text data: .bin files of other kinds are refused where it can be told") {
  TemporaryFolder folder;
  auto refused = [&](const std::string& bytes, const std::string& why) {
    CHECK_THROWS_WITH(load_text_data(folder.file("a.bin", bytes), "", ""), Contains(why));
  };
  refused(word(20) + word(0) + R"({"a":{"dtype":"U8"}})", "is a safetensors file");
  refused("PK\x03\x04 and more", "is a zip archive: unpack it; if torch.save wrote");
  refused("\x93NUMPY and more", "is an array of numpy.save");
  refused("<!DOCTYPE html>", "is a web page");
  refused(word(2) + word(16) + word(18) + word(20) + "abcd", "samples behind a table of places");
  std::string text;
  while (text.size() < 1000) text += "To be, or not to be: é ";
  refused(text, "is text");
  std::string little, big, chinese, table;  // UTF-16 without a mark
  for (int i = 0; i < 100; ++i) {
    little += half("Who's there? \n"[i % 14]);
    big += std::string{'\0', "Who's there? \n"[i % 14]};
    chinese += half(i % 20 ? 0x4e00 + i : 0x3002);
    table += half("3.14\t2.71\r\n"[i % 11]);
  }
  for (const std::string& utf16 : {little, chinese, table})
    refused(utf16, "looks like text of UTF-16: run iconv -f UTF-16LE -t UTF-8; a .bin");
  refused(big, "looks like text of UTF-16: run iconv -f UTF-16BE -t UTF-8; a .bin");
  std::string wide, small, four, eight;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    wide += word(i * 7919 % 100'000);
    small += std::string{static_cast<char>(i * 31 % 65), '\0'};
    four += word(i * 31 % 58);
    eight += word(i * 31 % 58) + word(0);
  }
  for (const std::string& ids :
       {wide, four, eight, four.substr(0, 160), eight.substr(0, 320), four.substr(0, 36)})
    refused(ids, "looks like token ids of 4 or 8 bytes");
  std::string three, swapped, letters, floats, doubles, utf16 = "\xff\xfe", ids;
  std::string halves, brains, bytes;
  for (std::uint32_t i = 0; i < 30'000; ++i) {
    std::uint32_t id = i * 7919 % 65'521;
    for (int twice = 0; twice < 2; ++twice) id = id * id >> 16;  // small ones are most
    three += word(id * 2 % 100'000).substr(0, 3);
    swapped += {static_cast<char>(id >> 8), static_cast<char>(id)};
    letters += {'\0', static_cast<char>(i * 31 % 65)};
    const float value = 0.02f * std::sin(static_cast<float>(i));
    floats += word(std::bit_cast<std::uint32_t>(value));
    doubles.append(std::bit_cast<std::array<char, 8>>(value / 3.0).data(), 8);
    halves += half(0x2000 + id % 0x800 + (i % 2 << 15));
    brains += floats.substr(floats.size() - 2);
    bytes += static_cast<char>(i * i / 7 % 61 * (i % 3));
    utf16 += {static_cast<char>('a' + id % 26), '\0'};
    ids += half(id);
  }
  refused(three, "looks like token ids of 3 bytes");
  refused(swapped, "looks like big-endian token ids");
  refused(letters, "looks like big-endian token ids");
  refused(floats, "looks like values of float32 or bfloat16; a .bin file holds token ids");
  refused(floats, "If it does, begin it with llm.c's header");
  refused(doubles, "looks like values of float64");
  refused(halves, "looks like values of float16");
  refused(brains, "or bfloat16");
  refused(bytes, "looks like values of 1 byte: write token ids as uint16");
  refused(utf16, "is text of UTF-16");
  refused(word(0xfeff) + four.substr(0, 160), "is text of UTF-32");
  for (const char byte : {'\0', '\xff'}) refused(std::string(128, byte), "the same id everywhere");
  refused(std::string(257, 'x') + "ustar  " + ids, "a tar archive");
  for (const auto& [start, what] : {std::pair("\x28\xb5\x2f\xfd", "packed by zstd"),
                                    {"\xfd\x37zXZ", "packed by xz"},
                                    {"BZh91AY&SY", "packed by bzip2"},
                                    {"\x1f\x8b\x08", "packed by gzip"},
                                    {"\x80\5\x95", "a pickle"},
                                    {"PAR1", "a table of Parquet"},
                                    {"ARROW1", "a table of Arrow"},
                                    {"SQLite format 3", "a database of SQLite"},
                                    {"\x89HDF\r\n\x1a\n", "a file of HDF5"},
                                    {"\x89PNG\r\n\x1a\n", "a picture"},
                                    {"\x7f\x45LF", "a program"},
                                    {"MMIDIDX", "an index of Megatron"},
                                    {"lmgg", "a GGML file of llama.cpp"},
                                    {"LITPKDS", "a PackedDataset of Lit-GPT"}})
    for (const char* name : {"a.bin", "a.txt"})
      CHECK_THROWS_WITH(load_text_data(folder.file(name, start + ids), "", "bytes"),
                        Contains(what));
  for (const std::uint32_t vocabulary : {50'257u, 128'256u, 151'643u, 256'000u}) {
    std::string large, big_endian;
    for (std::uint32_t i = 0; i < 3000; ++i) {
      large += word(i * 2'654'435'761u % vocabulary);
      big_endian += word(__builtin_bswap32(i * 2'654'435'761u % vocabulary));
    }
    refused(large, "looks like token ids of 4 or 8 bytes");
    refused(big_endian, "looks like big-endian token ids of 4 or 8 bytes");
  }
  // Ids that begin as a pickle or gzip might, and such as use all values alike, are read.
  // So are padded ids, ids of few symbols, words with tags, and ids like floats of one sign.
  std::string evenly, padded, bits, symbols, raw, few[3], tagged, codes, pairs, zeros, marked;
  for (std::uint32_t i = 0; i < 30'000; ++i) {
    const std::uint32_t random = i * 2'654'435'761u >> 16, rare = random % 100 < 93 ? 0 : 1;
    evenly += half(i * 40'503 % 65'536);
    padded += half(rare * (1 + random / 100 % 299));
    bits += half(rare);
    symbols += half(random * random / 7 % 65);
    raw += half(random % 256);
    for (const int part : {0, 1, 2})
      few[part] += half(i % (256u << part) < 60 ? random % 50'257 : 50'256);
    tagged += half(random * random / 65'536) + half(random % 4);
    codes += half(16'384 + random % 2'048);
    pairs += half(i % 2 * 5);
    zeros += half(i % 2 * (random % 200));
    marked += half(i % 2 ? random / 7 % 2 : random % 50'257);
  }
  for (const std::string& good :
       {ids, "\x80\2" + ids, "\x1f\x8b" + ids, "\xff\xfe" + ids, evenly, padded, bits, symbols, raw,
        few[0], few[1], few[2], tagged, codes, pairs, pairs.substr(2), zeros, marked})
    CHECK(load_text_data(folder.file("ids.bin", good), "", "").training.size() >= 26'999);
  CHECK(load_text_data(folder.file("small.bin", small), "", "").training.size() == 900);
  std::string stops;  // id 304, a common one, is a full stop with its bytes swapped
  for (std::uint32_t i = 0; i < 200; ++i)
    stops += half(i % 20 ? i * 7919 % 100 << 8 | (0x21 + i * 31 % 200) : 304);
  CHECK(load_text_data(folder.file("stops.bin", stops), "", "").training.size() == 180);
}

TEST_CASE("text data: what is no text is refused, though text may begin as a binary file does") {
  TemporaryFolder folder;
  const std::string zeros("a\0b\0", 4);
  const fs::path good = folder.file("good.txt", "good");
  for (const auto& [bytes, why] :
       {std::pair("\x1f\x8b\x08" + zeros, "is packed by gzip"),
        {"\xff\xfe\x2d\x4e", "is text of UTF-16: convert it to UTF-8 by iconv -f UTF-16 "},
        {word(0xfeff) + word('a'), "is text of UTF-32: convert it to UTF-8 by iconv -f UTF-32 "},
        {word(0xfffe0000) + word('a' << 24), "is text of UTF-32"},
        {"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "is a PDF: write its text to a file"},
        {zeros,
         "has bytes of value 0: name token ids of 2 bytes .bin; if it is text of UTF-16 without "
         "a mark, run iconv -f UTF-16LE -t UTF-8 (or UTF-16BE); else convert it"}}) {
    const fs::path bad = folder.file("bad.txt", bytes);
    for (const fs::path& data : {good, bad})
      CHECK_THROWS_WITH(load_text_data(data, bad, "chars"), Contains(text("bad.txt ", why)));
  }
  for (const std::string& any : {zeros, std::string("PAR1 "), std::string("{\"error\": 0}")})
    CHECK(load_text_data(folder.file("a.txt", any), good, "bytes").training.size() > 0);
  const std::string restricted = "Access to model a/b is restricted";
  for (const std::string& page :
       {std::string("<!DOCTYPE html>"), std::string("<html>\xe9"), restricted,
        std::string("\xef\xbb\xbf\r\n<HTML lang=\"en\">"), std::string("{\"error\": \"none\"}"),
        std::string("{\n \"message\":\"Not Found\"}"), std::string("{\"detail\":\"Not Found\"}"),
        "<!-- " + restricted + " -->\n<!---->" + std::string(300, ' ') + "<Html>",
        std::string("<head>"), std::string("<body>"), std::string("<title>Just a moment"),
        std::string("<meta charset"), std::string("<script>"), std::string("<center><h1>403"),
        std::string("<Error><Code>NoSuchKey")}) {
    for (const char* name : {"page", "page.txt", "p.txt?raw=true", "p.txt.1", "P.TXT", "p.text",
                             "corpus v1.2", "p.csv"})
      CHECK_THROWS_WITH(load_text_data(good, folder.file(name, page), "bytes"),
                        Contains(text(name, " is a web page or a server's error")) &&
                            Contains("download it again") &&
                            Contains("end its name in .html, .htm, .xml, .json, .jsonl or .md"));
    for (const char* name : {"page.html", "page.JSON", "a.htm", "a.xml", "a.jsonl", "README.md"})
      CHECK(load_text_data(good, folder.file(name, page), "bytes").validation.size() > 0);
  }
  for (const char* any : {"<!-- a note --> Once", "<!-- a note", "Access to models"})
    CHECK(load_text_data(folder.file("a.txt", any), good, "bytes").training.size() > 0);
}

TEST_CASE("text data: ids take two bytes where the vocabulary allows") {
  const std::vector<std::int32_t> tokens{1, 65'535, 7};
  TokenData narrow("data", tokens, 65'536), wide("data", tokens, 65'537);
  CHECK(narrow.checksum() == wide.checksum());
  for (TokenData* data : {&narrow, &wide}) {
    CHECK(data->largest() == 65'535);
    const TokenData rest = data->split(1, "rest");
    CHECK(data->size() == 1);
    CHECK(rest.size() == 2);
    CHECK(rest[0] == 65'535);
    CHECK(rest[1] == 7);
  }
}

TEST_CASE("text data: a large text takes few times its size") {
  TemporaryFolder folder;
  std::string text;
  while (text.size() < (64 << 20)) text += "What is past is prologue.\n";
  const fs::path file = folder.file("large.txt", text);
  const auto bytes = static_cast<std::int64_t>(text.size());
  for (const char* vocabulary : {"chars", "bytes"}) {
    text = {};
    rusage before = {}, after = {};
    ::getrusage(RUSAGE_SELF, &before);
    const TextData data = load_text_data(file, "", vocabulary);
    ::getrusage(RUSAGE_SELF, &after);
    CHECK(data.training.size() + data.validation.size() == bytes);
    // A sanitizer keeps freed memory.
    if (!plangrad::tests::sanitized) CHECK((after.ru_maxrss - before.ru_maxrss) * 1024 < 6 * bytes);
  }
}

TEST_CASE("text data: files that can't be used are named") {
  TemporaryFolder folder;
  CHECK_THROWS_WITH(load_text_data(folder.path / "none.txt", "", "chars"),
                    Contains("no file") && Contains("none.txt"));
  CHECK_THROWS_WITH(load_text_data(folder.file("empty.txt", ""), "", "chars"),
                    Contains("empty.txt is empty"));
  CHECK_THROWS_WITH(load_text_data(folder.path, "", "chars"), Contains("is a folder"));
  auto good = folder.file("good.txt", "good");
  CHECK_THROWS_WITH(load_text_data(good, folder.file("bad.txt", "ab\xff"), "chars"),
                    Contains("bad.txt is not valid UTF-8 at byte 2"));
  const auto of = [&](const std::string& tokenizer, const fs::path& data) {
    return [&, path = folder.file("tokenizer.json", tokenizer)] { load_text_data(data, "", path); };
  };
  const std::string other = R"({"model": {"type": "Unigram"}})", known = "knows BPE and WordLevel";
  CHECK_THROWS_WITH(of(other, good)(), Contains(known + ". Instead of a text, train on its ids"));
  CHECK_THROWS_WITH(of(other, folder.file("ids.bin", "abcd"))(), EndsWith(known));
  CHECK_THROWS_WITH(of("{", good)(), EndsWith("it is no JSON, or not of its kind's form"));
  CHECK_THROWS_WITH(of("<html>", good)(), EndsWith("where the site asks for it"));
  CHECK_THROWS_WITH(of("", good)(), EndsWith("is empty: give a file with content"));
  for (const auto& [bytes, why] : {std::pair("<html>", " is a web page"), {"", " is empty"}})
    CHECK_THROWS_WITH(load_text_data(good, "", folder.file("vocab.txt", bytes)),
                      Contains(text("vocab.txt", why)));
  CHECK(load_text_data(folder.file("bad.txt", "ab\xff"), "", "bytes").training.size() == 2);
}

TEST_CASE("text data: too little text for a window is an error, with the remedy") {
  auto data = counting(64, 64);
  CHECK(data.batch(1, 0, 0, 1, 63).inputs.size() == 63);
  CHECK_THROWS_WITH(data.batch(1, 0, 0, 1, 64), Contains("has 64 tokens, a context of 64 needs at "
                                                         "least 65: give more text"));
  TemporaryFolder folder;
  const fs::path error = folder.file("p.txt", "404 page not found\n");
  const TextData halves = load_text_data(error, "", "chars");
  for (const TokenData* part : {&halves.training, &halves.validation})
    CHECK_THROWS_WITH(part->evaluation_windows(64),
                      Contains("p.txt (its whole content is: 404 page not found)"));
  CHECK_THROWS_WITH(data.evaluation_windows(64), Contains("needs at least 65"));
  CHECK_THROWS_WITH(data.batch(1, 0, 0, 1, 0), Contains("context of 0"));
  CHECK_THROWS_WITH(TokenData("data", std::vector<std::int32_t>{0, -1}, 5), Contains("token -1"));
}

TEST_CASE("files: a write that fails leaves the earlier file") {
  TemporaryFolder folder;
  auto file = folder.file("a", "first");
  fs::create_directory(folder.path / "a.plangrad-partial");  // in the way of the new content
  CHECK_THROWS_WITH(write_file(file, "second"), Contains("can't write"));
  CHECK(read_file(file) == "first");
}
