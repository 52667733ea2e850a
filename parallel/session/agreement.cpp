// A CRC-32 of a manifest stands for the checkpoint: it covers the checksums of all tensors.
// Chapter 05.
#include "parallel/session/agreement.h"

#include <fmt/format.h>

#include <random>

#include "autograd/backend.h"
#include "autograd/version.h"
#include "nn/checkpoint/file.h"
#include "parallel/session/machine.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/pack.h"

namespace plangrad::parallel {

using nlohmann::json;

void check_agreement(Transport& transport, const SessionSettings& settings) {
  json own = settings.run;
  for (const char* path : {"--data", "--validation"})  // hosts may keep the same text elsewhere
    if (own.contains("flags")) own["flags"].erase(path);
  const std::filesystem::path manifest = settings.resume / "checkpoint" / settings.manifest;
  const std::string checkpoint =
      settings.resume.empty() ? "" : nn::checksum_of(nn::read_file(manifest));
  const json here{{"run", own},
                  {"build", autograd::build()},
                  {"host", cores_here().host},
                  {"checkpoint", checkpoint}};
  const std::vector<std::string> all =
      all_gather_bytes(transport, here.dump(), settings.engine.timeout);
  const json first = json::parse(all[0]);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const json other = json::parse(all[rank]);
    const std::string who = text("rank ", rank, " (on ", other["host"].get<std::string>(), ')');
    const json difference = json::diff(first["run"], other["run"]);
    PG_CHECK(difference.empty(), "rank ", rank, " was started with another ",
             difference[0].at("path").get<std::string>(),
             " than rank 0: ", difference[0].value("value", json()).dump(),
             "; start all ranks with the same flags and data");
    PG_CHECK(first["build"] == other["build"], who,
             " is another build than rank 0: ", other["build"].get<std::string>(), ", not ",
             first["build"].get<std::string>(),
             "; copy one build to all hosts, built with -DPLANGRAD_NATIVE=OFF if their processors ",
             "differ");
    PG_CHECK(first["checkpoint"] == other["checkpoint"], who, " resumes another checkpoint than ",
             "rank 0 in ", manifest.string(),
             "; give all ranks the same --resume DIR, which all hosts share");
  }
}

std::string common_run_id(Transport& transport, const std::string& own, double timeout) {
  std::string id = own;
  if (id.empty()) {
    std::random_device random;
    id = fmt::format("{:08x}{:08x}", random(), random());
  }
  return broadcast_bytes(transport, id, timeout);
}

std::uint32_t checksum_of(const Tensor& x, std::uint32_t before) {
  std::vector<std::byte> host(static_cast<std::size_t>(x.bytes()));
  x.backend().copy_to_host(x, host.data());
  return nn::crc32_of(host, before);
}

WeightsChecksums weights_checksums(Engine& engine) {
  WeightsChecksums found;
  for (auto& [stage, store] : engine.stores()) {
    if (store.shard().zero == 3) continue;
    const Tensor& weights = store.versions().at(store.newest());
    std::uint32_t& sum = found[stage] = 0;
    for (const Parameter& parameter : store.parameters()) {
      const Tensor part = weights.window(parameter.offset, parameter.shape);
      sum = checksum_of(part, sum);
    }
  }
  return found;
}

void check_replicas(const std::vector<WeightsChecksums>& ranks, const std::string& when) {
  std::map<int, std::pair<std::size_t, std::uint32_t>> first;  // by stage: a rank, and what it has
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (const auto& [stage, checksum] : ranks[rank]) {
      const auto& [other, expected] = first.try_emplace(stage, rank, checksum).first->second;
      if (checksum == expected) continue;
      throw WrongState(text("ranks ", other, " and ", rank, " have different weights of stage ",
                            stage, ' ', when, ": replicas must be equal, so the memory or the ",
                            "program of one of them is at fault; resume the last checkpoint, on ",
                            "other hosts if this happens again"));
    }
}

void check_first_weights(Engine& engine, int steps) {
  if (engine.transport().size() == 1) return;
  const std::string own = pack(weights_checksums(engine));
  std::vector<WeightsChecksums> ranks;
  for (std::string& one : all_gather_bytes(engine.transport(), own, engine.settings().timeout))
    ranks.push_back(unpack<WeightsChecksums>(std::move(one)));
  check_replicas(ranks, text("after update ", steps, ", with which this session begins"));
}

}  // namespace plangrad::parallel
