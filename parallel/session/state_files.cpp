// Delayed schedules need more than the newest weights to continue with the same numbers: a
// checkpoint holds all versions that are alive between plans. Files hold whole buffers, so shards
// are gathered before they are written; each rank reads its shard of them. Of codecs, residuals are
// named by the rank that wrote them: "residual-3/wte.weight". Factors are the same on all ranks:
// "factors/wte.weight". Chapters 07, 09, 10 and 11.
#include "parallel/session/saving.h"

#include "parallel/codecs/codec.h"
#include "parallel/transports/launch.h"

namespace plangrad::parallel {

using nlohmann::json;

namespace {

constexpr const char* early_name = "early";  // the values that a store remembers

Tensor whole_buffer(const ParameterList& parameters, DType dtype, const DevicePtr& device) {
  return empty({parameters.numel()}, dtype, device, Category::communication);
}

/// What a checkpoint's JSON says of its codec; no numbers if it had none. The file may be damaged.
struct SavedCodec {
  struct Numbers {
    std::map<std::string, CodecMemory> thresholds;  // in JSON lists of pairs
    std::int64_t uses = 0;
  };

  json layout;  // as codec_layout() made it
  CodecSpec codec;
  int ranks = 0;
  double per_step = 1;
  std::vector<Numbers> numbers;  // by rank

