// Writes an export beside its folder, under a lock, and puts it there as a whole. A list that is
// not complete marks files as ours while they are written or removed. Chapter 02.
#include "examples/programs/exports.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/error.h"
#include "examples/programs/program.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "nn/checkpoint/gpt_files.h"
#include "nn/text/byte_pair.h"
#include "parallel/observers/metric_files.h"

namespace plangrad::examples {

namespace fs = std::filesystem;
using namespace nn;

std::string bytes_of(const fs::path& path) try { return read_file(path); } catch (const Error&) {
  return "";
}

std::string file_checksum(const fs::path& path) {
  const OpenFile file(path);  // or says why it can't be opened
  const nlohmann::json written = parallel::written_in(path);
  PG_CHECK(!written.is_null(), path.string(), " can't be read");
  return written.at("checksum");
}

namespace {

/// The files of an export. Hugging Face's from_pretrained() reads no others.
constexpr const char* export_files[] = {
    "config.json",    "generation_config.json", "merges.txt", "model.safetensors",
    "tokenizer.json", "tokenizer_config.json",  "vocab.json"};
/// The file of their checksums, which also marks them as ours. Its last line is its own checksum.
constexpr const char* export_list = "plangrad-checksums.txt";
constexpr const char* list_title = "CRC-32 of the files that plangrad exported here\n";
constexpr const char* unfinished_list = "an export by plangrad that is not complete\n";

/// The checksums of a list, by file; nothing if the list is damaged.
std::optional<std::map<std::string, std::string>> checksums_in(const std::string& list) {
  const std::size_t last = std::min(list.size(), std::size_t{9});  // its line, of eight digits
  const std::string above = list.substr(0, list.size() - last);
  if (!above.starts_with(list_title) || list != above + checksum_of(above) + '\n') return {};
  std::map<std::string, std::string> found;
  std::istringstream lines(above.substr(std::string(list_title).size()));
  for (std::string checksum, file; lines >> checksum >> file;) found[file] = checksum;
  return found;
}

/// The first difference of an export from its list; empty if there is none.
///   all: files that are not there differ, too
std::string difference(const fs::path& folder, const std::string& list, bool all) {
  const std::string name = (folder / export_list).string();
  if (list == unfinished_list) return all ? name + " is of a broken export: export again" : "";
  const auto checksums = checksums_in(list);
  if (!checksums) return name + " is damaged";
  for (const auto& [file, checksum] : *checksums) {
    if (!fs::exists(folder / file) && !all) continue;
    if (!fs::exists(folder / file)) return (folder / file).string() + " is missing";
    if (file_checksum(folder / file) != checksum)
      return (folder / file).string() + " is not as it was exported";
  }
  return "";
}

bool holds_export(const fs::path& folder) { return fs::exists(folder / export_list); }

/// Says that a broken export has left files beside its folder; nullopt if none has.
std::optional<std::string> broken_off(const fs::path& folder) {
  for (const char* end : {partial, ".partial"}) {  // the second is that of earlier versions
    const fs::path left = (folder / "").parent_path().string() + end;
    const Descriptor file(::open(left.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (holds_export(left) && ::flock(file.number, LOCK_SH | LOCK_NB) == 0)
      return left.string() + " is an export that was broken off: remove it, and export again";
  }
  return std::nullopt;
}

/// Whether a checkpoint and an export are of one model. Holds one layer of each at a time.
bool are_alike(const Checkpoint& checkpoint, const fs::path& exported) {
  GptConfig config = gpt_config(checkpoint.run().value("model", nlohmann::json()));
  config.dropout = 0;  // a choice for training
  if (to_json(config) != to_json(read_gpt_config(exported))) return false;
  for (int layer = 0; layer < config.layers + 2; ++layer) {
    const Stage stage(gpt(config), layer, layer + 1);
    const ParameterList& part = stage.parameters();
    const Tensor a = empty({part.numel()}, DType::f32, cpu_device()), b = empty_like(a);
    checkpoint.load_weights(part, a);
    load_gpt_weights(exported, part, b);
    if (std::memcmp(a.raw(), b.raw(), a.bytes()) != 0) return false;
  }
  return true;
}

/// Finds what an export to a folder would take from others: a file with an export's name that is
/// not as the folder's list says, or a file in the folder's place. The path is empty if there is
/// nothing.
fs::path others_file(const fs::path& folder) {
  std::error_code hidden;  // what can't be seen may be others'
  const auto is_there = [&](const fs::path& path) {
    return fs::symlink_status(path, hidden).type() != fs::file_type::not_found;
  };
  if (!is_there(folder)) return {};
  if (!fs::is_directory(fs::symlink_status(folder, hidden))) return folder;
  const std::string list = bytes_of(folder / export_list);
  if (list == unfinished_list) return {};
  const auto checksums = checksums_in(list).value_or(std::map<std::string, std::string>());
  for (const char* file : export_files) {
    const auto own = checksums.find(file);
    const bool is_own =
        own != checksums.end() && parallel::written_in(folder / file)["checksum"] == own->second;
    if (is_there(folder / file) && !is_own) return folder / file;
  }
  return {};
}

/// throws: Error if an export to a folder would take something from others
void check_own(const fs::path& folder, const char* advice) {
  const fs::path file = others_file(folder);
  PG_CHECK(file.empty(), file.string(), " is not as plangrad exported it, is another program's, ",
           "or can't be read: move it away, or ", advice);
}

/// Removes the files of an export from a folder.
void remove_files(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / export_list, ignored)) write_file(folder / export_list, unfinished_list);
  for (const char* file : export_files) fs::remove(folder / file, ignored);
  fs::remove(folder / export_list, ignored);
}

/// An export that is written beside its folder. No other program writes there meanwhile.
class UnfinishedExport {
 public:
  /// throws: Error if an export would take something from others, or can't be written there
  explicit UnfinishedExport(const fs::path& asked)
      : folder_((asked / "").parent_path()),
        path_(folder_.string() + partial),
        replaced_(path_.string() + ".old") {
    PG_CHECK(!folder_.empty() && folder_.has_filename(), "an export needs a folder: name one");
    std::error_code ignored;
    PG_CHECK(!fs::equivalent(folder_, fs::current_path(), ignored), folder_.string(),
             ": an export replaces its folder, and this one is in use: name another folder");
    if (fs::exists(replaced_)) {  // a program was killed in exchange()
      fs::rename(replaced_, folder_, ignored);
      if (ignored) fs::rename(replaced_, path_);  // the folder holds the newer export already
    }
    check_parent(folder_);
    make_folder(path_);
    lock();
    for (const fs::path& each : {path_, folder_}) try {
        check_own(each, "name a new folder");
      } catch (const Error&) {
        fs::remove(path_, ignored);  // unless it holds files
        throw;
      }
    remove_files(path_);
  }

