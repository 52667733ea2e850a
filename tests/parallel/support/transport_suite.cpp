// Checks of messages; those of collectives are in collective_suite.cpp.
#include "tests/parallel/support/transport_suite.h"

#include "autograd/backend.h"
#include "autograd/ops.h"
#include "parallel/transports/launch.h"
#include "tests/error_of.h"

namespace plangrad::tests {
namespace {

using namespace parallel;
using autograd::DevicePtr;
using autograd::DType;
using autograd::Tensor;
using autograd::text;

constexpr double timeout = 60;
using Bytes = std::vector<unsigned char>;

/// Bytes in a device's memory.
class Buffer {
 public:
  Buffer(const Bytes& bytes, const DevicePtr& device)
      : tensor_(autograd::empty({static_cast<std::int64_t>(bytes.size())}, DType::u8, device)) {
    tensor_.backend().copy_from_host(bytes.data(), tensor_);
  }
  Buffer(std::size_t size, const DevicePtr& device) : Buffer(Bytes(size), device) {}

  void* data() const { return tensor_.raw(); }
  std::int64_t size() const { return tensor_.bytes(); }
  bool operator==(const Bytes& expected) const {
    Bytes bytes(size());
    tensor_.backend().copy_to_host(tensor_, bytes.data());
    return bytes == expected;
  }

 private:
  Tensor tensor_;
};

/// Differs by sender, receiver and number.
Bytes contents(int from, int to, int number, std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<unsigned char>(31 * i + 7 * from + 3 * to + number);
  return bytes;
}

void barrier(Transport& transport) { all_gather_bytes(transport, "", timeout); }

std::unique_ptr<Request> send(Transport& transport, int peer, int channel, const Buffer& buffer) {
  return transport.send({peer, channel, buffer.data(), buffer.size()});
}
std::unique_ptr<Request> receive(Transport& transport, int peer, int channel,
                                 const Buffer& buffer) {
  return transport.receive({peer, channel, buffer.data(), buffer.size()});
}

void expect_error(const std::string& error, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    PG_CHECK(error.find(part) != std::string::npos, "expected an error with '", part, "', got '",
             error, "'");
}

/// Everybody, itself included, to everybody, several at once: every size arrives whole, in order.
void everybody_to_everybody(Transport& transport, const DevicePtr& device) {
  const std::vector<std::size_t> sizes{0, 1, 1000, 100003, 3, 500000};
  std::vector<Buffer> sent, arrived;
  std::vector<std::unique_ptr<Request>> requests;
  for (int peer = 0; peer < transport.size(); ++peer)
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      sent.emplace_back(contents(transport.rank(), peer, static_cast<int>(i), sizes[i]), device);
      arrived.emplace_back(sizes[i], device);
    }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    int peer = static_cast<int>(i / sizes.size());
    requests.push_back(send(transport, peer, plan_channel, sent[i]));
    requests.push_back(receive(transport, peer, plan_channel, arrived[i]));
  }
  for (auto& request : requests) wait_for(transport, *request, timeout, "a message");
  for (std::size_t i = 0; i < arrived.size(); ++i) {
    int peer = static_cast<int>(i / sizes.size()), number = static_cast<int>(i % sizes.size());
    PG_CHECK(arrived[i] == contents(peer, transport.rank(), number, sizes[number]), "message ",
             number, " of rank ", peer, " differs from what was sent");
  }
}

/// A message overtakes none of its own channel, and is not held up by another channel.
void channels_are_apart(Transport& transport, const DevicePtr& device) {
  int right = (transport.rank() + 1) % transport.size();
  int left = (transport.rank() + transport.size() - 1) % transport.size();
  std::vector<Buffer> sent, arrived;
  std::vector<std::unique_ptr<Request>> sends;
  for (int number = 0; number < 40; ++number) {
    sent.emplace_back(contents(transport.rank(), right, number, 100), device);
    arrived.emplace_back(100, device);
  }
  for (int number = 0; number < 40; ++number)
    sends.push_back(send(transport, right, group_channel(number % 2), sent[number]));
  for (int channel : {1, 0})  // the other one first
    for (int number = channel; number < 40; number += 2) {
      auto request = receive(transport, left, group_channel(channel), arrived[number]);
      wait_for(transport, *request, timeout, "a message");
      PG_CHECK(arrived[number] == contents(left, transport.rank(), number, 100), "message ", number,
               " came out of order");
    }
  for (auto& request : sends) wait_for(transport, *request, timeout, "a send");
}

void positions_arrive(Transport& transport) {
  for (int cell : {3, 12}) {
    auto position = [cell](int rank) { return Position{.cell = 100 * rank + cell, .plan = 2}; };
    transport.publish(position(transport.rank()));
    for (int rank = 0; rank < transport.size(); ++rank) {
      Deadline deadline(timeout);
      while (transport.position(rank) != position(rank)) {
        PG_CHECK(deadline.left() > 0, "rank ", rank, "'s position did not arrive");
        transport.wait(0.01);
      }
    }
    barrier(transport);
  }
}

