// A checkpoint needs all stages after one and the same update. Ranks that failed in the midst of a
// plan may have made different updates, so the newest one that all stages have is looked for.
// Chapter 15.
#include "examples/elastic/rescue.h"

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "examples/programs/run_folder.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/threads_transport.h"

namespace plangrad::examples {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// A run's checkpoints, and the update of the newest one.
struct Saved {
  std::string run_id;  ///< empty: none is saved; "?": none of them can be read
  int update = 0;
  std::string checksum = {};
};

Saved newest_in(const fs::path& out, int before = std::numeric_limits<int>::max()) {
  const fs::path folder = out / "checkpoint";
  Saved found;
  for (const std::string& manifest : nn::manifests_of(folder)) try {
      const Checkpoint newest(folder, manifest);
      if (newest.step() >= before) continue;
      return {newest.run_id(), static_cast<int>(newest.step()), newest.manifest().checksum};
    } catch (const Error&) {
      found.run_id = "?";
    }
  return found;
}

/// Whether a value of the training was infinite or NaN, on this rank or on another one, whose
/// report, a text, the error quotes. Whoever goes on from the last update meets it again.
bool is_divergence(const std::exception& error) {
  return std::string_view(error.what()).find(when_not_finite) != std::string_view::npos;
}

/// The flags that continue from an update: --resume alone takes the newest that is saved.
std::string resume_at(const fs::path& run, int update) {
  const bool is_newest = newest_in(run).update == update;
  return text("--resume ", run.string(), is_newest ? "" : text(" --at ", update));
}

/// Weights from which a run diverges may have grown wrong before they were saved.
///   newest: the update in `run` that the run saved last or continued from, 0: none; wrong: it is
///           where it diverged; resume, first: what it continued from
std::string how_to_go_back(const fs::path& run, int newest, bool wrong, const fs::path& resume,
                           int first) {
  if (newest == 0)
    return "the run diverged before its first save, so begin anew: the same command with "
           "--overwrite and a lower --learning-rate";
  const std::string back = "the run diverged, so go back: ";
  if (const int older = newest_in(run, newest).update; !wrong)
    return text(back, resume_at(run, newest), " continues from update ", newest,
                older > 0 ? text(", and --at ", older, " from an older one") : "");
  const std::string before = flags_before(newest, run, resume, first);
  if (!before.empty()) return back + before;
  const fs::path here = fs::absolute(run / "").lexically_normal().parent_path();
  if (here.filename().string().starts_with("diverged"))
    return how_to_go_back(here.parent_path(), newest, wrong, resume, first);
  return text("the run diverged, and no update before ", newest, " is saved in ", run.string(),
              ", so begin anew, with --overwrite and a lower --learning-rate");
}

/// A name for users. `stages` is the number of stages with layers, after which tied weights follow.
std::string stage_name(int stage, int stages) {
  return stage < stages ? text("stage ", stage) : "the tied weights";
}

// [snippet stage_left]
/// A stage as a rank holds it in the midst of a plan, or why a checkpoint can't be made of it.
Remains::Stage stage_left(WeightStore& store, int stage, const Plan& plan) {
  Remains::Stage left{store.newest(), store.shard(), parts_of(store, stage, plan), ""};
  const int oldest = std::max(0, left.update - plan.kept(stage) + 1);
  if (store.versions().begin()->first > oldest)
    left.problem =
        text("version ", oldest, " of ", stage_name(stage, plan.stages), " is overwritten");
  // In the midst of a plan, older versions may be here, too.
  const auto kept = static_cast<std::size_t>(left.update - oldest + 1);
  FlatBuffers& versions = left.parts.front().buffers;
  if (left.problem.empty()) versions.erase(versions.begin(), versions.end() - kept);
  return left;
}
// [end snippet]

/// A part that is sharded, whole, from the ranks that hold its shards.
FlatBuffers gathered(const std::vector<const Remains::Stage*>& holders, std::size_t part) {
  FlatBuffers whole;
  for (const Remains::Stage* holder : holders) {
    const StagePart& own = holder->parts[part];
    for (std::size_t i = 0; i < own.buffers.size(); ++i) {
      const auto& [name, shard] = own.buffers[i];
      if (whole.size() == i)
        whole.emplace_back(name, empty({own.parameters.numel()}, shard.dtype(), cpu_device(),
                                       Category::workspace));
      shard.backend().copy_to_host(shard, holder->shard.window(whole[i].second).raw());
    }
  }
  return whole;
}

/// throws: WrongState if ranks that hold all weights of a stage have different ones
void check_alike(const std::string& stage, const std::vector<const Remains::Stage*>& holders) {
  std::set<std::uint32_t> different;
  for (const Remains::Stage* holder : holders) {
    const StagePart& model = holder->parts.front();
    if (!model.sharded) different.insert(checksum_of(model.buffers.back().second));
  }
  if (different.size() > 1) throw WrongState("replicas have different weights: " + stage);
}

/// The codecs whose memory of what they left out belongs to the update that was under way.
std::string codecs_with_memory(const Plan& plan) {
  std::string names;
  for (const CodecSpec& codec : {plan.codec, plan.channel})
    if (leaves_out(codec)) names += (names.empty() ? "" : " and ") + print(codec);
  return names;
}

/// The file with the run's lines so far: the one beside an earlier run's, if that is newer.
fs::path lines_so_far(const fs::path& out) {
  const fs::path usual = out / "metrics.jsonl", beside = usual.string() + nn::partial;
  std::error_code none;
  const bool newer =
      fs::exists(beside) && !(fs::last_write_time(usual, none) > fs::last_write_time(beside, none));
  return newer ? beside : usual;
}

/// Whether the newest save in a folder is this update of the run, made with the same flags.
bool has_save(const fs::path& folder, const nn::Manifest& saved) try {
  const nn::Manifest there = nn::read_manifest(folder / "checkpoint", nn::manifest_name);
  return there.step == saved.step && there.run_id == saved.run_id &&
         there.run->at("flags") == saved.run->at("flags");
} catch (const std::exception&) {  // it has none
  return false;
}

}  // namespace