  explicit SavedCodec(const Checkpoint& checkpoint) try {
    const json saved = checkpoint.run().value("codec", json::object());
    if (saved.empty()) return;
    layout = saved.at("layout");
    codec = parse_codec(layout.at("codec"));
    ranks = static_cast<int>(whole_number(layout.at("ranks")));
    per_step = layout.at("per_step");
    for (const json& each : saved.at("numbers"))
      numbers.push_back({each.at("thresholds").get<std::map<std::string, CodecMemory>>(),
                         whole_number(each.at("uses"))});
    PG_CHECK(ranks >= 1 && ranks == static_cast<int>(numbers.size()) && per_step >= 1,
             "the checkpoint is damaged: it has a codec's numbers of ",
             counted(numbers.size(), "rank"), ", and says that there were ", ranks, ", with ",
             counted(per_step, "microbatch"), " per update");
  } catch (const json::exception&) {
    throw Error("the checkpoint is damaged: its codec's numbers are not what a run writes there");
  }
};

std::string residual_name(int rank) { return text("residual-", rank); }

/// The factors of a stage as parameters of a flat buffer.
ParameterList factor_list(const Factoring& factoring) {
  ParameterList list;
  for (const FactoredPart& part : factoring.parts)
    if (part.is_factored()) list.add(part.name, {factoring.rank, part.columns}, Init::constant(0));
  return list;
}

/// The residuals of all codecs: flat buffers by stage.
std::map<int, Tensor> residuals(Engine& engine) {
  std::map<int, Tensor> all;
  for (auto& [stage, codec] : engine.codecs())
    if (codec.residual().defined()) all[stage] = codec.residual();
  for (auto& [stage, low_rank] : engine.low_ranks()) all[stage] = low_rank->state().residual;
  return all;
}

/// Whether a rank encodes a sum that it sends; a finished sum that arrived is passed on as it is.
bool is_encoded_here(const Instruction& sent, const Plan& plan, const Row& row) {
  if (!plan.ends_step(sent.micro)) return true;
  return std::none_of(row.begin(), row.end(), [&](const Instruction& x) {
    return receives(x) && x.what == sent.what && x.stage == sent.stage && x.micro == sent.micro;
  });
}

/// The ranks that encode each chunk of a stage's flat sum, and so send what they left out of it. In
/// a reduce-scatter no rank encodes its own chunk; the last rank of a sum that is passed on may
/// encode nothing.
std::vector<std::set<int>> senders(const Plan& plan, int stage) {
  std::vector<std::set<int>> chunks(1);
  for_each_cell(plan, [&](int rank, int, const Instruction& x) {
    if (x.stage != stage || x.what != Value::gradient_sum) return;
    if (sends(x) && is_encoded_here(x, plan, plan.rows[rank])) chunks[0].insert(rank);
    if (!meets(x)) return;
    const std::vector<int>& group = plan.groups[x.peer];
    const bool scatters = plan.sharded > 0 && is_local(plan.codec);
    chunks.resize(scatters ? group.size() : 1);
    for (std::size_t i = 0; i < chunks.size(); ++i)
      if (!scatters || group[i] != rank) chunks[i].insert(rank);
  });
  return chunks;
}

/// Adds `scale` times the saved residual of `range` to the stage's residual.
void add_saved(const Checkpoint& checkpoint, const std::string& name, double scale,
               const ParameterList& parameters, Range range, const Tensor& residual) {
  for (const Parameter& parameter : parameters) {
    const std::int64_t begin = parameter.offset;
    const Range part = common(range, {begin, begin + parameter.shape.numel()});
    if (part.size() <= 0) continue;
    const Tensor read =
        empty(parameter.shape, residual.dtype(), residual.device(), Category::communication);
    if (!checkpoint.load_state_if_any(name, parameter, read)) continue;
    if (scale != 1) residual.backend().affine(read, scale, 0, read);
    residual.backend().accumulate(read.window(part.begin - begin, {part.size()}),
                                  residual.window(part.begin, {part.size()}));
  }
}

/// Sums up the saved residuals of `saved_ranks` ranks. An update divides gradient sums by its
/// microbatches, so residuals of sums over more microbatches count less.
void read_residual(const Checkpoint& checkpoint, int saved_ranks, double scale, Engine& engine,
                   const Plan& plan, int stage, const Tensor& residual) {
  const auto chunks = senders(plan, stage);
  const int count = static_cast<int>(chunks.size());
  residual.backend().fill(0, residual);
  for (int saved = 0; saved < saved_ranks; ++saved)
    for (int i = 0; i < count; ++i) {
      if (chunks[i].empty()) continue;  // no rank of this plan encodes it
      const int taker = chunks[i].contains(saved) ? saved : *chunks[i].begin();
      if (taker == engine.transport().rank())
        add_saved(checkpoint, residual_name(saved), scale, engine.parameters(stage),
                  chunk_range(residual.numel(), i, count), residual);
    }
}

/// The parameters whose residuals are lost: a checkpoint has them, but no sum has their gradients.
std::string lost_layers(const Checkpoint& checkpoint, const CodecSpec& before, int saved_ranks,
                        const Plan& plan, const Training& training) {
  std::set<std::string> summed;
  for (const Parameter& parameter : summed_parameters(plan, training))
    summed.insert(parameter.name);
  std::string lost;
  for (const Parameter& parameter : training.whole) {
    const bool left_out =
        is_local(before) ? is_encoded(parameter) : before.rank <= highest_rank(parameter);
    bool saved = false;
    for (int rank = 0; rank < saved_ranks; ++rank)
      saved |= checkpoint.has_state(residual_name(rank), parameter);
    if (left_out && saved && !summed.contains(parameter.name))
      lost += text(lost.empty() ? "" : ", ", parameter.name);
  }
  return lost;
}

}  // namespace

// [snippet write_state]
std::vector<StagePart> parts_of(WeightStore& store, int stage, const Plan& plan) {
  std::vector<StagePart> parts;
  auto add = [&](std::string stem, const ParameterList& list, FlatBuffers buffers, bool sharded) {
    if (plan.stage_count() > 1) stem += text("_", stage);
    parts.push_back({std::move(stem), list, std::move(buffers), sharded});
  };
  FlatBuffers versions;
  for (const auto& [version, weights] : store.versions())
    versions.emplace_back(version_name(store.newest() - version), weights);
  add("model", store.parameters(), versions, store.shard().zero == 3);
  add("optimizer", store.parameters(), store.optimizer().state(), store.shard().zero > 0);
  if (store.remembered().defined())
    add("early", store.parameters(), {{early_name, store.remembered()}}, store.shard().zero == 3);
  const StateForm& form = store.form();
  if (form.has_index()) add("index", form.pruned(), {{index_name, form.index()}}, false);
  return parts;
}

void write_state(Engine& engine, const Plan& plan, const WriteFile& write_file) {
  const auto ranks = holders(plan);
  for (auto& [stage, store] : engine.stores()) {
    const bool writes = ranks.at(stage).front() == engine.transport().rank();
    for (StagePart& part : parts_of(store, stage, plan)) {
      for (auto& [name, buffer] : part.buffers) {
        if (!part.sharded) break;
        const Tensor whole =
            engine.gathered(buffer, part.parameters.numel(), store.shard(), ranks.at(stage));
        buffer = writes ? whole : Tensor();  // a rank that doesn't write frees each at once
      }
      if (!writes) continue;
      AtWork saving(engine.transport(), Work::saving);
      write_file(part.stem, part.parameters, part.buffers);
      part.buffers.clear();  // frees what was gathered
    }
  }
}
// [end snippet]

void read_state(const Checkpoint& checkpoint, Engine& engine) {
  checkpoint.check_model(engine.training().whole);
  for (auto& [stage, store] : engine.stores()) {
    // Files are read with all their elements, parameter by parameter if the form does not store
    // all, so that there is never a dense buffer.
    auto fill = [&, &store = store](const Tensor& buffer, bool sharded, auto load) {
      const StateForm& form = store.form();
      const Tensor stored =
          sharded ? whole_buffer(form.stored(), buffer.dtype(), engine.device()) : buffer;
      auto load_one = [&](const Parameter& p) {
        ParameterList one;
        one.add(p.name, p.shape, p.init, p.kind);
        const Tensor values = whole_buffer(one, buffer.dtype(), engine.device());
        load(one, values);
        form.compress(p, values, stored);
      };
      if (form.has_index())
        std::for_each(form.parameters().begin(), form.parameters().end(), load_one);
      else
        load(form.parameters(), stored);
      if (sharded) buffer.backend().copy(store.shard().window(stored), buffer);
    };
    for (const auto& [version, weights] : store.versions())
      fill(weights, store.shard().zero == 3,
           [&, back = store.newest() - version](const ParameterList& list, const Tensor& x) {
             checkpoint.load_version(back, list, x);
           });
    store.count_steps_from(of_run(checkpoint, "rewound", 0));
    if (checkpoint.has_state(early_name)) {
      store.remember();
      fill(store.remembered(), store.shard().zero == 3,
           [&](const ParameterList& list, const Tensor& x) {
             checkpoint.load_state(early_name, list, x);
           });
    }
    for (const auto& [name, buffer] : store.optimizer().state())
      fill(buffer, store.shard().zero > 0,
           [&, &name = name](const ParameterList& list, const Tensor& x) {
             checkpoint.load_state(name, list, x);
           });
  }
}

// ---- the memory of codecs ----

void write_codec_state(Engine& engine, const Plan& plan, const WriteFile& write_file) {
  const int rank = engine.transport().rank();
  AtWork saving(engine.transport(), Work::saving);
  for (const auto& [stage, residual] : residuals(engine))
    write_file(text("residual_", rank, '_', stage), engine.parameters(stage),
               {{residual_name(rank), residual}});
  for (auto& [stage, low_rank] : engine.low_ranks()) {
    const ParameterList list = factor_list(low_rank->parts());
    if (list.numel() == 0 || *senders(plan, stage)[0].begin() != rank) continue;
    write_file(text("factors_", stage), list, {{"factors", low_rank->state().factors}});
  }
}

json codec_numbers(Engine& engine) {
  json numbers{{"thresholds", json::object()}, {"uses", 0}};
  for (auto& [stage, codec] : engine.codecs())
    numbers["thresholds"][std::to_string(stage)] = codec.state();
  if (engine.channel()) numbers["thresholds"]["channel"] = engine.channel()->state();
  for (auto& [stage, low_rank] : engine.low_ranks()) numbers["uses"] = low_rank->state().uses;
  return numbers;
}

json codec_layout(const Engine& engine, const Plan& plan) {
  const Engine::Settings& settings = engine.settings();
  return {{"codec", print(plan.codec)},     {"channel", print(plan.channel)},
          {"cuts", engine.training().cuts}, {"ranks", plan.ranks()},
          {"per_step", plan.per_step},      {"reduction", name_of(settings.reduction)},
          {"hosts", settings.hosts}};
}

std::string lost_residual(const Checkpoint& checkpoint, const Plan& plan,
                          const Training& training) {
  const SavedCodec saved(checkpoint);
  if (saved.numbers.empty() || !leaves_out(saved.codec)) return "";
  const CodecSpec& before = saved.codec;
  if (!leaves_out(plan.codec))
    return text("what ", print(before), " has left out of gradients so far is lost, as --codec ",
                print(plan.codec), " adds nothing later; resume with ", print(before),
                " to keep it");
  const std::string lost = lost_layers(checkpoint, before, saved.ranks, plan, training);
  if (lost.empty()) return "";
  return text("what ", print(before), " has left out so far of the gradients of ", lost,
              " is lost, as their sums do not leave a rank any more; resume with a layout in ",
              "which they do to keep it");
}

void read_codec_state(const Checkpoint& checkpoint, Engine& engine, const Plan& plan) {
  const SavedCodec saved(checkpoint);
  if (saved.numbers.empty()) return;
  const double scale = plan.per_step / saved.per_step;
  for (const auto& [stage, residual] : residuals(engine))
    read_residual(checkpoint, saved.ranks, scale, engine, plan, stage, residual);
  const bool same_kind = saved.codec.name == plan.codec.name;
  for (auto& [stage, low_rank] : engine.low_ranks()) {
    if (!same_kind) break;  // a basis is no factors, and vice versa
    FactorState& state = low_rank->state();
    const ParameterList list = factor_list(low_rank->parts());
    bool all = true;
    for (const Parameter& factor : list)
      all &= checkpoint.load_state_if_any("factors", factor,
                                          state.factors.window(factor.offset, factor.shape));
    state.uses = all ? saved.numbers[0].uses : 0;
  }
  if (saved.layout != codec_layout(engine, plan)) return;
  auto& thresholds = saved.numbers[engine.transport().rank()].thresholds;  // ranks are as many
  auto of = [&](const std::string& key) {
    const auto found = thresholds.find(key);
    return found == thresholds.end() ? CodecMemory() : found->second;
  };
  for (auto& [stage, codec] : engine.codecs()) codec.restore(of(std::to_string(stage)));
  if (engine.channel()) engine.channel()->restore(of("channel"));
}

}  // namespace plangrad::parallel