void waits_end(Transport& transport) {
  transport.wake();
  transport.wait(1e9);  // woken before it slept
  std::jthread other([&] { transport.wake(); });
  transport.wait(1e9);
}

/// Nobody sends: the receive is given up in time, and takes nothing that is sent later.
void deadlines_hold(Transport& transport, const DevicePtr& device) {
  int left = (transport.rank() + transport.size() - 1) % transport.size();
  int right = (transport.rank() + 1) % transport.size();
  const Buffer given_up(8, device), arrived(8, device);
  const Buffer sent(contents(transport.rank(), right, 5, 8), device);
  std::string error = error_of([&] {
    auto request = receive(transport, left, 7, given_up);
    wait_for(transport, *request, 0.02, "turn 3", left);
  });
  expect_error(
      error, {text("rank ", transport.rank(), ": waited 0.02 s for turn 3; rank ", left, " was ")});
  barrier(transport);
  auto request = receive(transport, left, 7, arrived);
  auto other = send(transport, right, 7, sent);
  wait_for(transport, *request, timeout, "a message");
  wait_for(transport, *other, timeout, "a send");
  PG_CHECK(arrived == contents(left, transport.rank(), 5, 8), "another message came");
  PG_CHECK(given_up == Bytes(8), "a receive that was given up was written to");
}

/// Sent 8 bytes, expected more or fewer: an error on the receiver's side that names both.
void sizes_must_agree(Transport& transport, const DevicePtr& device) {
  int left = (transport.rank() + transport.size() - 1) % transport.size();
  int right = (transport.rank() + 1) % transport.size();
  for (std::size_t expected : {12, 4}) {
    const Buffer sent(8, device), arrived(expected, device);
    auto out = send(transport, right, 9, sent);
    auto in = receive(transport, left, 9, arrived);
    std::string error = error_of([&] { wait_for(transport, *in, timeout, "a message"); });
    // MPICH does not tell the length of a message that is too long.
    const bool more = expected < 8 && transport.name() == std::string("mpi") &&
                      error.find(" sent more ") != std::string::npos;
    expect_error(error, {text("rank ", left, more ? " sent more" : " sent 8 bytes"),
                         text("rank ", transport.rank(), " expects ", expected)});
    error_of([&] { wait_for(transport, *out, timeout, "a send"); });  // threads: here too
    barrier(transport);
  }
}

void bad_messages_are_refused(Transport& transport) {
  int byte = 0;
  int size = transport.size();
  auto refused = [&](const Message& message, const std::string& part) {
    expect_error(error_of([&] { transport.send(message); }), {part});
    expect_error(error_of([&] { transport.receive(message); }), {part});
  };
  refused({size, 0, &byte, 1}, "there are " + autograd::counted(size, "rank"));
  refused({-1, 0, &byte, 1}, "rank -1");
  refused({0, -1, &byte, 1}, "channel -1");
  refused({0, last_channel + 1, &byte, 1}, "channels are 0 to");
  refused({0, 0, &byte, -1}, "a message of -1 bytes");
  refused({0, 0, nullptr, 4}, "without an address");
}

void texts_are_gathered(Transport& transport) {
  auto own = [](int rank) {
    return std::string(static_cast<std::size_t>(rank) * 50000, 'a') + "\0b ";
  };
  std::vector<std::string> all;
  for (int rank = 0; rank < transport.size(); ++rank) all.push_back(own(rank));
  std::vector<std::string> gathered = gather_bytes(transport, own(transport.rank()), timeout);
  PG_CHECK(gathered == (transport.rank() == 0 ? all : std::vector<std::string>()), "gather_bytes");
  PG_CHECK(all_gather_bytes(transport, own(transport.rank()), timeout) == all, "all_gather_bytes");
  std::string mine = transport.rank() == 0 ? own(3) : "something else";
  PG_CHECK(broadcast_bytes(transport, mine, timeout) == own(3), "broadcast_bytes");
  PG_CHECK(broadcast_bytes(transport, "", timeout).empty(), "broadcast_bytes of nothing");
  const auto fails = []() -> std::string { throw std::runtime_error("+ fails"); };
  PG_CHECK(error_of([&] { broadcast_result(transport, timeout, fails); }) == "+ fails", "an error");
}

}  // namespace

void transport_checks(Transport& transport, const DevicePtr& device) {
  everybody_to_everybody(transport, device);
  channels_are_apart(transport, device);
  positions_arrive(transport);
  waits_end(transport);
  deadlines_hold(transport, device);
  sizes_must_agree(transport, device);
  bad_messages_are_refused(transport);
  texts_are_gathered(transport);
  PG_CHECK(!transport.failure(), "somebody failed: ", transport.failure()->what);
  barrier(transport);
}

}  // namespace plangrad::tests
