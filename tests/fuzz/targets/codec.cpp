// Messages of codecs: the first four bytes choose a codec and the values, the others are a message.
#include <cstring>

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "parallel/codecs/message_codec.h"
#include "tests/fuzz/fuzz.h"

namespace plangrad::fuzz {

using namespace parallel;

namespace {

constexpr const char* codecs[] = {"bf16",         "quantize:4:8", "quantize:1:3:stochastic",
                                  "quantize:7:5", "topk:0.3",     "threshold:0.4:2"};

struct Case {
  CodecSpec spec;
  std::int64_t count;
  DType dtype;

  explicit Case(const std::string& input)
      : spec(parse_codec(codecs[byte(input, 0) % std::size(codecs)])),
        count(1 + byte(input, 1) % 64),
        dtype(byte(input, 2) % 2 && spec.name != "bf16" ? DType::bf16 : DType::f32) {}

 private:
  static unsigned byte(const std::string& input, std::size_t at) {
    return at < input.size() ? static_cast<unsigned char>(input[at]) : 0;
  }
};

Tensor message(const std::string& bytes, std::int64_t size) {
  std::vector<std::uint8_t> all(size);
  std::memcpy(all.data(), bytes.data(), std::min(all.size(), bytes.size()));
  const Tensor x = room_for_code(size, cpu_device());
  x.backend().copy_from_host(all.data(), x);
  return x;
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (std::size_t codec = 0; codec < std::size(codecs); ++codec)
    for (char dtype : {0, 1}) {
      const std::string head{static_cast<char>(codec), 40, dtype, 0};
      const Case chosen(head);
      const Tensor x = empty({chosen.count}, chosen.dtype, cpu_device());
      x.backend().fill_normal(RandomKey(1, "x"), 0, 1, x);
      const auto made = make_codec(chosen.spec);
      const Tensor bytes = message("", made->encoded_bytes(chosen.count, chosen.dtype));
      made->encode(x, RandomKey(1, "bits"), 0, bytes);
      all.push_back(head + std::string(reinterpret_cast<const char*>(bytes.raw()), bytes.bytes()));
    }
  return all;
}

void read_input(const std::string& input) {
  const Case chosen(input);
  const std::string body = input.substr(std::min<std::size_t>(4, input.size()));
  const Tensor y = empty({chosen.count}, chosen.dtype, cpu_device());
  ChannelCodec channel(chosen.spec, RandomKey(1, "sender"));
  const Instruction there = parse_instruction("0a0>1"), back = parse_instruction("0g0>1");
  const std::int64_t size = channel.encoded_bytes(there, chosen.count, chosen.dtype);
  channel.decode(there, message(body, size), y);
  // The gradient comes back at the places that the message named.
  y.backend().fill(1, y);
  const Tensor answer = message("", channel.encoded_bytes(back, chosen.count, chosen.dtype));
  channel.encode(back, y, answer);
}

}  // namespace plangrad::fuzz
