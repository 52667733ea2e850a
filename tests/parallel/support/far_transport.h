// FarTransport: a rank's seat, from which the others were heard of 100 s ago.
// Not here: what is made of that (at_work_test.cpp, failures_test.cpp).
#pragma once

#include "parallel/transports/transport.h"

namespace plangrad::tests {

using namespace plangrad::parallel;

class FarTransport : public Transport {
 public:
  explicit FarTransport(Transport& near) : near_(near) {}
  int rank() const override { return near_.rank(); }
  int size() const override { return near_.size(); }
  const char* name() const override { return "far"; }
  std::unique_ptr<Request> send(const Message& message) override { return near_.send(message); }
  std::unique_ptr<Request> receive(const Message& message) override {
    return near_.receive(message);
  }
  void wait(double seconds) override { near_.wait(seconds); }
  void wake() override { near_.wake(); }
  void publish(Position position) override { near_.publish(position); }
  Position position(int rank) const override { return near_.position(rank); }
  double silence(int) const override { return 100; }
  void fail(const std::string& what) override { near_.fail(what); }
  std::optional<Failure> failure() override { return near_.failure(); }

 private:
  Transport& near_;
};

}  // namespace plangrad::tests