std::string flags_before(int update, const fs::path& out, const fs::path& resume, int first) {
  for (const auto& [run, end] : {std::pair(out, update), {resume, std::min(update, first + 1)}})
    if (const int older = newest_in(run, end).update; older > 0)
      return text("--resume ", run.string(), " --at ", older);
  return "";
}

fs::path folder_aside(const fs::path& out, const nn::Manifest& saved) {
  fs::path folder = out / "diverged";
  std::error_code none;
  for (int number = 2; fs::exists(fs::symlink_status(folder, none)); ++number) {
    if (!fs::is_symlink(folder) && has_save(folder, saved)) break;
    folder = out / text("diverged-", number);
  }
  return folder;
}

Remains remains_of(SessionRank& rank) {
  const Plans::Shared shared = rank.like();
  const Plan& plan = shared->plan();
  Engine& engine = rank.engine();
  Remains left{.rank = engine.transport().rank(),
               .first = rank.first(),
               .left_out = codecs_with_memory(plan),
               .stages = {},
               .stages_with_layers = plan.stages,
               .stage_count = plan.stage_count(),
               .per_step = plan.per_step,
               .clips = plan.clip,
               .results = std::move(rank.left()),
               .run = rank.description(),
               .run_id = rank.run_id()};
  for (auto& [stage, store] : engine.stores()) {
    Remains::Stage& here = left.stages[stage] = stage_left(store, stage, plan);
    if (here.problem.empty()) here.problem = rank.lacks(here.update);
    if (store.begun() > 0) left.run["rewound"] = store.begun();
  }
  return left;
}

void Rescuer::failed(SessionRank& rank) noexcept try {
  throw;
} catch (const RankLost&) {  // its memory is gone
} catch (const WrongState&) {
  rescue_->forbid("some weights are wrong");
} catch (const std::exception& error) {
  rescue_->add_remains_of(rank, is_divergence(error));
}

