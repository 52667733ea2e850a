// The manifest as JSON. A field is checked as it is read: the file may be damaged, or another's.
// Not here: the data files that it lists (nn/checkpoint/checkpoint.cpp).
// Chapter 02.
#include "nn/checkpoint/checkpoint_manifest.h"

#include "nn/checkpoint/file.h"

namespace paragrad::nn {
namespace {

using nlohmann::json;

constexpr const char* format_name = "paragrad checkpoint";
constexpr std::int64_t format_version = 1;

/// The field `key`, a whole number from 0 to 2^63 - 1.
std::int64_t whole_number(const json& object, const char* key) {
  const json& value = object.at(key);
  PG_CHECK(value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX, "\"", key,
           "\" is not a whole number from 0");
  return value.get<std::int64_t>();
}

Manifest parse_manifest(const std::string& text) {
  json manifest = json::parse(text);
  PG_CHECK(manifest.at("format") == format_name, "\"format\" is not \"", format_name, "\"");
  std::int64_t version = whole_number(manifest, "version");
  PG_CHECK(version == format_version, "it is of version ", version, ", this program reads ",
           format_version);
  Manifest result{whole_number(manifest, "step"), manifest.at("run"), {}};
  for (const json& file : manifest.at("files")) {
    auto name = file.at("name").get<std::string>();
    PG_CHECK(!name.empty() && name.find('/') == name.npos, "a data file is called \"", name,
             "\", which is no name in its folder");
    result.files.push_back({name, whole_number(file, "bytes")});
  }
  return result;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  json files = json::array();
  for (const auto& [name, bytes] : manifest.files)
    files.push_back({{"name", name}, {"bytes", bytes}});
  json all = {{"format", format_name},
              {"version", format_version},
              {"step", manifest.step},
              {"files", files},
              {"run", manifest.run}};
  try {
    return all.dump(2) + "\n";
  } catch (const json::exception&) {
    throw Error("checkpoint: the description of the run is not UTF-8");
  }
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / manifest_name;
  std::error_code ignored;
  PG_CHECK(std::filesystem::exists(path, ignored), folder.string(),
           " holds no checkpoint: it has no ", manifest_name,
           "; name the folder that a run saved to");
  const std::string bytes = read_file(path);
  try {
    return parse_manifest(bytes);
  } catch (const json::exception&) {
    throw Error(path.string() + " is damaged: it is not the JSON that a checkpoint begins with");
  } catch (const Error& error) {
    throw Error(path.string() + " is damaged or not a checkpoint's: " + error.what());
  }
}

}  // namespace paragrad::nn
