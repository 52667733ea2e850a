// Channels: who uses which, and what every transport asks of a message.
// Not here: the transports. MPI guarantees tags up to 32767 only, so channels are small numbers.
// Chapter 04.
#pragma once

#include "autograd/error.h"
#include "parallel/transports/transport.h"

namespace paragrad::parallel {

inline constexpr int plan_channel = 0;         ///< messages between two ranks that a plan lists
inline constexpr int control_channel = 30000;  ///< what ranks tell each other around a plan
inline constexpr int last_channel = control_channel;

/// Sums and gathers of one of a plan's groups.
inline constexpr int group_channel(int group) { return 1 + group; }

/// throws: Error if the peer or the channel does not exist, or the size is negative
inline void check_message(const Transport& transport, const Message& message) {
  PG_CHECK(message.peer >= 0 && message.peer < transport.size(), "rank ", transport.rank(),
           ": a message to or from rank ", message.peer, "; there are ", transport.size(),
           " ranks");
  PG_CHECK(message.channel >= 0 && message.channel <= last_channel, "rank ", transport.rank(),
           ": channel ", message.channel, "; channels are 0 to ", last_channel);
  PG_CHECK(message.bytes >= 0 && (message.data || message.bytes == 0), "rank ", transport.rank(),
           ": a message of ", message.bytes, " bytes without an address");
}

}  // namespace paragrad::parallel
