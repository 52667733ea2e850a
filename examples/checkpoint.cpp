// checkpoint: looks into the checkpoints of runs. See --help.
// Not here: how they are written and read (nn/checkpoint/checkpoint.h). Chapter 02.
#include <nlohmann/json.hpp>

#include "autograd/cpu/cpu_backend.h"
#include "examples/programs/exports.h"
#include "examples/programs/program.h"
#include "examples/programs/run_folder.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "parallel/drawing/figure.h"
#include "parallel/plan/fields.h"

namespace {

using namespace plangrad::nn;
using namespace plangrad::examples;
using nlohmann::json;
namespace fs = std::filesystem;
using plangrad::parallel::bytes_text;

void print_line(const std::string& line) { tell(line, std::cout); }

/// Opens the newest checkpoint of a run's folder, damaged tensors or not.
Checkpoint newest(const fs::path& run) {
  const fs::path folder = checkpoint_of(run);
  const std::vector<std::string> manifests = manifests_of(folder);
  return usage(
      [&] { return Checkpoint(folder, manifests.empty() ? manifest_name : manifests[0]); });
}

std::map<std::string, SafetensorsEntry> tensors_of(const Checkpoint& checkpoint) {
  std::map<std::string, SafetensorsEntry> tensors;
  for (const SafetensorsFile& file : checkpoint.files())
    for (const SafetensorsEntry& entry : file.entries()) tensors.emplace(entry.name, entry);
  return tensors;
}

/// A run's folders with checkpoints, each with the prefix of names that are printed: its
/// checkpoint/, without one, and those of states that were saved aside when it diverged.
/// throws: UsageError if there are none
std::vector<std::pair<fs::path, std::string>> folders_of(const fs::path& run) {
  const fs::path own = checkpoint_of(run);
  std::vector<std::pair<fs::path, std::string>> all{{own, ""}};
  std::error_code none;
  for (const fs::directory_entry& each :
       fs::directory_iterator(own == run ? run / ".." : run, none)) {
    const std::string name = each.path().filename().string();
    const fs::path aside = each.path() / "checkpoint";
    if (name.starts_with("diverged") && !each.is_symlink(none) && !manifests_of(aside).empty())
      all.emplace_back(aside, name + "/checkpoint/");
  }
  std::ranges::sort(all, {}, &std::pair<fs::path, std::string>::second);
  if (manifests_of(own).empty() && all.size() == 1) newest(run);  // throws, and says why
  return all;
}

/// Prints a line if the manifest of a folder's newest checkpoint is lost. Returns whether it is.
/// A run that diverged before its first save has no tensors here, either.
bool tell_if_lost(const fs::path& folder, const std::string& prefix) {
  std::error_code none;
  bool lost = false;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, none))
    lost = lost || file.path().extension() == ".safetensors";
  lost = lost && !fs::exists(folder / manifest_name, none);
  if (lost)
    print_line(text(prefix, manifest_name, ": MISSING: that of the newest checkpoint is lost"));
  return lost;
}

/// Reads all bytes of a checkpoint. Returns whether it is intact. A run that saves meanwhile may
/// replace it, which is then read, or remove it.
bool verify(const fs::path& folder, const std::string& manifest, const std::string& prefix) {
  const std::string before = bytes_of(folder / manifest), name = prefix + manifest;
  try {
    const Checkpoint checkpoint(folder, manifest);
    checkpoint.verify();
    double bytes = 0;
    for (const auto& [tensor, entry] : tensors_of(checkpoint))
      bytes += static_cast<double>(entry.size);
    print_line(text(name, ": update ", checkpoint.step(),
                    checkpoint.has_checksums()
                        ? ": intact: "
                        : ": complete, but without checksums, so damage would not be found: ",
                    counted(tensors_of(checkpoint).size(), "tensor"), " in ",
                    counted(checkpoint.files().size(), "file"), ", ", bytes_text(bytes)));
    return true;
  } catch (const Error& error) {
    if (bytes_of(folder / manifest) != before) return verify(folder, manifest, prefix);
    std::error_code ignored;
    if (before.empty() && !fs::exists(folder / manifest, ignored)) {
      print_line(name + ": removed meanwhile, by a run that saves here");
      return true;
    }
    const bool is_damaged = !dynamic_cast<const plangrad::nn::NewerFormat*>(&error) &&
                            !dynamic_cast<const plangrad::nn::Unreadable*>(&error);
    print_line(text(name, is_damaged ? ": DAMAGED: " : ": NOT READ: ", error.what()));
    return false;
  }
}

