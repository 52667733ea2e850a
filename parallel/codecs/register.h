// CodecEntry: a codec as the register lists it: what a plan knows of it, and how it is made.
// Not here: the list (register.cpp).
// Chapter 10.
#pragma once

#include "parallel/codecs/codec.h"
#include "parallel/codecs/low_rank.h"

namespace paragrad::parallel {

/// Each codec's file defines a function that gives its entry: topk_codec().
struct CodecEntry : CodecKind {
  using Make = std::unique_ptr<Codec> (*)(const CodecSpec&);
  using MakeLowRank = std::unique_ptr<LowRank> (*)(const CodecSpec&, const ParameterList&,
                                                   std::uint64_t seed, const DevicePtr&);
  Make make = nullptr;                  ///< of a local codec
  MakeLowRank make_low_rank = nullptr;  ///< of one that is not
};

/// Uses of a threshold or a basis, or updates between choices of bits.
inline constexpr CodecNumber period_number{"PERIOD", &CodecSpec::period, "the period",
                                           "use 1 or more"};

/// A way to make a `Made` of what its constructor takes.
template <class Base, class Made, class... With>
std::unique_ptr<Base> made(With... with) {
  return std::make_unique<Made>(with...);
}

}  // namespace paragrad::parallel
