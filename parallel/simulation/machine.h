// Machine: the devices and links of a machine, read from a text that users write, and how long
// kernels take on a device. Pretended: the devices and links that a run pretends to have.
// Not here: how messages share links (links.h), which kernels a model runs (planner/layer_costs.h),
// and how a run is slowed down (engine/pretended.h). Chapter 06.
//
// Messages share the same links in a run and in the simulator, which finds their arrivals by the
// same arithmetic (links.h). The simulator begins a sum's messages without the time that threads
// take to wake, and a sum at the moment at which its last member does.
#pragma once

#include "autograd/kernel_work.h"
#include "parallel/simulation/costs.h"
#include "parallel/simulation/links.h"

namespace plangrad::parallel {

/// Units: seconds, bytes, bytes per second, floating-point operations per second. 0: not known.
struct Machine {
  std::string name = {};
  double memory = 0;            ///< bytes of a device that a program can use
  double memory_bandwidth = 0;  ///< bytes per second of a device's memory
  double peak_f32 = 0;          ///< the fastest rate of matrix products in f32
  double peak_f16 = 0;          ///< the fastest rate of those in f16 and bf16
  double cores = 0;             ///< cores of a device that is a CPU; 0: it is a GPU
  double efficiency = 1;        ///< share of the peak that large products reach
  double tile = 0;          ///< a product of size x has x / (x + tile) of that, for each of m, n, k
  double memory_share = 1;  ///< share of memory_bandwidth that element-wise kernels reach
  double host_seconds = 0;  ///< time of the host before each forward and backward
  double piece = 0;         ///< bytes of the pieces of sums; 0: as runs cut them
  Topology topology = {};
};

/// Seconds of kernels in turn. A kernel with arithmetic takes flops / (peak efficiency), divided by
/// x / (x + tile) of each size x of its product; any other bytes / (memory_bandwidth memory_share).
/// throws: Error if the machine does not say what this needs
double seconds(const Machine& machine, const autograd::KernelTable& kernels);

/// Reads lines of these kinds; # begins a comment:
///   machine NAME
///   device  KEY NUMBER ...      memory, bandwidth, peak.f32, peak.f16, cores
///   fitted  KEY NUMBER ...      efficiency, tile, memory_share, host, piece
///   hosts   NUMBER devices
///   link    NAME WHERE NUMBER B/s NUMBER s [one way at a time]
/// WHERE is one of: between devices of a host, of a device, within a host, from a device to its
/// host, of a host (see Reach).
/// throws: Error with the line's number
Machine parse_machine(const std::string& text);
/// The machine as parse_machine() reads it.
std::string print(const Machine& machine);

// ---- devices and links that a run pretends to have ----

/// Times in seconds, lists with a value for each stage or one for all stages. 0 means that nothing
/// is pretended: a computation takes as long as its arithmetic, links are as they are.
struct Pretended {
  std::vector<double> forward = {0};   ///< time of each forward, also a second one
  std::vector<double> backward = {0};  ///< time of a backward; I and W take half
  std::vector<double> step = {0};      ///< time of an update; the last value is the tied stage's
  Topology topology = {};              ///< the links; none: they are as they are
  std::string machine = {};  ///< the machine whose topology it is; empty: none that has a name

  bool computes() const;
  bool links() const { return !topology.links.empty(); }

  /// Seconds that a computation takes at least; 0 for all that is no computation.
  double seconds(const Plan& plan, const Instruction& x) const;
  /// How many computations of a plan have a pretended time.
  int computations(const Plan& plan) const;
  /// Measured costs, with the pretended ones in their place.
  ///   measured: with a value for each stage of the plan
  Costs instead_of(Costs measured, const Plan& plan) const;
};

/// "12 of 800 computations took longer than pretended; ..."
std::string lateness(std::int64_t late, std::int64_t computations);

}  // namespace plangrad::parallel