/// Whether a checkpoint/ is that of a GPT's whole run, which exports its model beside it.
bool has_exported(const fs::path& folder) {
  if (folder.empty() || !fs::exists(folder / "../checkpoint" / manifest_name)) return false;
  const Checkpoint newest(folder);
  return newest.run().contains("model") &&
         newest.run().value("flags", json::object()).value("--steps", json()) == newest.step();
}

/// Reads all bytes of an export, if the folder is one. Returns whether they are intact and, if a
/// checkpoint is given, of its model. Nothing else may be where a run exported it.
bool verify_export(const fs::path& folder, const std::string& name,
                   const fs::path& checkpoint = {}) try {
  std::optional<std::string> damage = export_damage(folder, /*all*/ true, checkpoint);
  const bool has_model = fs::exists(folder / "model.safetensors");
  if (!damage && !has_model && fs::exists(fs::symlink_status(folder)) && has_exported(checkpoint))
    damage = "what is there is not the run's export: move it away, and export again";
  if (!damage && has_model)
    print_line(name + ": without checksums, so damage would not be found");
  else if (damage)
    print_line(name + (damage->empty() ? ": intact" : ": DAMAGED: " + *damage));
  return damage.value_or("").empty();
} catch (const Error& error) {
  print_line(name + ": NOT READ: " + error.what());
  return false;
}

/// Reads all bytes of each checkpoint of a run, and of the export beside them. Returns whether all
/// are intact.
bool verify(const fs::path& run) {
  const fs::path folder = checkpoint_of(run);
  if (manifests_of(folder).empty() && export_damage(run, true))
    return verify_export(run, run.string());
  bool intact = true;
  for (const auto& [each, prefix] : folders_of(run)) {
    intact = !tell_if_lost(each, prefix) && intact;
    for (const auto& name : manifests_of(each)) intact = verify(each, name, prefix) && intact;
  }
  return verify_export(export_of(folder / ".."), "huggingface", intact ? folder : "") && intact;
}

/// Prints the checkpoints of a run, the newest first, without reading their tensors.
void list(const fs::path& run) {
  for (const auto& [folder, prefix] : folders_of(run)) {
    tell_if_lost(folder, prefix);
    for (const std::string& name : manifests_of(folder)) try {
        const plangrad::nn::Manifest manifest = plangrad::nn::read_manifest(folder, name);
        double bytes = 0;
        for (const plangrad::nn::CheckpointFile& file : manifest.files)
          bytes += static_cast<double>(file.bytes);
        print_line(text("update ", manifest.step, ": ", prefix, name, ", ", bytes_text(bytes),
                        " in ", counted(std::ssize(manifest.files), "file")));
      } catch (const Error& error) {
        if (fs::exists(fs::symlink_status(folder / name)))  // else a run that saves here removed it
          print_line(text(prefix, name, ": NOT READ: ", error.what()));
      }
  }
}

/// The value of a flag as users type it.
std::string plain(const json& value) {
  return value.is_null() ? "not given" : plangrad::parallel::text_of(value);
}

void show(const fs::path& run) {
  const Checkpoint checkpoint = newest(run);
  auto known = [](const std::string& value) { return value.empty() ? "not known" : value; };
  print_line(text("update   ", checkpoint.step()));
  print_line("run      " + known(checkpoint.run_id()));
  print_line("build    " + known(checkpoint.build()));
  print_line("program  " + plain(checkpoint.run().value("program", json("not known"))));
  const json flags = checkpoint.run().value("flags", json::object());
  for (const auto& [name, value] : flags.items())
    print_line(text("flag     ", name, ' ', plain(value)));
  for (const SafetensorsFile& file : checkpoint.files()) {
    print_line("file     " + fs::path(file.path()).filename().string());
    for (const SafetensorsEntry& entry : file.entries())
      print_line(text("tensor   ", entry.name, ' ', entry.dtype, ' ', entry.shape, ' ',
                      bytes_text(static_cast<double>(entry.size))));
  }
}

