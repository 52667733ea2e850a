// MetricFiles: the numbers of a run's updates and validations in three forms: metrics.jsonl, a line
// of JSON each; metrics.csv, a table; events.out.tfevents.*, for TensorBoard (EventFile).
// AppendedFile: a file that grows while a run goes on, also if the disk is full for a while.
// Not here: where the numbers come from (run_log.h), and a reader of TensorBoard's files.
// Chapter 03; TensorFlow's TFRecord framing, and its protocol buffers Event and Summary.
#pragma once

#include "parallel/observers/own_files.h"
#include "parallel/session/observer.h"

namespace plangrad::parallel {

class AppendedFile {
 public:
  /// Begins a new file, in the place of a file or link of this name.
  /// throws: Error if it can't be created
  explicit AppendedFile(const std::filesystem::path& path);

  /// Appends bytes, which the system has on return. What the disk has no room for stays in memory,
  /// and is written before the bytes of the next call.
  void write(std::string_view bytes);
  /// Why the last bytes are not in the file yet; empty: all of them are.
  const std::string& problem() const { return problem_; }
  /// The number of all bytes so far, and their checksum: begins_as() compares a file with them.
  nlohmann::json written() const;
  /// Whether this is the file of a name, with the size that it was written with.
  bool is_at(const std::filesystem::path& path) const;
  /// A name by which this process reads the file, whatever others make of its own.
  std::string own_name() const { return autograd::text("/proc/self/fd/", file_.number); }

 private:
  nn::Descriptor file_;
  std::string waiting_, problem_;
  std::int64_t bytes_ = 0;
  std::uint32_t checksum_ = 0;
};

/// The checksum CRC-32C (Castagnoli) of these bytes.
std::uint32_t crc32c(std::string_view bytes);

/// Whether a run of plangrad gives a file for TensorBoard such a name.
bool is_event_file(std::string_view name);

class EventFile {
 public:
  /// Begins a new file. throws: Error if it can't be created
  explicit EventFile(const std::filesystem::path& path, double time);

  /// Writes numbers by their tags. Tags that begin alike up to a slash share a heading.
  ///   time: seconds since 1970
  void write(double time, std::int64_t step,
             const std::vector<std::pair<std::string, double>>& values);
  /// Writes texts, "command" and "flags", and the flags as a run's hyperparameters.
  void describe(const std::string& command, const nlohmann::json& flags);
  const AppendedFile& file() const { return file_; }

 private:
  void write_record(const std::string& event);

  AppendedFile file_;
};

/// The line of metrics.jsonl about an update; `unit`: tokens or images, of which it has `units`.
nlohmann::json line_of(const HeardUpdate& update, std::int64_t units, const std::string& unit);

/// Hands over lines of metrics one at a time, all of them with each call: those of a file may be
/// millions, and gigabytes as JSON. An empty function: there are none.
using TakeLine = std::function<void(const nlohmann::json& line)>;
using MetricLines = std::function<void(const TakeLine& take)>;

/// The system has each line at once, so a crash loses none. Lines that the disk has no room for are
/// kept, and written as soon as it has. An earlier run's files in the folder belong to its
/// checkpoint and stay as long as that does: until replace_earlier(), this run's lines go to files
/// beside them, whose names end as nn::partial says.
class MetricFiles {
 public:
  /// `unit`: that of rates; `earlier`: lines of the run that is resumed. They come first, and
  /// `hears` gets them, too: to read millions once more takes seconds.
  /// throws: Error if a file can't be created, or the lines can't be read
  MetricFiles(
      std::filesystem::path folder, const std::string& unit, const MetricLines& earlier,
      const TakeLine& hears = [](const nlohmann::json&) {});

  EventFile& events() { return *events_; }  ///< of TensorBoard
  /// Writes a line about a step. The table and TensorBoard get those of its values that are numbers
  /// over steps.
  void write(const nlohmann::json& line);
  /// Whether the folder has the files of an earlier run, beside these.
  bool beside_earlier() const { return !suffix_.empty(); }
  /// Which file lacks lines, and why; empty: none does.
  std::string problem() const;
  /// Replaces the earlier run's files. Returns what to tell of those that others have changed since
  /// these were begun, which stay aside.
  std::string replace_earlier();
  /// The lengths and checksums of metrics.jsonl and, under "table", of metrics.csv, and the names
  /// of the events' files. A checkpoint holds them, and is committed once the lines are on disk.
  /// throws: Error if they can't be written
  nlohmann::json written();
  /// The lengths and checksums of all files, by their names.
  nlohmann::json files_written() const;
  /// Moves files that others have changed, or put in the place of these, to names aside. Returns
  /// what to tell; empty: all are as they were written. Else others have to be made, as long as
  /// this object lives, from the lines that are `left`.
  std::string move_changed_aside(MetricLines& left) const;
  /// Takes the files that others noted for the run's own, in place of those that are here now.
  void knows_as(const MetricFiles& others) { own_ = others.own_; }
  /// The file that holds the lines of metrics.jsonl now.
  std::filesystem::path path() const { return folder_ / ("metrics.jsonl" + suffix_); }

 private:
  void write_at(double time, const nlohmann::json& line);
  std::array<std::pair<std::string, const AppendedFile*>, 3> files() const;  // by their names

  std::filesystem::path folder_;
  OwnFiles own_;
  std::string suffix_;  // nn::partial beside the files of an earlier run
  /// Numbers over steps: the key in a line, and the tag in TensorBoard, none for the step itself.
  std::vector<std::pair<std::string, std::string>> columns_;
  std::vector<std::string> own_events_;  // TensorBoard's files of this run; the last is open
  std::optional<AppendedFile> lines_, table_;
  std::optional<EventFile> events_;
};

/// The lines about a run's first `steps` updates in a folder from which the run is resumed. A
/// session that was killed while it replaced an earlier one's files has left them beside it.
///   written: what written() returned when the checkpoint was saved; null: not known
///   problem: gets what the user should know if no file begins as it was written
MetricLines earlier_metrics(const std::filesystem::path& folder, int steps,
                            const nlohmann::json& written, std::string& problem);

// ---- what runs have left ----

/// A file's JSON; null if there is no such file, or it is damaged.
nlohmann::json json_in(const std::filesystem::path& path);

/// Calls `take` with each line of a metrics.jsonl that tells of a step; there may be no such file.
/// throws: Error if it is another program's: a line is too long, or very many tell of no step
void read_metrics(const std::filesystem::path& path, const TakeLine& take);

}  // namespace plangrad::parallel