  void write(const LoadedGpt& gpt) const {
    write_file(path_ / export_list, unfinished_list);
    std::optional<int> end;
    if (const auto* pairs = dynamic_cast<const BytePairVocabulary*>(gpt.vocabulary.get()))
      end = pairs->separator();
    write_gpt_folder(path_, gpt.config, gpt.stage->parameters(), gpt.weights, end);
    if (gpt.vocabulary) write_tokenizer(*gpt.vocabulary, path_, gpt.config.context);
    std::string list = list_title;
    for (const char* file : export_files)
      if (fs::exists(path_ / file)) list += file_checksum(path_ / file) + ' ' + file + '\n';
    write_file(path_ / export_list, list + checksum_of(list) + '\n');
  }
  /// Takes the place of the folder, with its permissions and with files of others that it holds.
  /// The earlier export is removed once this one is there.
  void put_in_place() const {
    std::error_code problem;
    make_folder(folder_);
    const Descriptor earlier(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ::flock(earlier.number, LOCK_EX);  // no other program may write to it as path_
    fs::permissions(path_, fs::status(folder_).permissions(), problem);
    exchange();
    remove_files(path_);
    std::vector<fs::path> others;  // of the user, such as a README.md
    for (const fs::directory_entry& file : fs::directory_iterator(path_, problem))
      others.push_back(file.path());
    for (const fs::path& file : others) fs::rename(file, folder_ / file.filename());
    fs::remove(path_, problem);
  }

 private:
  /// Exchanges the names of path_ and the folder, in one step if the file system can. A program
  /// that is killed between three steps leaves replaced_, which the next export finds.
  void exchange() const {
    const char *from = path_.c_str(), *to = folder_.c_str();
    if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0) return;
    std::error_code problem;
    fs::rename(folder_, replaced_, problem);
    if (!problem) fs::rename(path_, folder_, problem);
    if (!problem) fs::rename(replaced_, path_, problem);
    PG_CHECK(!problem, "can't write ", folder_.string(), ": ", problem.message());
  }
  /// The system frees the lock of a program that ends. File systems without locks have none.
  void lock() {
    file_.number = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct ::stat locked {
    }, named{};
    const bool is_free = (::flock(file_.number, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) &&
                         ::fstat(file_.number, &locked) == 0 &&
                         ::stat(path_.c_str(), &named) == 0 &&
                         locked.st_ino == named.st_ino;  // else an export has just become complete
    PG_CHECK(is_free, path_.string(), ": another program exports there now; start this one later");
  }

  const fs::path folder_, path_, replaced_;
  Descriptor file_{-1};
};

}  // namespace

std::optional<std::string> export_damage(const fs::path& folder, bool all,
                                         const fs::path& checkpoint) {
  for (;;) {  // until nobody has replaced the export or the checkpoint meanwhile
    const fs::path own = folder / export_list, newest = checkpoint / manifest_name;
    const auto state = [&] { return bytes_of(own) + bytes_of(newest); };
    const std::string before = state(), list = bytes_of(own);
    if (!holds_export(folder)) return all ? broken_off(folder) : std::nullopt;
    try {
      std::string found = difference(folder, list, all);
      if (found.empty() && !checkpoint.empty() && !are_alike(Checkpoint(checkpoint), folder))
        found = "it is of another model than the newest checkpoint: move it away, or export again";
      if (found.empty() || state() == before) return found;
    } catch (const Error&) {
      if (state() == before) throw;
    }
  }
}

void check_export(const fs::path& folder) {
  const std::string damage = export_damage(folder, /*all*/ false).value_or("");
  PG_CHECK(damage.empty(), damage, ": export the model again, or, if another program changed the ",
           "file on purpose, remove ", (folder / export_list).string());
}

void export_gpt(const LoadedGpt& gpt, const fs::path& asked) {
  std::optional<UnfinishedExport> unfinished;
  usage([&] {
    std::error_code problem;
    const fs::path real = fs::weakly_canonical(asked, problem), folder = problem ? asked : real;
    PG_CHECK(!fs::is_directory(folder) || fs::is_empty(folder) || holds_export(folder),
             folder.string(), " holds files that are no export: name a new folder");
    unfinished.emplace(folder);
  });
  unfinished->write(gpt);
  unfinished->put_in_place();
  tell(text("wrote ", asked.string(), ": a GPT for Hugging Face's from_pretrained()"), std::cout);
}

fs::path export_of(const fs::path& run) { return run / "huggingface"; }

void check_export_of(const fs::path& run, const char* advice) { check_own(export_of(run), advice); }

void remove_export(const parallel::SessionScope& scope) {
  const fs::path folder = export_of(scope.out);
  std::error_code ignored;
  if (!scope.overwrite && !others_file(folder).empty()) return;
  if (fs::is_directory(fs::symlink_status(folder))) remove_files(folder);
  fs::remove(folder, ignored);  // a folder that holds others' files stays
}

void export_run(const fs::path& run) {
  const UnfinishedExport unfinished(export_of(run));
  unfinished.write(load_gpt(run, cpu_device()));
  unfinished.put_in_place();
}

}  // namespace plangrad::examples
