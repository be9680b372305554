#pragma once
// How packets get to one neighbour and from it: what is behind a face, to the driver.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "transport/buffer/packet_ref.hpp"
#include "transport/metric.hpp"

namespace innet::driver {

struct SocketCounters {
    std::uint64_t receive_calls = 0;
    std::uint64_t send_calls = 0;
    std::uint64_t messages_sent = 0;
    std::uint64_t segmentation_refused = 0;
    std::uint64_t refused = 0;
    std::uint64_t send_errors = 0;
    std::uint64_t dropped_framing = 0;

    static constexpr auto metrics() {
        using enum MetricKind;
        return std::to_array<Metric<SocketCounters>>({
            {"receive_calls", "face_receive_calls", kCounter, "System calls to receive",
             &SocketCounters::receive_calls},
            {"send_calls", "face_send_calls", kCounter,
             "System calls to send; of shared memory, wake-ups of the peer",
             &SocketCounters::send_calls},
            {"messages_sent", "face_messages_sent", kCounter,
             "Messages handed to the kernel after segmentation offload",
             &SocketCounters::messages_sent},
            {"segmentation_refused", "face_segmentation_refused", kCounter,
             "Runs of packets that the kernel refused to segment",
             &SocketCounters::segmentation_refused},
            {"refused", "face_refused", kCounter,
             "Datagrams refused because the peer's port was closed", &SocketCounters::refused},
            {"send_errors", "send_errors", kCounter, "System calls to send that failed",
             &SocketCounters::send_errors},
            {"dropped_framing", "face_dropped_framing", kCounter,
             "Messages dropped because they are no sequence of packets",
             &SocketCounters::dropped_framing},
        });
    }
};
static_assert(has_metric_for_each_member<SocketCounters>());

/// What a channel's end was.
enum class ChannelEnd : std::uint8_t {
    kOpen,
    kHungUp,       ///< by the peer, or the connection broke
    kBadFraming,   ///< the received bytes do not split into packets
    kForeignType,  ///< the received packet is not NDN: the peer speaks another protocol
};

/// Neither blocks nor allocates per packet once warm.
class Channel {
  public:
    virtual ~Channel() = default;

    /// Readable when there is something to receive; -1 when another channel receives for it.
    virtual int fd() const = 0;
    /// Whether `fd` becomes writable when there is room again; else it becomes readable.
    virtual bool writable_with_room() const { return true; }
    /// Whether only the peer's reads free room; else the kernel frees room by itself.
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
    /// Whether packets arrive as a stream of bytes: after a malformed one, the rest is suspect.
    virtual bool is_stream() const { return false; }
    /// Whether `send` copies packets that lie in parts.
    virtual bool takes_parts() const { return false; }
    /// Whether packets may arrive without making `fd` readable: a thread calls `rest` before it
    /// waits for `fd` alone.
    virtual bool awake() const { return false; }
    /// From now on, arriving packets make `fd` readable. False when some are here already.
    virtual bool rest() { return true; }
    /// An ended channel neither receives nor sends.
    virtual ChannelEnd end() const { return ChannelEnd::kOpen; }
    virtual const SocketCounters& counters() const = 0;
};

}  // namespace innet::driver
