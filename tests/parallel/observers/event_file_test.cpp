// TensorBoard's files, read by a reader that shares nothing with the writer: framing, checksums bit
// by bit, and protocol buffers field by field.
#include "parallel/observers/metric_files.h"

#include <nlohmann/json.hpp>

#include "nn/checkpoint/file.h"

#include "tests/catch.h"
#include "tests/metric_lines.h"
#include "tests/small_disk.h"
#include "tests/temporary_folder.h"

using namespace plangrad::parallel;
using nlohmann::json;
using plangrad::nn::read_file, plangrad::tests::metrics_of;

namespace {

/// The remainder of a division by Castagnoli's polynomial, one bit after the other.
std::uint32_t slow_crc(const std::string& bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (unsigned char byte : bytes)
    for (int bit = 0; bit < 8; ++bit, byte >>= 1) {
      const bool odd = (crc ^ byte) & 1;
      crc >>= 1;
      if (odd) crc ^= 0x82F63B78;
    }
  return crc ^ 0xFFFFFFFF;
}

template <class T>
T number_at(const std::string& bytes, std::size_t at) {
  T value;
  REQUIRE(at + sizeof value <= bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof value);  // tests run where the lowest byte is first
  return value;
}

std::uint32_t unmasked(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xA282EAD8u;
  return rotated >> 17 | rotated << 15;
}

/// The records of a file, whose checksums must be right.
std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  for (std::size_t at = 0; at < file.size();) {
    const auto length = number_at<std::uint64_t>(file, at);
    REQUIRE(unmasked(number_at<std::uint32_t>(file, at + 8)) == slow_crc(file.substr(at, 8)));
    REQUIRE(at + 16 + length <= file.size());
    records.push_back(file.substr(at + 12, length));
    REQUIRE(unmasked(number_at<std::uint32_t>(file, at + 12 + length)) == slow_crc(records.back()));
    at += 16 + length;
  }
  return records;
}

/// A field of a protocol buffer: a number's bits, or bytes.
struct Field {
  std::uint64_t bits = 0;
  std::string bytes;
};

std::multimap<unsigned, Field> fields_of(const std::string& message) {
  std::multimap<unsigned, Field> fields;
  std::size_t at = 0;
  auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      REQUIRE(at < message.size());
      const auto byte = static_cast<unsigned char>(message[at++]);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const std::uint64_t key = varint();
    Field field;
    switch (key & 7) {
      case 0: field.bits = varint(); break;
      case 1: field.bits = number_at<std::uint64_t>(message, at), at += 8; break;
      case 5: field.bits = number_at<std::uint32_t>(message, at), at += 4; break;
      default: {
        REQUIRE((key & 7) == 2);
        const std::uint64_t size = varint();
        field.bytes = message.substr(at, size);
        at += size;
      }
    }
    fields.emplace(static_cast<unsigned>(key >> 3), field);
  }
  return fields;
}

const Field& only(const std::multimap<unsigned, Field>& fields, unsigned number) {
  REQUIRE(fields.count(number) == 1);
  return fields.find(number)->second;
}

struct ReadEvent {
  double time = 0;
  std::int64_t step = 0;
  std::map<std::string, float> values;
};

ReadEvent event_of(const std::string& record) {
  const auto fields = fields_of(record);
  ReadEvent event;
  std::memcpy(&event.time, &only(fields, 1).bits, 8);
  event.step = static_cast<std::int64_t>(only(fields, 2).bits);
  const auto values = fields_of(only(fields, 5).bytes);
  for (const auto& [number, value] : values) {
    CHECK(number == 1);
    const auto inner = fields_of(value.bytes);
    const auto bits = static_cast<std::uint32_t>(only(inner, 2).bits);
    std::memcpy(&event.values[only(inner, 1).bytes], &bits, 4);
  }
  return event;
}

std::vector<ReadEvent> events_in(const std::filesystem::path& file) {
  const std::vector<std::string> records = records_of(read_file(file));
  REQUIRE(!records.empty());
  CHECK(only(fields_of(records[0]), 3).bytes == "brain.Event:2");
  std::vector<ReadEvent> events;
  for (std::size_t i = 1; i < records.size(); ++i) events.push_back(event_of(records[i]));
  return events;
}

