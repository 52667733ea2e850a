// The part of NCCL that plangrad uses: ranks are host threads of this process, or one thread drives
// all by group calls; or each is a process whose machine has one device, and calls do not wait.
// Not here: ranks on several hosts.
// NCCL user guide, API.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
enum ncclDataType_t { ncclUint8 = 1, ncclFloat32 = 7, ncclFloat = 7, ncclBfloat16 = 9 };
enum ncclRedOp_t { ncclSum = 0 };

struct ncclUniqueId {
  char internal[128];
};
using ncclComm_t = struct ncclComm*;

struct ncclConfig_t {
  int blocking = 1;
};
inline constexpr ncclConfig_t NCCL_CONFIG_INITIALIZER{};

ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
/// Waits for the other ranks; in a group, at its end.
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank);
/// With blocking = 0, no call waits, and each returns ncclInProgress. ncclCommGetAsyncError returns
/// it, too, until all ranks have come; and it carries out the last call, which has no effect
/// before. It must be asked before the next call, and before anything that relies on the last one.
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
/// To be called before ncclCommDestroy, if calls don't wait.
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
/// Drops the work that this rank has queued. The others' operations with it then never complete,
/// and their asynchronous error is ncclRemoteError, until they abort as well.
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);

/// The calls between these two are queued on the streams together.
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();

// Reductions sum f32 or bf16 in the order of ranks, in f32, and round once: all ranks get the same
// bits.
ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, std::size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, std::size_t count,
                        ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                        cudaStream_t stream);
/// Rank r receives the r-th `recvcount` elements of the reduction.
ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, std::size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, std::size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, std::size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
/// Completes when the other rank has received, so rings of sends need a group.
ncclResult_t ncclSend(const void* sendbuff, std::size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* recvbuff, std::size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);
