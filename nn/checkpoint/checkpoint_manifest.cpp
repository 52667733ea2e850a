// The manifest of a checkpoint: JSON that names the data files and describes the run. Its last line
// is the checksum of all bytes before that line. Version 1 has neither that nor other checksums.
// Not here: what the checksums of data files are compared with (nn/checkpoint/checkpoint.cpp).
// Chapter 02.
#include "nn/checkpoint/checkpoint.h"

#include <nlohmann/json.hpp>
#include <regex>

namespace plangrad::nn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* format_name = "plangrad checkpoint";
constexpr const char* earlier_format_name = "paragrad checkpoint";  // the project's first name
constexpr int format_version = 2;

/// The end of a manifest whose other bytes are `body`.
std::string last_line(std::string_view body) {
  return ",\n  \"checksum\": \"" + checksum_of(body) + "\"\n}\n";
}

/// Whether the text ends with the checksum of all that stands before.
bool is_intact(std::string_view text) {
  const std::size_t length = last_line("").size();
  if (text.size() < length) return false;
  return text.substr(text.size() - length) == last_line(text.substr(0, text.size() - length));
}

CheckpointFile parse_file(const json& file, bool has_checksums) {
  CheckpointFile result{file.at("name")};
  PG_CHECK(!result.name.empty() && result.name.find('/') == result.name.npos,
           "a data file is called \"", result.name, "\", which is not a name in its folder");
  PG_CHECK(file.at("bytes").is_number_unsigned(), "\"bytes\" is not a whole number from 0");
  result.bytes = file.at("bytes");
  if (has_checksums) result.checksums = file.at("checksums");
  return result;
}

/// Parses a manifest and checks each field: the file may be damaged, or of another program.
Manifest parse_manifest(const std::string& text) {
  const json manifest = parse_json(text);
  const json& format = manifest.at("format");
  PG_CHECK(format == format_name || format == earlier_format_name, "\"format\" is not \"",
           format_name, "\"");
  const json &version = manifest.at("version"), &step = manifest.at("step");
  if (version.is_number_integer() && version > format_version && is_intact(text))
    throw NewerFormat(autograd::text("its format has version ", version.dump(),
                                     ", this program reads 1 to ", format_version,
                                     "; use the plangrad that wrote it, or a newer one"));
  PG_CHECK(version.is_number_integer() && version >= 1 && version <= format_version,
           "it has version ", version.dump(), ", this program reads 1 to ", format_version);
  const bool has_checksums = version > 1 || manifest.contains("checksum");
  PG_CHECK(!has_checksums || is_intact(text), "its checksum is wrong");
  PG_CHECK(step.is_number_unsigned() && step.get<std::uint64_t>() <= INT64_MAX,
           "\"step\" is not a whole number from 0");
  PG_CHECK(manifest.at("run").is_object(), "\"run\" is no object");
  Manifest result{step, "", "", std::make_shared<json>(manifest.at("run")), {}};
  if (has_checksums) {
    result.run_id = manifest.at("run_id");
    result.build = manifest.at("build");
  }
  PG_CHECK(!manifest.at("files").empty(), "it names no files");
  PG_CHECK(manifest.at("files").size() <= 100'000, "it lists more than 100000 files");
  for (const json& file : manifest.at("files"))
    result.files.push_back(parse_file(file, has_checksums));
  return result;
}

/// The update in the name of an older checkpoint's manifest; -1 for other names.
std::int64_t step_in(const std::string& name) {
  static const std::regex older(R"(manifest-([0-9]{1,18})\.json)");
  std::smatch found;
  return std::regex_match(name, found, older) ? std::stoll(found[1]) : -1;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  ordered_json files = ordered_json::array();
  for (const CheckpointFile& file : manifest.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"checksums", file.checksums}});
  const ordered_json all = {{"format", format_name},
                            {"version", format_version},
                            {"step", manifest.step},
                            {"run_id", manifest.run_id},
                            {"build", manifest.build},
                            {"files", files},
                            {"run", ordered_json(*manifest.run)}};
  try {
    std::string text = all.dump(2);
    text.resize(text.size() - 2);  // the last line's "\n}"
    return text + last_line(text);
  } catch (const json::exception&) {
    throw Error("checkpoint: the description of the run is not UTF-8");
  }
}

