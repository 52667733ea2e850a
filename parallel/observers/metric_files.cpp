// A resumed run copies the lines of its first updates, so each file tells of the run from its first
// update on, whatever was interrupted. TensorBoard's file is a list of records: length, its
// checksum, an Event, and its checksum. An Event is a protocol buffer: fields, each a key (number
// and kind of the field) and a value. Chapter 03.
#include "parallel/observers/metric_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

namespace plangrad::parallel {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// A number's first `size` bytes, the lowest first, whatever the machine's order is.
std::string fixed(std::uint64_t value, int size) {
  std::string bytes;
  for (; size > 0; --size, value >>= 8) bytes += static_cast<char>(value & 0xFF);
  return bytes;
}

/// A number 7 bits at a time, the lowest first; the top bit says that more follow.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  return bytes + static_cast<char>(value);
}

/// Fields of protocol buffers: a text or message, a whole number, and a real one.
std::string field(unsigned id, std::string_view bytes) {
  return varint(id << 3 | 2).append(varint(bytes.size())).append(bytes);
}
std::string int_field(unsigned id, std::uint64_t value) { return varint(id << 3) + varint(value); }
std::string real_field(unsigned id, double value) {
  return varint(id << 3 | 1) + fixed(std::bit_cast<std::uint64_t>(value), 8);
}

/// An Event without its content: wall_time is field 1, step is field 2.
std::string event_at(double time, std::int64_t step) {
  return real_field(1, time) + int_field(2, static_cast<std::uint64_t>(step));
}

/// The format stores a checksum rotated and shifted, as that of bytes with checksums is a weak one.
std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8u; }

constexpr std::string_view events_prefix = "events.out.tfevents.";

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Null if the text is no JSON.
json json_of(const std::string& text) try {
  return nn::parse_json(text);
} catch (const std::exception&) {
  return nullptr;
}

/// TensorBoard's files that a folder's run saved as its own. One that never saved wrote its lines
/// and its events at the same time. None if that is unclear: they may be another run's.
std::vector<std::string> saved_events(const fs::path& folder) try {
  const auto run = nn::read_manifest(folder / "checkpoint", nn::manifest_name).run;
  return run->at("metrics").at("events").get<std::vector<std::string>>();
} catch (const std::exception&) {
  if (!nn::manifests_of(folder / "checkpoint").empty()) return {};
  std::error_code none;
  std::vector<std::string> found;
  const auto written = fs::last_write_time(folder / "metrics.jsonl", none);
  for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
    const auto apart = std::chrono::abs(file.last_write_time(none) - written);
    if (is_event_file(file.path().filename().string()) && apart < std::chrono::seconds(1))
      found.push_back(file.path().filename().string());
  }
  return found.size() == 1 ? found : std::vector<std::string>();
}

/// The number under a key, or 0: lines of a file may be damaged.
double number_in(const json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number() ? found->get<double>() : 0;
}

}  // namespace

bool is_event_file(std::string_view name) {  // .paragrad: by the project's first name
  if (!name.starts_with(events_prefix)) return false;
  const std::size_t end = name.find_first_not_of("0123456789", events_prefix.size());
  return end < name.size() && (name.substr(end) == ".plangrad" || name.substr(end) == ".paragrad");
}

AppendedFile::AppendedFile(const fs::path& path) : file_(nn::create_file(path)) {}

void AppendedFile::write(std::string_view bytes) {
  waiting_ += bytes;
  bytes_ += std::ssize(bytes);
  checksum_ = nn::crc32_of(std::as_bytes(std::span(bytes)), checksum_);
  problem_.clear();
  while (!waiting_.empty()) {
    const ssize_t count = ::write(file_.number, waiting_.data(), waiting_.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return void(problem_ = nn::system_message());
    waiting_.erase(0, static_cast<std::size_t>(count));
  }
}

json AppendedFile::written() const {
  return {{"bytes", bytes_}, {"checksum", nn::digits_of(checksum_)}};
}

bool AppendedFile::is_at(const fs::path& path) const {
  struct stat own = {}, there = {};
  return ::fstat(file_.number, &own) == 0 && ::stat(path.c_str(), &there) == 0 &&
         own.st_dev == there.st_dev && own.st_ino == there.st_ino &&
         own.st_size == bytes_ - std::ssize(waiting_);
}

std::uint32_t crc32c(std::string_view bytes) {
  constexpr std::uint32_t polynomial = 0x82F63B78;  // Castagnoli's, lowest bit first
  std::uint32_t crc = ~0u;
  for (char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
  }
  return ~crc;
}

EventFile::EventFile(const std::filesystem::path& path, double time) : file_(path) {
  write_record(event_at(time, 0) + field(3, "brain.Event:2"));  // file_version
}

void EventFile::write(double time, std::int64_t step,
                      const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;
  for (const auto& [tag, number] : values) {  // tag is field 1, simple_value is field 2, 32 bits
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(number));
    summary += field(1, field(1, tag) + varint(2 << 3 | 5) + fixed(bits, 4));
  }
  write_record(event_at(time, step) + field(5, summary));
}