std::vector<std::filesystem::path> events_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    if (file.path().filename().string().find("tfevents") != std::string::npos)
      files.push_back(file.path());
  return files;
}

json update(int step, double loss) {
  return {{"step", step},    {"loss", loss},           {"learning_rate", 0.5}, {"gradient_norm", 2},
          {"seconds", 0.25}, {"tokens_per_second", 8}, {"bytes_sent", 1 << 20}};
}

}  // namespace

TEST_CASE("the checksum is CRC-32C") {
  CHECK(crc32c("123456789") == 0xE3069283);  // the value that catalogues of checksums give
  CHECK(crc32c("") == 0);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AA);  // RFC 3720, appendix B.4
  CHECK(crc32c("plangrad") == slow_crc("plangrad"));
}

TEST_CASE("events hold their times, steps and numbers") {
  plangrad::tests::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path);
  const auto path = folder.path / "events";
  EventFile file(path, 1.5);
  file.write(2.5, 300, {{"loss/training", 0.125}, {"update/gradient_norm", -1e30}});
  file.write(3.5, 1ll << 40, {{"x", 7}});
  REQUIRE(file.file().problem().empty());
  const std::vector<ReadEvent> events = events_in(path);
  REQUIRE(events.size() == 2);
  CHECK(events[0].time == 2.5);
  CHECK(events[0].step == 300);
  CHECK(events[0].values ==
        std::map<std::string, float>{{"loss/training", 0.125f}, {"update/gradient_norm", -1e30f}});
  CHECK(events[1].step == 1ll << 40);
  CHECK(events[1].values == std::map<std::string, float>{{"x", 7}});
}

TEST_CASE("events hold the command as a text, and the flags as a text and as hyperparameters") {
  plangrad::tests::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path);
  const auto path = folder.path / "events";
  EventFile file(path, 1.5);
  file.describe("train_gpt --batch 12", {{"--batch", 12}, {"--cuts", {1, 2}}});
  std::map<std::string, std::string> texts, values;
  for (const auto& [n, value] :
       fields_of(only(fields_of(records_of(read_file(path)).at(1)), 5).bytes)) {
    const auto inner = fields_of(value.bytes), tensor = fields_of(only(inner, 8).bytes);
    const auto plugin = fields_of(only(fields_of(only(inner, 9).bytes), 1).bytes);
    if (only(plugin, 1).bytes == "text") texts[only(inner, 1).bytes] = only(tensor, 8).bytes;
    if (only(plugin, 1).bytes != "hparams") continue;
    CHECK(only(inner, 1).bytes == "_hparams_/session_start_info");
    for (const auto& [m, entry] : fields_of(only(fields_of(only(plugin, 2).bytes), 3).bytes))
      values[only(fields_of(entry.bytes), 1).bytes] = only(fields_of(entry.bytes), 2).bytes;
  }
  CHECK(texts ==
        std::map<std::string, std::string>{{"command", "    train_gpt --batch 12"},
                                           {"flags", "    --batch 12\n    --cuts [1,2]\n"}});
  CHECK(only(fields_of(values.at("--batch")), 2).bits == std::bit_cast<std::uint64_t>(12.0));
  CHECK(only(fields_of(values.at("--cuts")), 3).bytes == "[1,2]");
}

TEST_CASE("metrics are the same in lines, table and events") {
  plangrad::tests::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path);
  MetricFiles files(folder.path, "tokens", [](const auto& take) { take(update(1, 4)); });
  CHECK_FALSE(files.beside_earlier());
  files.write(update(2, 3.5));
  files.write({{"step", 2}, {"bits", {{"h.0", 4}}}});  // not a number over steps
  files.write({{"step", 2}, {"validation_loss", 3.25}});
  const std::vector<json> lines = metrics_of(files.path());
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == update(1, 4));
  CHECK(read_file(folder.path / "metrics.csv") ==
        "step,loss,validation_loss,validation_accuracy,learning_rate,gradient_norm,seconds,"
        "tokens_per_second,bytes_sent\n"
        "1,4.0,,,0.5,2,0.25,8,1048576\n"
        "2,3.5,,,0.5,2,0.25,8,1048576\n"
        "2,,3.25,,,,,,\n");
  REQUIRE(events_files(folder.path).size() == 1);
  const std::vector<ReadEvent> events = events_in(events_files(folder.path)[0]);
  REQUIRE(events.size() == 3);
  CHECK(events[0].values.at("loss/training") == 4);
  CHECK(events[1].values.at("loss/training") == 3.5f);
  CHECK(events[1].values.size() == 6);
  CHECK(events[1].time >= events[0].time);
  CHECK(events[2].values == std::map<std::string, float>{{"loss/validation", 3.25f}});
}