Manifest read_manifest(const fs::path& folder, const std::string& name) {
  const fs::path path = folder / name;
  std::error_code ignored;
  PG_CHECK(fs::exists(path, ignored), folder.string(), " holds no checkpoint: it has no ", name,
           "; name the folder that a run saved to");
  const std::string bytes = read_file(path);  // that of a large run has a few MB
  try {
    Manifest manifest = parse_manifest(bytes);
    manifest.checksum = checksum_of(bytes);
    return manifest;
  } catch (const json::parse_error&) {
    throw Error(path.string() + " is damaged: it is not valid JSON");
  } catch (const json::exception&) {
    throw Error(path.string() + " is damaged: a field is missing, or of another kind");
  } catch (const NewerFormat& newer) {
    throw NewerFormat(path.string() + ": " + newer.what());
  } catch (const Error& error) {
    throw Error(path.string() + " is damaged or not a checkpoint's manifest: " + error.what());
  }
}

fs::path checkpoint_of(const fs::path& run) {
  const fs::path usual = run / "checkpoint";
  return manifests_of(run).empty() || !manifests_of(usual).empty() ? usual : run;
}

fs::path run_of(const fs::path& folder) {
  if (checkpoint_of(folder) != folder) return folder;
  const fs::path run = fs::absolute(folder / "").lexically_normal().parent_path().parent_path();
  std::error_code ignored;
  PG_CHECK(fs::equivalent(run / "checkpoint", folder, ignored), folder.string(), " holds a ",
           "checkpoint, but is not the folder checkpoint/ of a run: to continue from a copy, move ",
           "it to NEW/checkpoint, and give --resume NEW");
  return run;
}

std::vector<std::string> manifests_of(const fs::path& folder) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, ignored)) {
    const std::string name = file.path().filename().string();
    if (name == manifest_name) found.emplace_back(INT64_MAX, name);
    if (step_in(name) >= 0) found.emplace_back(step_in(name), name);
  }
  std::ranges::sort(found, std::greater<>());
  std::vector<std::string> names;
  for (const auto& [step, name] : found) names.push_back(name);
  return names;
}

/// The update that a manifest is of; -1 if it can't be read.
static std::int64_t step_of(const fs::path& folder, const std::string& name) try {
  return step_in(name) >= 0 ? step_in(name) : read_manifest(folder, name).step;
} catch (const Error&) {
  return -1;
}

/// Finds the newest intact checkpoint while nothing changes the folder.
static IntactCheckpoint find_now(const fs::path& folder, std::int64_t step) {
  std::string damaged;
  std::vector<std::string> names = manifests_of(folder);
  if (step >= 0) {
    std::erase_if(names, [&](const std::string& name) { return step_of(folder, name) != step; });
    PG_CHECK(!names.empty(), folder.string(), " has no checkpoint of update ", step,
             "; checkpoint list names those that it has");
  } else if (names.empty()) {
    names = {manifest_name};  // which is missed below
  } else if (names[0] != manifest_name) {
    damaged = text("the checkpoint ", folder.string(), " has lost its newest state: there is no ",
                   manifest_name);
  }
  for (const std::string& name : names) try {
      const auto checkpoint = std::make_shared<const Checkpoint>(folder, name);
      checkpoint->verify();
      const std::string update = text("update ", checkpoint->step());
      std::string news;
      if (!damaged.empty())
        news = text("warning: ", damaged, "; the checkpoint before it, of ", update,
                    ", is used instead");
      else if (!checkpoint->has_checksums())
        news = text("note: the checkpoint ", folder.string(), " of ", update,
                    " has no checksums, so damage to its weights would not be found");
      return {name, news, checkpoint};
    } catch (const NewerFormat&) {
      throw;  // going on from an older one would replace it
    } catch (const Unreadable& error) {
      throw Unreadable(text(error.what(), "; its checkpoint may be intact, so no older one is ",
                            "used: make it readable, or move ", (folder / name).string(), " away"));
    } catch (const Error& error) {
      if (damaged.empty()) damaged = error.what();
    }
  throw Error(names.size() > 1 ? damaged + "; those before it are damaged, too: is there a copy?"
                               : damaged);
}

/// A text that is another one after each save to the folder: names of manifests, and a checksum.
static std::string state_of(const fs::path& folder) {
  std::string state;
  for (const std::string& name : manifests_of(folder)) state += name + ' ';
  try {
    state += checksum_of(read_file(folder / manifest_name));
  } catch (const Error&) {  // there is none, or it can't be read
  }
  return state;
}

IntactCheckpoint find_intact(const fs::path& folder, std::int64_t step) {
  // What looks damaged may have been replaced while it was read. The search then begins anew.
  for (int tries = 100;; --tries) {
    const std::string before = state_of(folder);
    const auto is_certain = [&] { return tries == 0 || state_of(folder) == before; };
    try {
      IntactCheckpoint found = find_now(folder, step);
      if (found.news.empty() || is_certain()) return found;
    } catch (const Error&) {
      if (is_certain()) throw;
    }
  }
}

}  // namespace plangrad::nn