void EventFile::describe(const std::string& command, const json& flags) {
  std::string lines, parameters, summary;
  for (const auto& [name, value] : flags.items()) {  // a Value: a number is field 2, a text field 3
    const std::string word = value.is_string() ? value.get<std::string>() : value.dump();
    lines += "    " + name + ' ' + word + '\n';
    const std::string content = value.is_number() ? real_field(2, value) : field(3, word);
    parameters += field(1, field(1, name) + field(2, content));
  }
  const auto add = [&](const char* tag, const std::string& tensor, const std::string& plugin) {
    summary += field(1, field(1, tag) + field(8, tensor) + field(9, field(1, plugin)));
  };
  add("command", int_field(1, 7) + field(8, "    " + command), field(1, "text"));
  add("flags", int_field(1, 7) + field(8, lines), field(1, "text"));  // indented: shown as code
  add("_hparams_/session_start_info", int_field(1, 1),
      field(1, "hparams") + field(2, field(3, parameters)));
  write_record(event_at(seconds_since_1970(), 0) + field(5, summary));
}

void EventFile::write_record(const std::string& event) {
  const std::string length = fixed(event.size(), 8);
  file_.write(length + fixed(masked(crc32c(length)), 4) + event + fixed(masked(crc32c(event)), 4));
}

json line_of(const HeardUpdate& update, std::int64_t units, const std::string& unit) {
  return {{"step", update.version},
          {"loss", update.loss},
          {"learning_rate", update.learning_rate},
          {"gradient_norm", update.gradient_norm},
          {"seconds", update.seconds},
          {unit + "_per_second", static_cast<double>(units) / update.seconds},
          {"bytes_sent", update.bytes_sent}};
}

MetricFiles::MetricFiles(fs::path folder, const std::string& unit, const MetricLines& earlier,
                         const TakeLine& hears)
    : folder_(std::move(folder)),
      own_(folder_),
      columns_{{"step", ""},
               {"loss", "loss/training"},
               {"validation_loss", "loss/validation"},
               {"validation_accuracy", "accuracy/validation"},
               {"learning_rate", "update/learning_rate"},
               {"gradient_norm", "update/gradient_norm"},
               {"seconds", "speed/seconds_per_update"},
               {unit + "_per_second", "speed/" + unit + "_per_second"},
               {"bytes_sent", "messages/bytes_sent"}} {
  double ago = 0;  // when an earlier update was made: as long ago as the later ones took
  if (earlier) earlier([&](const json& x) { ago += number_in(x, "seconds"), hears(x); });
  if (fs::exists(path())) own_events_ = saved_events(folder_);  // which lines give anew
  if (fs::exists(path()) || fs::exists(folder_ / "metrics.csv")) suffix_ = nn::partial;
  const double now = seconds_since_1970();
  auto begun = static_cast<std::int64_t>(now);
  while (fs::exists(folder_ / autograd::text(events_prefix, begun, ".plangrad"))) ++begun;
  own_events_.push_back(autograd::text(events_prefix, begun, ".plangrad"));
  lines_.emplace(path());
  table_.emplace(folder_ / ("metrics.csv" + suffix_));
  events_.emplace(folder_ / (suffix_.empty() ? own_events_.back() : "events" + suffix_), now);
  std::string header;
  for (const auto& [key, tag] : columns_) header += (header.empty() ? "" : ",") + key;
  table_->write(header + '\n');
  if (earlier) earlier([&](const json& x) { write_at(now - (ago -= number_in(x, "seconds")), x); });
}

std::array<std::pair<std::string, const AppendedFile*>, 3> MetricFiles::files() const {
  return {{{"metrics.jsonl" + suffix_, &*lines_},
           {"metrics.csv" + suffix_, &*table_},
           {suffix_.empty() ? own_events_.back() : "events" + suffix_, &events_->file()}}};
}

std::string MetricFiles::problem() const {
  for (const auto& [name, file] : files())
    if (const std::string& why = file->problem(); !why.empty())
      return autograd::text((folder_ / name).string(), " can't be written: ", why);
  return "";
}

