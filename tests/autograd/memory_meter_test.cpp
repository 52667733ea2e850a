// The memory meter: live and peak bytes by category, the timeline, and tensors that report to it.
#include "autograd/device.h"

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/numbers.h"

using namespace plangrad::tests;

TEST_CASE("a meter with a cap refuses what would exceed it, and counts nothing of that",
          "[meter]") {
  DevicePtr device = cpu_device();
  MemoryMeter& meter = device->meter();
  meter.set_cap(100);
  Storage first(device, 60, Category::weights);
  CHECK_THROWS_WITH(Storage(device, 41, Category::activations),
                    Contains("41 bytes more for activations, beside the 60 that this rank holds") &&
                        Contains("above the cap of 100; raise --memory-cap"));
  CHECK(meter.live() == 60);
  CHECK(meter.peak() == 60);
  CHECK_NOTHROW(Storage(device, 40, Category::optimizer));
  meter.set_cap(0);
  CHECK_NOTHROW(Storage(device, 1000, Category::optimizer));
}

TEST_CASE("memory meter: live, peak, and the total's own peak", "[memory]") {
  MemoryMeter meter;
  meter.add(Category::weights, 100);
  meter.add(Category::activations, 50);
  meter.remove(Category::activations, 50);
  meter.add(Category::workspace, 30);
  CHECK(meter.live(Category::weights) == 100);
  CHECK(meter.live(Category::activations) == 0);
  CHECK(meter.peak(Category::activations) == 50);
  CHECK(meter.live() == 130);
  CHECK(meter.peak() == 150);  // not 180: activations and workspace were never there together
  meter.reset_peaks();
  CHECK(meter.peak() == 130);
  CHECK(meter.peak(Category::activations) == 0);
  CHECK(meter.peak(Category::weights) == 100);
}

TEST_CASE("memory meter: the timeline lists every change while it runs", "[memory]") {
  MemoryMeter meter;
  meter.add(Category::weights, 1);
  meter.start_timeline();
  meter.add(Category::gradients, 8);
  meter.add(Category::gradients, 4);
  meter.remove(Category::gradients, 8);
  meter.add(Category::weights, 2);
  auto events = meter.stop_timeline();
  meter.add(Category::weights, 100);
  REQUIRE(events.size() == 4);
  const std::int64_t live[] = {8, 12, 4, 3};
  for (int i = 0; i < 4; ++i) {
    CHECK(events[i].live == live[i]);
    CHECK(events[i].category == (i < 3 ? Category::gradients : Category::weights));
    CHECK(events[i].seconds >= (i ? events[i - 1].seconds : 0));
  }
  CHECK(meter.stop_timeline().empty());
}

TEST_CASE("memory meter: a tensor's storage is charged while someone holds it", "[memory]") {
  DevicePtr device = cpu_device();
  MemoryMeter& meter = device->meter();
  {
    Tensor x = zeros({3, 5}, DType::f32, device);
    Tensor window = x.window(3, {2});
    CHECK(meter.live(Category::activations) == 60);
    x = {};
    CHECK(meter.live(Category::activations) == 60);  // the window holds all of it
  }
  CHECK(meter.live() == 0);
  CHECK(meter.peak(Category::activations) == 60);
}

TEST_CASE("memory meter: scopes choose the category and give it back", "[memory]") {
  DevicePtr device = cpu_device();
  MemoryMeter& meter = device->meter();
  std::vector<Tensor> held;
  for (int i = 0; i < category_count; ++i) {
    CategoryScope scope(*device, static_cast<Category>(i));
    held.push_back(zeros({i + 1}, DType::f64, device));
  }
  for (int i = 0; i < category_count; ++i)
    CHECK(meter.live(static_cast<Category>(i)) == 8 * (i + 1));
  CHECK(device->category() == Category::activations);
  held.clear();
  for (int i = 0; i < category_count; ++i) CHECK(meter.live(static_cast<Category>(i)) == 0);
  CHECK(std::string(name_of(Category::optimizer)) == "optimizer");
}

TEST_CASE("memory meter: two devices do not share one", "[memory]") {
  DevicePtr a = cpu_device(), b = cpu_device();
  Tensor x = zeros({4}, DType::f32, a);
  CHECK(a->meter().live() == 16);
  CHECK(b->meter().live() == 0);
}

TEST_CASE("memory meter: a vacated storage is not charged until it is occupied again", "[memory]") {
  DevicePtr device = cpu_device();
  MemoryMeter& meter = device->meter();
  {
    Tensor x = zeros({3, 5}, DType::f32, device);
    Tensor window = x.window(3, {2});
    x.storage()->vacate();
    x.storage()->vacate();
    CHECK(meter.live() == 0);
    x.storage()->occupy();
    x.storage()->occupy();
    CHECK(meter.live(Category::activations) == 60);
    device->backend().fill(2, x);
    CHECK(to_host(window) == std::vector<double>{2, 2});
    x.storage()->vacate();
  }
  CHECK(meter.live() == 0);
  CHECK(meter.peak() == 60);
}

TEST_CASE("memory meter: a storage that is charged to another category leaves the total",
          "[memory]") {
  DevicePtr device = cpu_device();
  MemoryMeter& meter = device->meter();
  Tensor x = zeros({4}, DType::f32, device);
  meter.set_cap(16);  // no byte more, not even on the way
  x.storage()->charge_to(Category::workspace);
  CHECK(meter.live(Category::activations) == 0);
  CHECK(meter.live(Category::workspace) == 16);
  CHECK(meter.live() == 16);
  CHECK(meter.peak() == 16);
  x.storage()->vacate();
  x.storage()->charge_to(Category::weights);
  CHECK(meter.live() == 0);
  x.storage()->occupy();
  CHECK(meter.live(Category::weights) == 16);
  x = {};
  CHECK(meter.live() == 0);
}