/// Describes how much two tensors differ; empty if they have the same bytes.
std::string difference(const SafetensorsEntry& a, const SafetensorsEntry& b) {
  if (a.shape != b.shape || a.dtype != b.dtype)
    return text(a.dtype, ' ', a.shape, ", and ", b.dtype, ' ', b.shape);
  if (a.bytes() == b.bytes()) return "";
  if (a.dtype == "I32") return "other indices";
  const std::vector<float> x = to_floats(a), y = to_floats(b);
  double largest = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(x[i]) - y[i]));
    count += x[i] != y[i] || std::isnan(x[i]);
  }
  return text(count, " of ", x.size(), " elements differ, by at most ", largest);
}

/// Prints what differs. Returns whether anything does.
bool diff(const fs::path& one, const fs::path& two) {
  const Checkpoint a = newest(one), b = newest(two);
  bool differ = false;
  auto say = [&](const std::string& line) {
    print_line(line);
    differ = true;
  };
  if (a.step() != b.step()) say(text("update: ", a.step(), ", and ", b.step()));
  const json flags_a = a.run().value("flags", json::object()),
             flags_b = b.run().value("flags", json::object());
  json names = flags_a;
  names.update(flags_b);
  for (const auto& [name, value] : names.items()) {
    const json x = flags_a.value(name, json()), y = flags_b.value(name, json());
    if (x != y) say(text("flag ", name, ": ", plain(x), ", and ", plain(y)));
  }
  const auto tensors_a = tensors_of(a), tensors_b = tensors_of(b);
  for (const auto& [name, entry] : tensors_a) {
    const auto other = tensors_b.find(name);
    if (other == tensors_b.end())
      say(text("tensor ", name, ": only in ", one.string()));
    else if (const std::string how = difference(entry, other->second); !how.empty())
      say(text("tensor ", name, ": ", how));
  }
  for (const auto& [name, entry] : tensors_b)
    if (!tensors_a.contains(name)) say(text("tensor ", name, ": only in ", two.string()));
  return differ;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags("Looks into the checkpoints of runs, whatever wrote them.", "checkpoint");
  add_examples(flags, {{"Look for damage", "checkpoint verify runs/mine"},
                       {"See where two runs differ", "checkpoint diff runs/a runs/b"}});
  fs::path one, two;
  const char* where = "a run's folder, or its checkpoint/";
  auto command = [&](const char* name, const char* what, const Example& example) {
    Flags added = flags.command(name, what, {example});
    added.words("DIR", one, "", where).required();
    return added;
  };
  command("verify",
          "Reads all bytes of a folder's checkpoints, and of the export and what is saved aside in "
          "diverged/ beside them, and compares their checksums; ends with status 1 if one is "
          "damaged.",
          {"Look for damage", "checkpoint verify runs/mine"});
  command("list",
          "Names the updates of a folder's checkpoints, from which train_gpt --resume DIR --at "
          "UPDATE continues, and those in diverged/, if the run has diverged.",
          {"See from where a run can go on", "checkpoint list runs/mine"});
  command("show", "Prints what the newest checkpoint of a folder holds.",
          {"See a run's flags and tensors", "checkpoint show runs/mine"});
  command("diff",
          "Prints the flags and tensors in which two runs' newest checkpoints differ; ends with "
          "status 1 if they do.",
          {"See where two runs differ", "checkpoint diff runs/a runs/b"})
      .words("OTHER", two, "", where)
      .required();
  command("export",
          "Writes the newest intact checkpoint of a GPT into a folder, for Hugging Face's "
          "from_pretrained().",
          {"Write a model for transformers", "checkpoint export runs/mine exported"})
      .words("FOLDER", two, "", "a folder that is new, empty or an earlier export")
      .required();
  return run_program(flags, [&] {
    flags.parse(argc, argv);
    const std::string typed = flags.typed().name();
    if (typed == "verify") return verify(one) ? 0 : 1;
    if (typed == "diff") return diff(one, two) ? 1 : 0;
    if (typed == "list") return list(one), 0;
    if (typed == "show") return show(one), 0;
    if (typed == "export")
      return export_gpt(usage([&] { return load_gpt(one, cpu_device()); }), two), 0;
    throw UsageError("no command given: use verify, list, show, diff or export");
  });
}