std::string MetricFiles::move_changed_aside(MetricLines& left) const {
  const auto is_there = [&](const auto& each) { return each.second->is_at(folder_ / each.first); };
  if (!problem().empty() || std::ranges::all_of(files(), is_there)) return "";
  const std::string lines = lines_->own_name();
  left = [lines](const TakeLine& take) {
    try {
      read_metrics(lines, take);
    } catch (const Error&) {  // others have put something else there
    }
  };
  const bool is_whole = begins_as(lines, lines_->written());
  std::string told = "others have moved or changed the metrics";
  for (const auto& each : files())
    if (!is_whole || !is_there(each)) told += OwnFiles().make_way(folder_ / each.first);
  if (is_whole) std::ofstream(path(), std::ios::app);  // beside which new ones replace the events
  return told + "; the run goes on, and writes them anew" +
         (is_whole ? "" : " from the lines that are left; some may be missing");
}

void MetricFiles::write(const json& line) { write_at(seconds_since_1970(), line); }

void MetricFiles::write_at(double time, const json& line) {
  lines_->write(line.dump() + '\n');
  std::string row;
  std::vector<std::pair<std::string, double>> values;
  for (const auto& [key, tag] : columns_) {
    if (key != "step") row += ',';
    const auto found = line.find(key);
    if (found == line.end() || !found->is_number()) continue;
    row += found->dump();
    if (!tag.empty()) values.emplace_back(tag, found->get<double>());
  }
  if (!values.empty()) {
    table_->write(row + '\n');
    events_->write(time, line.at("step"), values);
  }
}

std::string MetricFiles::replace_earlier() {
  std::string told;
  if (suffix_.empty()) return told;
  auto move = [&](const std::string& from, const std::string& to) {
    if (!fs::exists(folder_ / from)) return;  // a try before this one has moved it
    told += own_.make_way(folder_ / to);
    std::error_code problem;
    fs::rename(folder_ / from, folder_ / to, problem);  // the open file moves along
    PG_CHECK(!problem, "can't replace ", (folder_ / to).string(), ": ", problem.message(), told);
  };
  move("metrics.jsonl" + suffix_, "metrics.jsonl");
  move("metrics.csv" + suffix_, "metrics.csv");
  std::error_code ignored;
  for (const std::string& name : own_events_)
    if (is_event_file(name))
      told += own_.make_way(folder_ / name), fs::remove(folder_ / name, ignored);
  own_events_ = {own_events_.back()};
  move("events" + suffix_, own_events_.back());
  told += own_.make_way(folder_ / "summary.json");  // which RunLog removes
  suffix_.clear();
  nn::sync_to_disk(folder_);
  return told;
}

json MetricFiles::written() {
  lines_->write("");
  table_->write("");
  PG_CHECK(lines_->problem().empty(), problem());
  json all = lines_->written();
  all.update({{"table", table_->written()}, {"events", own_events_}});
  return all;
}

json MetricFiles::files_written() const {
  json all;
  for (const auto& [name, file] : files()) all[name] = file->written();
  return all;
}

MetricLines earlier_metrics(const fs::path& folder, int steps, const json& written,
                            std::string& problem) {
  fs::path path = folder / "metrics.jsonl";
  const fs::path beside = folder / autograd::text("metrics.jsonl", nn::partial);
  if (!written.is_null() && !begins_as(path, written)) {
    if (!begins_as(beside, written)) {
      problem = autograd::text(path.string(), " is not as the run wrote it until update ", steps,
                               "; lines of its updates may be missing, or another run's");
      if (!fs::exists(path))
        problem = autograd::text("there is no ", path.string(), " with lines until update ", steps);
    } else
      path = beside;
  }
  return [path, steps](const TakeLine& take) {
    bool reached = false;  // update `steps`: a later line about an earlier one is another program's
    read_metrics(path, [&](const json& line) {
      reached = reached || line["step"] == steps;
      if (reached ? line["step"] == steps : line["step"] < steps) take(line);
    });
  };
}

json json_in(const std::filesystem::path& path) {
  return std::filesystem::exists(path) ? json_of(nn::read_file(path)) : json();
}

void read_metrics(const fs::path& path, const TakeLine& take) {
  constexpr std::size_t longest = 4 << 20;  // bytes; a line with the bits of layers has most
  constexpr int most_others = 1000;         // lines without a step; a run that is killed leaves one
  if (!fs::exists(path)) return;
  nn::check_regular(path);
  std::ifstream file(path);
  int others = 0;
  std::vector<char> line(std::min<std::size_t>(longest, fs::file_size(path) + 2));
  while (file.getline(line.data(), std::ssize(line))) {
    const json entry = json_of(line.data());
    if (entry.is_object() && entry.contains("step") && entry["step"].is_number_integer())
      take(entry);
    else
      PG_CHECK(++others <= most_others, path.string(), " is no metrics.jsonl of a run: more than ",
               most_others, " of its lines tell of no step");
  }
  PG_CHECK(file.eof() || line.size() < longest, path.string(),
           " is no metrics.jsonl of a run: a line has more than ", longest, " bytes");
}

}  // namespace plangrad::parallel
