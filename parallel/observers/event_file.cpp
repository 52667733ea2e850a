// A file is a list of records: length, its checksum, an Event, and its checksum. An Event is a
// protocol buffer: fields, each a key (number and kind of the field) and a value. Chapter 03.
#include "parallel/observers/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>

namespace plangrad::parallel {

AppendedFile::AppendedFile(const std::filesystem::path& path) : file_(nn::create_file(path)) {}

void AppendedFile::write(std::string_view bytes) {
  waiting_ += bytes;
  problem_.clear();
  std::size_t written = 0;
  while (written < waiting_.size()) {
    const ssize_t count =
        ::write(file_.number, waiting_.data() + written, waiting_.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      problem_ = nn::system_message();
      break;
    }
    written += static_cast<std::size_t>(count);
  }
  waiting_.erase(0, written);
}

namespace {

/// Appends a number's bytes, the lowest first, whatever the machine's order is.
template <class T>
void append_fixed(std::string& bytes, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
}

/// Appends a number 7 bits at a time, the lowest first; the top bit says that more follow.
void append_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  bytes += static_cast<char>(value);
}

/// Kinds of fields in protocol buffers.
enum WireType : unsigned { varint = 0, fixed64 = 1, text_or_message = 2, fixed32 = 5 };

void append_key(std::string& bytes, unsigned field, WireType wire) {
  append_varint(bytes, field << 3 | wire);
}

void append_field(std::string& bytes, unsigned field, std::string_view value) {
  append_key(bytes, field, text_or_message);
  append_varint(bytes, value.size());
  bytes += value;
}

/// An Event without its content: wall_time is field 1, step is field 2.
std::string event_at(double time, std::int64_t step) {
  std::string event;
  append_key(event, 1, fixed64);
  append_fixed(event, std::bit_cast<std::uint64_t>(time));
  append_key(event, 2, varint);
  append_varint(event, static_cast<std::uint64_t>(step));
  return event;
}

/// A Summary's value: tag is field 1, simple_value is field 2.
std::string summary_value(const std::string& tag, double number) {
  std::string value;
  append_field(value, 1, tag);
  append_key(value, 2, fixed32);
  append_fixed(value, std::bit_cast<std::uint32_t>(static_cast<float>(number)));
  return value;
}

/// The format stores a checksum rotated and shifted, as that of bytes with checksums is a weak one.
std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8u; }

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    constexpr std::uint32_t polynomial = 0x82F63B78;  // Castagnoli's, lowest bit first
    std::array<std::uint32_t, 256> remainders;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t crc = byte;
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
      remainders[byte] = crc;
    }
    return remainders;
  }();
  std::uint32_t crc = ~0u;
  for (char byte : bytes) crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF] ^ crc >> 8;
  return ~crc;
}

EventFile::EventFile(const std::filesystem::path& path, double time) : file_(path) {
  std::string event = event_at(time, 0);
  append_field(event, 3, "brain.Event:2");  // file_version
  write_record(event);
}

void EventFile::write(double time, std::int64_t step,
                      const std::vector<std::pair<std::string, double>>& values) {
  std::string event = event_at(time, step), summary;
  for (const auto& [tag, number] : values) append_field(summary, 1, summary_value(tag, number));
  append_field(event, 5, summary);
  write_record(event);
}

void EventFile::write_record(const std::string& event) {
  std::string length, record;
  append_fixed(length, std::uint64_t{event.size()});
  record = length;
  append_fixed(record, masked(crc32c(length)));
  record += event;
  append_fixed(record, masked(crc32c(event)));
  file_.write(record);
}

}  // namespace plangrad::parallel