Rescue::Rescue(const SessionScope& scope)
    : given_up_(scope.given_up < 0 ? "" : newest_in(scope.out).checksum) {
  for (const char* name : {"metrics.jsonl", "metrics.csv"}) own_.note(scope.out / name);
}

void Rescue::add_remains_of(SessionRank& rank, bool diverged) try {
  if (diverged) diverged_ = true;
  Remains remains = remains_of(rank);
  std::lock_guard lock(mutex_);
  remains_.push_back(std::move(remains));
} catch (const std::exception& error) {  // the rank throws the error that brought it here
  forbid(error.what());
}

void Rescue::forbid(const std::string& why) {
  std::lock_guard lock(mutex_);
  forbidden_ = why;
}

/// Why an update can't be saved; empty if it can.
std::string Rescue::problem_at(int update) const {
  std::string problem;
  std::map<int, std::set<int>> found;  // by stage, the shards that are here
  std::map<int, int> shards;
  for (const Remains& rank : remains_) {
    for (const auto& [stage, left] : rank.stages) {
      shards[stage] = left.shard.members;
      if (left.update == update) found[stage].insert(left.shard.member);
      if (!left.problem.empty()) problem = left.problem;
    }
  }
  if (!problem.empty()) return problem;
  for (int stage = 0; stage < remains_.front().stage_count; ++stage) {
    const int here = static_cast<int>(found[stage].size());
    const std::string name = stage_name(stage, remains_.front().stages_with_layers);
    if (here == 0) return "no rank that is left here holds " + name;
    if (here < shards[stage])
      return text(here, " of ", shards[stage], " shards of ", name, " are left here (ZeRO)");
  }
  return "";
}

std::string Rescue::save(const RescueSettings& settings, const LearningRate& rate) const {
  if (!forbidden_.empty()) return "the last updates are not saved, as " + forbidden_;
  std::set<int> updates;
  for (const Remains& rank : remains_)
    for (const auto& [stage, left] : rank.stages) updates.insert(left.update);
  if (updates.empty()) return "";
  const fs::path out = settings.scope.out;
  const int before = newest_save(out), first = remains_.front().first;
  const fs::path& from = before > 0 ? out : settings.scope.resume;
  const int newest = before > 0 ? before : first;  // in `from`
  const bool wrong = *updates.rbegin() <= newest;
  const std::string go_on = diverged_
                                ? how_to_go_back(from, newest, wrong, settings.scope.resume, first)
                                : "continue with " + resume_at(from, newest);
  if (*updates.rbegin() == first) return diverged_ && first > 0 ? go_on : "";
  const std::string& own = remains_.front().run_id;
  const std::string id = settings.scope.overwrite && !diverged_ ? "" : newest_in(out).run_id;
  if (!id.empty() && id != own)
    return text("the last updates are lost, as ", out.string(),
                " holds another run, which stays; save earlier with --save-every");
  const auto run = std::make_shared<const json>(remains_.front().run);
  std::string problem;
  for (auto update = updates.rbegin(); update != updates.rend() && *update > before; ++update) try {
      problem = problem_at(*update);
      if (!problem.empty()) continue;
      const fs::path to = diverged_ ? folder_aside(out, {*update, own, "", run, {}}) : out;
      const std::string kept = commit(*update, to, settings, rate);
      const std::string& codecs = remains_.front().left_out;
      return text("update ", *update, " is saved", diverged_ ? " aside, in " + to.string() : "",
                  ", as all its weights are still here",
                  codecs.empty() ? "" : text(", but not what ", codecs, " left out of messages"),
                  kept, "; ", diverged_ ? go_on : "continue with --resume " + out.string());
    } catch (const std::exception& error) {
      problem = error.what();
    }
  if (problem.empty()) return text("update ", before, ", the last one, was saved before; ", go_on);
  return text("the last updates are lost, as ", problem, "; ",
              newest > 0 ? text("the newest save is of update ", newest, "; ") : "",
              newest > 0 || diverged_ ? go_on : "nothing was saved before");
}

int Rescue::newest_save(const fs::path& out) const {
  const Saved saved = newest_in(out);
  if (remains_.empty() || saved.run_id != remains_.front().run_id) return 0;
  return saved.checksum == given_up_ ? remains_.front().first : saved.update;
}

