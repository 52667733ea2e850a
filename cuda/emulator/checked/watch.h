// Watch: the checker. It compares each access to memory with earlier ones in the shadow; two
// accesses that nothing orders are a race, in whichever order they happened this time.
// Not here: the calls by which programs tell of accesses (observed/compiled_calls.cpp).
// Chapter 12. FastTrack (Flanagan and Freund 2009).
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "cuda/emulator/checked/actors.h"
#include "cuda/emulator/checked/shadow.h"
#include "cuda/emulator/device_memory.h"
#include "cuda/emulator/observer.h"

namespace plangrad::cuda::emulator {

class Watch : public Observer {
 public:
  static Watch& instance();

  std::byte* addresses() override { return global_.addresses(); }
  void release(const void* start, std::size_t bytes) override;
  void begin(const Running& operation) override;
  void end() override;
  void begin_grid(const Launch& launch) override;
  void begin_block(std::uint64_t number) override;
  void note(const void* start, std::size_t bytes, Use use, const void* code) override;
  void note_copy(void* to, const void* from, std::size_t bytes) override;
  void use(const void* start, std::size_t bytes, Use use, const void* code, bool all) override;

 private:
  struct Fault {
    const char* what = nullptr;  ///< its kind, or what to do instead
    Access other{};
  };

  /// The shadow of this processor thread's shared memory.
  static SharedShadow& shared();
  std::unique_lock<std::mutex> begin_host();
  void use_in_kernel(Block& block, std::uintptr_t address, std::size_t bytes, Use use,
                     const void* code, bool all);
  void use_by_host(std::uintptr_t address, std::size_t bytes, Use use, const void* code);
  /// Checks an access; false if something is wrong, which it reports.
  bool watch(std::uintptr_t address, std::size_t bytes, Use use, const void* code);
  Cell* find_cell(std::uintptr_t address, std::uint32_t who);
  std::optional<Fault> check(Cell& cell, Use use, const Access& now);
  bool is_allocated(std::uintptr_t address, std::size_t bytes);
  std::string explain(const Fault& fault, std::uintptr_t address, Use use, const Access& now);
  std::string describe(std::uintptr_t address) const;
  void fail(const Fault& fault, std::uintptr_t address, Use use, const Access& now);

  std::mutex turn_;  // held by the actor
  GlobalShadow global_;
  Actors actors_;
  Allocation last_allocation_;
  bool failed_ = false;  // the actor has failed, and reports nothing more
};

/// Describes a place in the program: "(file.cu:12)", or "" if that isn't known.
std::string line_of(std::uint32_t code);

}  // namespace plangrad::cuda::emulator