TEST_CASE("lines that the disk has no room for are written when it has") {
  plangrad::tests::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path);
  MetricFiles files(folder.path, "tokens", {});
  files.write(update(1, 4));
  {
    const plangrad::tests::SmallDisk disk(200);
    files.write(update(2, 3.5));
    files.write(update(3, 3));
    CHECK_THAT(files.problem(), Contains("metrics.jsonl can't be written: File too large"));
    CHECK_THROWS_WITH(files.written(), Contains("metrics.jsonl can't be written"));
  }
  files.write(update(4, 2));
  CHECK(files.problem().empty());
  CHECK(files.written()["bytes"] == read_file(files.path()).size());
  const std::vector<json> lines = metrics_of(files.path());
  REQUIRE(lines.size() == 4);
  for (int i = 0; i < 4; ++i) CHECK(lines[i]["step"] == i + 1);
  CHECK(std::ranges::count(read_file(folder.path / "metrics.csv"), '\n') == 5);
  CHECK(events_in(events_files(folder.path)[0]).size() == 4);
}

TEST_CASE("an earlier run's metrics stay until they are replaced, as a whole") {
  plangrad::tests::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path);
  { MetricFiles(folder.path, "images", {}).write(update(1, 9)); }
  const auto old_events = events_files(folder.path);
  const std::string old_table = read_file(folder.path / "metrics.csv");
  MetricFiles files(folder.path, "images", {});
  CHECK(files.beside_earlier());
  files.write(update(1, 7));
  CHECK(metrics_of(folder.path / "metrics.jsonl").at(0)["loss"] == 9);
  CHECK(read_file(folder.path / "metrics.csv") == old_table);
  CHECK(events_files(folder.path) == old_events);
  files.replace_earlier();
  files.write(update(2, 6));
  CHECK(files.path() == folder.path / "metrics.jsonl");
  CHECK(metrics_of(files.path()).size() == 2);
  CHECK(metrics_of(files.path()).at(0)["loss"] == 7);
  REQUIRE(events_files(folder.path).size() == 1);
  CHECK(events_in(events_files(folder.path)[0]).size() == 2);
  CHECK_FALSE(std::filesystem::exists(folder.path / "metrics.csv.plangrad-partial"));
}

TEST_CASE("files that others change stay aside until a run replaces an earlier one's") {
  plangrad::tests::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path);
  { MetricFiles(folder.path, "images", {}).write(update(1, 9)); }
  MetricFiles files(folder.path, "images", {});
  const auto lines = folder.path / "metrics.jsonl", table = folder.path / "metrics.csv";
  std::ofstream(lines, std::ios::app) << "a note\n";
  std::ofstream(table) << "mine";
  const auto events = events_files(folder.path).at(0);
  std::ofstream(events, std::ios::app) << "mine";
  std::string told;
  std::ofstream(folder.path / "summary.json") << "mine";
  for (const auto& file : {lines, table, events, folder.path / "summary.json"})
    told += "; " + file.string() + " stays in " + name_aside(file).string();
  CHECK(files.replace_earlier() == told);
  CHECK_THAT(read_file(lines.string() + ".before-1"), EndsWith("a note\n"));
  CHECK(read_file(table.string() + ".before-1") == "mine");
  CHECK(events_files(folder.path).size() == 1);
}

TEST_CASE("a file aside has a free name, one of the same bytes, and none that TensorBoard reads") {
  plangrad::tests::TemporaryFolder folder;
  const auto file = folder.file("events.out.tfevents.7.plangrad", "mine");
  const auto aside = folder.path / "events.out.events.7.plangrad.before-1";
  CHECK(name_aside(file) == aside);
  std::filesystem::copy(file, aside);
  CHECK(name_aside(file) == aside);
  folder.file(aside.filename(), "mind");
  CHECK_THAT(name_aside(file).string(), EndsWith(".before-2"));
}
