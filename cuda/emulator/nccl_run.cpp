// Runs collectives and messages on the buffers of all their ranks.
// Not here: algorithms of messages; each result is computed once and copied.
// NCCL user guide, collective operations.
#include <algorithm>
#include <cstring>

#include "cuda/emulator/communicator.h"
#include "cuda/emulator/cuda_bf16.h"
#include "cuda/emulator/observer.h"

namespace plangrad::cuda::emulator {

namespace {

using Bytes = std::vector<std::byte>;

template <class T>
T combine(ncclRedOp_t operation, T a, T b) {
  switch (operation) {
    case ncclProd: return a * b;
    case ncclMax: return std::max(a, b);
    case ncclMin: return std::min(a, b);
    default: return a + b;
  }
}

/// Elements [first, first + count) of all ranks, combined in the order of ranks. `Wide` is what
/// they are combined in.
template <class T, class Wide, class Widen, class Narrow>
Bytes reduce_as(const std::vector<Call>& calls, std::size_t first, Widen widen, Narrow narrow) {
  std::size_t count = calls[0].count;
  ncclRedOp_t operation = calls[0].operation;
  Bytes result(count * sizeof(T));
  for (const Call& call : calls)
    note(static_cast<const T*>(call.source) + first, result.size(), reading);
  for (std::size_t i = 0; i < count; ++i) {
    auto value = [&](const Call& call) -> Wide {
      return widen(static_cast<const T*>(call.source)[first + i]);
    };
    Wide sum = value(calls[0]);
    for (std::size_t r = 1; r < calls.size(); ++r) sum = combine(operation, sum, value(calls[r]));
    if (operation == ncclAvg) sum /= Wide(calls.size());
    reinterpret_cast<T*>(result.data())[i] = narrow(sum);
  }
  return result;
}

Bytes reduce(const std::vector<Call>& calls, std::size_t first) {
  auto same = [](auto x) { return x; };
  switch (calls[0].type) {
    case ncclInt8: return reduce_as<std::int8_t, int>(calls, first, same, same);
    case ncclUint8: return reduce_as<std::uint8_t, int>(calls, first, same, same);
    case ncclInt32: return reduce_as<std::int32_t, std::int32_t>(calls, first, same, same);
    case ncclInt64: return reduce_as<std::int64_t, std::int64_t>(calls, first, same, same);
    case ncclFloat32: return reduce_as<float, float>(calls, first, same, same);
    case ncclFloat64: return reduce_as<double, double>(calls, first, same, same);
    case ncclBfloat16:
      return reduce_as<__nv_bfloat16, float>(calls, first, __bfloat162float, __float2bfloat16);
  }
  return {};
}

void copy(void* to, const void* from, std::size_t bytes) {
  if (to == from || bytes == 0) return;
  std::memcpy(to, from, bytes);
  note_copy(to, from, bytes);
}

}  // namespace

int bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclFloat64: return 8;
  }
  return 0;
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::all_reduce: return "ncclAllReduce";
    case Kind::reduce: return "ncclReduce";
    case Kind::reduce_scatter: return "ncclReduceScatter";
    case Kind::broadcast: return "ncclBroadcast";
    case Kind::all_gather: return "ncclAllGather";
    case Kind::send: return "ncclSend";
    case Kind::receive: return "ncclRecv";
  }
  return "";
}

void run_together(const std::vector<Call>& calls) {
  const Call& first = calls[0];
  std::size_t bytes = first.count * bytes_of(first.type);
  switch (first.kind) {
    case Kind::all_reduce: {
      Bytes sum = reduce(calls, 0);
      for (const Call& call : calls) copy(call.target, sum.data(), bytes);
      break;
    }
    case Kind::reduce: copy(calls[first.peer].target, reduce(calls, 0).data(), bytes); break;
    case Kind::reduce_scatter:
      for (std::size_t r = 0; r < calls.size(); ++r)
        copy(calls[r].target, reduce(calls, r * first.count).data(), bytes);
      break;
    case Kind::broadcast:
      for (const Call& call : calls) copy(call.target, calls[first.peer].source, bytes);
      break;
    case Kind::all_gather:
      for (std::size_t r = 0; r < calls.size(); ++r)
        for (const Call& call : calls)
          copy(static_cast<std::byte*>(call.target) + r * bytes, calls[r].source, bytes);
      break;
    case Kind::send:
    case Kind::receive: copy(calls[1].target, first.source, bytes); break;
  }
}

}  // namespace plangrad::cuda::emulator