/// The lines of the updates so far, with those that rank 0 had not written yet. The last line names
/// updates of which no rank that is left knows the loss. Lines are text, as millions of them may
/// fit into memory as text, but not as JSON; the file that they are of may be replaced.
std::vector<std::string> Rescue::lines_until(int update, const RescueSettings& settings,
                                             const LearningRate& rate, std::string& lacks) const {
  std::vector<std::string> lines;
  std::vector<RunResult> results;
  for (const Remains& rank : remains_) results.push_back(rank.results);
  const RunResult world = merged(results);
  const Remains& any = remains_.front();
  int logged = any.first, unknown = 0;
  read_metrics(lines_so_far(settings.scope.out), [&](const json& line) {
    if (line["step"] > update) return;
    lines.push_back(line.dump());
    if (line.contains("loss")) logged = std::max(logged, line["step"].get<int>());
  });
  for (int version = logged + 1; version <= update; ++version) try {
      const double before = world.stepped.contains(version - 1) ? world.stepped.at(version - 1) : 0;
      lines.push_back(
          line_of({.version = version,
                   .loss = loss_of(world, version, any.per_step),
                   .gradient_norm = gradient_norm_of(world, version, any.per_step, any.clips),
                   .learning_rate = rate.at(version - 1),
                   .seconds = std::max(world.stepped.at(version) - before, 1e-9)},
                  settings.units_per_step, settings.unit)
              .dump());
    } catch (const std::out_of_range&) {
      ++unknown;
    }
  if (unknown > 0)
    lines.push_back(json{{"step", update}, {"updates_without_a_line", unknown}}.dump());
  if (unknown > 0 && !fs::exists(lines_so_far(settings.scope.out)))  // others have moved it
    lacks = text("; metrics.jsonl has no lines of ", counted(unknown, "update"));
  return lines;
}

std::string Rescue::commit(int update, const fs::path& out, const RescueSettings& settings,
                           const LearningRate& rate) const {
  const fs::path folder = out / "checkpoint";
  std::shared_ptr<FolderLock> lock = settings.scope.lock;
  if (!lock || !lock->is_here() || out != settings.scope.out)
    lock = std::make_shared<FolderLock>(out);
  std::string kept;
  const std::vector<std::string> earlier = lines_until(update, settings, rate, kept);
  const bool is_own = lines_so_far(out) == out / "metrics.jsonl";  // not an earlier session's
  MetricFiles lines(out, settings.unit, [&](const TakeLine& take) {
    for (const std::string& line : earlier) take(nn::parse_json(line));
  });
  const SaveMark mark(update, remains_.front().run_id);
  std::vector<CheckpointFile> files;
  const WriteFile write_file = write_at_once(folder, mark, files);
  std::map<int, std::vector<const Remains::Stage*>> stages;
  for (const Remains& rank : remains_)
    for (const auto& [stage, left] : rank.stages)
      if (left.update == update) stages[stage].push_back(&left);
  for (const auto& [stage, holders] : stages) {
    check_alike(stage_name(stage, remains_.front().stages_with_layers), holders);
    const std::vector<StagePart>& parts = holders.front()->parts;
    for (std::size_t i = 0; i < parts.size(); ++i)
      write_file(parts[i].stem, parts[i].parameters,
                 parts[i].sharded ? gathered(holders, i) : parts[i].buffers);
  }
  json run = remains_.front().run;
  run["metrics"] = lines.written();
  nn::sync_to_disk(lines.path());
  commit_checkpoint(
      folder, mark, run, files,
      {.count = std::max(2, settings.scope.keep),
       .last = std::max(newest_save(out), remains_.front().first),
       .given_up = out == settings.scope.out ? settings.scope.given_up : newest_save(out)});
  if (out == settings.scope.out)
    kept += is_own ? keep_lost_metrics(out)
                   : own_.make_way(out / "metrics.jsonl") + own_.make_way(out / "metrics.csv");
  return kept + lines.replace_earlier();
}

}  // namespace plangrad::examples
