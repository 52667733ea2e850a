// The list of codecs of this test program: the library's own, and chapter 14's. In the library a
// codec needs one line of parallel/codecs/register.cpp; here that file is compiled under another
// name for its list, and the linker takes this object instead of the library's.
#include "tests/adding/added.h"

#define codec_kinds built_in_codecs
#include "parallel/codecs/register.cpp"
#undef codec_kinds

namespace plangrad::parallel {

const std::vector<const CodecKind*>& codec_kinds() {
  static const CodecEntry sign = sign_codec();
  static const std::vector<const CodecKind*> all = [] {
    std::vector<const CodecKind*> kinds = built_in_codecs();
    kinds.push_back(&sign);
    return kinds;
  }();
  return all;
}

}  // namespace plangrad::parallel
