// Copies lie on a device of their own, so that the rank's meter counts what the rank trains with.
// Chapter 15.
#include "parallel/session/state_writer.h"

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "parallel/session/disk_wait.h"

namespace plangrad::parallel {

nn::WriteFile StateWriter::taker() {
  return [this, host = cpu_device()](const std::string& stem, const ParameterList& parameters,
                                     nn::FlatBuffers buffers) {
    for (auto& [name, buffer] : buffers) {
      const Tensor copy = empty(buffer.shape(), buffer.dtype(), host, Category::workspace);
      buffer.backend().copy_to_host(buffer, copy.raw());
      buffer = copy;
    }
    taken_.push_back({stem, parameters, std::move(buffers)});
  };
}

std::vector<nn::CheckpointFile> StateWriter::start(std::filesystem::path folder,
                                                   nn::SaveMark mark) {
  std::vector<nn::CheckpointFile> files;
  std::vector<Taken> all = std::exchange(taken_, {});
  for (const Taken& file : all)
    files.push_back(
        describe_checkpoint_file(folder, file.stem, mark, file.parameters, file.buffers));
  written_ = std::async(std::launch::async, [taken = std::move(all), folder, mark] {
    std::vector<nn::CheckpointFile> written;
    const nn::WriteFile write_file = nn::write_at_once(folder, mark, written);
    for (const Taken& file : taken) write_file(file.stem, file.parameters, file.buffers);
    return written;
  });
  return files;
}

std::vector<nn::CheckpointFile> StateWriter::finish() {
  return written_.valid() ? wait_for_disk(written_) : std::vector<nn::CheckpointFile>();
}

}  // namespace plangrad::parallel
