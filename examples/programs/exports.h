// Exports: a model in Hugging Face's layout, with a list of its files' checksums. An export
// replaces what an earlier one left, as the list tells, and nothing else. Not here: models
// (run_folder.h), and the layout (nn/checkpoint/gpt_files.h, nn/text/vocabulary.h). Chapter 02.
#pragma once

#include "examples/programs/run_folder.h"

namespace plangrad::examples {

/// The bytes of a file; none if it can't be read, or another program just removed it.
std::string bytes_of(const std::filesystem::path& path);
/// The CRC-32 of a file, which is read in pieces.
/// throws: Error if it can't be read
std::string file_checksum(const std::filesystem::path& path);

/// Writes a model into a folder for Hugging Face's from_pretrained(): weights, configuration,
/// tokenizer, and the list. Pruned weights are written as zeros. The folder is complete, or as it
/// was before; files in it that no export writes stay. Follows a link to a folder. Prints a line.
/// throws: UsageError unless the folder is new, empty or an earlier export that nobody changed
void export_gpt(const LoadedGpt& gpt, const std::filesystem::path& folder);

/// Describes the first damage of an export; the text is empty if it is intact. A folder without a
/// list has no answer. An export or checkpoint that is replaced meanwhile is read anew.
///   all: a file that is missing is wrong, too, and an export beside the folder that was broken off
///   checkpoint: if it is given, an export of another model than its newest one is wrong, too
/// throws: Error if a file can't be read
std::optional<std::string> export_damage(const std::filesystem::path& folder, bool all,
                                         const std::filesystem::path& checkpoint = {});
/// Does nothing for folders of other programs.
/// throws: Error if a file of an export is damaged, or can't be read
void check_export(const std::filesystem::path& folder);

// ---- the export of a run ----

/// huggingface/ in the run's folder.
std::filesystem::path export_of(const std::filesystem::path& run);
/// throws: Error that ends with the advice, if export_of(run) has a file of an export's name that
/// none of ours left so, or is no folder
void check_export_of(const std::filesystem::path& run, const char* advice);
/// Removes the files of a run's export; others stay, unless the user gives them up.
void remove_export(const parallel::SessionScope& scope);
/// Exports the run's checkpoint to export_of(run), as export_gpt() does. A folder that holds files
/// of others' names alone takes it, too.
void export_run(const std::filesystem::path& run);

}  // namespace plangrad::examples
