// The list of codecs: a new one is a file in this folder, and a line here.
// Not here: what each does. Chapter 10.
#include "parallel/codecs/low_rank.h"

namespace plangrad::parallel {

// [snippet register]
#define PLANGRAD_CODECS(CODEC)                                                          \
  CODEC(none)      /* every value as it is */                                           \
  CODEC(bf16)      /* the upper half of each f32, rounded */                            \
  CODEC(quantize)  /* 2^BITS levels between each bucket's extremes */                   \
  CODEC(adaptive)  /* quantize, with bits chosen for each layer after PERIOD updates */ \
  CODEC(topk)      /* the largest values that a message has of each layer */            \
  CODEC(threshold) /* values above a threshold, set anew after PERIOD uses */           \
  CODEC(lowrank)   /* products of two thin matrices (PowerSGD) */                       \
  CODEC(pca)       /* coefficients on a basis that follows the sums */
// [end snippet]

#define DECLARED(name) CodecEntry name##_codec();
PLANGRAD_CODECS(DECLARED)

#define LISTED(name) name##_codec(),
const std::vector<const CodecKind*>& codec_kinds() {
  static const std::vector<CodecEntry> entries{PLANGRAD_CODECS(LISTED)};
  static const std::vector<const CodecKind*> kinds = [] {
    std::vector<const CodecKind*> all;
    for (const CodecEntry& entry : entries) all.push_back(&entry);
    return all;
  }();
  return kinds;
}

static const CodecEntry& entry_of(const CodecSpec& spec) {
  return static_cast<const CodecEntry&>(spec.kind());  // every kind belongs to an entry
}

std::unique_ptr<Codec> make_codec(const CodecSpec& spec) {
  PG_CHECK(is_local(spec), "codec ", print(spec),
           " needs a whole group's sum; for single messages use ",
           codecs_to_use(for_activations, true));
  return entry_of(spec).make(spec);
}

std::unique_ptr<LowRank> make_low_rank(const CodecSpec& spec, const ParameterList& parameters,
                                       std::uint64_t seed, const DevicePtr& device) {
  PG_CHECK(!is_local(spec), "low rank: expected the codec lowrank or pca, got ", print(spec));
  return entry_of(spec).make_low_rank(spec, parameters, seed, device);
}

}  // namespace plangrad::parallel
