#pragma once
// How packets get to one neighbour and from it: what is behind a face, to the driver.

#include <cstdint>
#include <span>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "transport/buffer/packet_ref.hpp"

namespace innet::driver {

struct SocketCounters {
    std::uint64_t receive_calls = 0;
    std::uint64_t send_calls = 0;     ///< of shared memory: what wakes up the other end
    std::uint64_t messages_sent = 0;  ///< after segmentation offload: what the kernel was handed
    std::uint64_t refused = 0;        ///< the peer's port was closed (ICMP)
    std::uint64_t send_errors = 0;
    std::uint64_t dropped_framing = 0;  ///< times that what came could not be cut into packets
};

/// What a channel's end was.
enum class ChannelEnd : std::uint8_t {
    kOpen,
    kHungUp,       ///< by the peer, or the connection broke
    kBadFraming,   ///< what came could not be cut into packets
    kForeignType,  ///< what came is no packet of NDN: the peer speaks another protocol
};

/// Neither blocks nor allocates per packet once warm.
class Channel {
  public:
    virtual ~Channel() = default;

    /// Readable when there is something to receive; -1 when it is another's who receives for it.
    virtual int fd() const = 0;
    /// Whether `fd` becomes writable when there is room again; else it becomes readable.
    virtual bool writable_with_room() const { return true; }
    /// Whether room comes only when the peer reads; else the kernel makes room by itself.
    virtual bool room_needs_reader() const { return false; }
    /// Appends packets that have arrived, at most a batch. True when more may wait.
    virtual bool receive(PacketPool& pool, std::vector<PacketRef>& into) = 0;
    /// Sends from the front of `packets`; the number taken. Fewer than all: there is no room, and
    /// the next call must begin with the first that was not taken.
    virtual std::size_t send(std::span<const OutgoingPacket> packets) = 0;
    /// Bytes sent that the other end has not taken from the system yet. Up to `enough` an upper
    /// bound will do, which costs no system call. 0 where the system does not say.
    virtual std::size_t queued_bytes(std::size_t enough) {
        (void)enough;
        return 0;
    }
    /// Whether packets come as a stream of bytes: a malformed one makes the rest suspect.
    virtual bool is_stream() const { return false; }
    /// Whether `send` copies packets that lie in parts.
    virtual bool takes_parts() const { return false; }
    /// Whether packets may come that `fd` does not tell of: who waits for it alone calls `rest`
    /// before.
    virtual bool awake() const { return false; }
    /// From now on `fd` tells of packets. False when some are here already.
    virtual bool rest() { return true; }
    /// An ended channel neither receives nor sends.
    virtual ChannelEnd end() const { return ChannelEnd::kOpen; }
    virtual const SocketCounters& counters() const = 0;
};

}  // namespace innet::driver
