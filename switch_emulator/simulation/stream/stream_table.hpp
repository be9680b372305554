#pragma once
// All byte streams of a simulation: their senders, bytes and paths of links. Sans-IO.
//
// Streams bypass the nodes, as a router forwards IP beside NDN: they have no names and need no
// tables, but they share the links and their queues with all other packets.

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "switch_emulator/port/random_bits.hpp"
#include "switch_emulator/simulation/stream/receiver.hpp"
#include "switch_emulator/simulation/stream/sender.hpp"
#include "transport/deadline_heap.hpp"

namespace innet::simulation::stream {

/// Number of one direction of a link, as the simulation counts them.
using LinkIndex = std::uint32_t;

/// The links, as streams see them.
class Wire {
  public:
    virtual ~Wire() = default;
    virtual void put(LinkIndex link, PacketRef packet) = 0;
    /// Zero while a sender may add to the link's queue; else how long to wait. A machine's own
    /// queue holds its senders back and drops nothing of theirs (Linux's TCP small queues).
    virtual Duration time_to_room(LinkIndex link) = 0;
};

/// The links from the sender to the receiver, and back.
struct Paths {
    std::vector<LinkIndex> forth;
    std::vector<LinkIndex> back;
};

class StreamTable {
  public:
    /// Both outlive the table.
    StreamTable(Wire& wire, PacketPool& pool) : wire_(wire), pool_(pool) {}

    StreamId add(const SenderOptions& options, Paths paths);
    std::size_t size() const { return streams_.size(); }
    void write(StreamId stream, std::uint64_t bytes, TimePoint now);
    /// `token` is reported once the first `bytes` of the stream have arrived.
    void watch(StreamId stream, std::uint64_t bytes, std::uint64_t token);
    /// The tokens whose bytes have arrived since the last call.
    std::vector<std::uint64_t> take_arrived() { return std::exchange(arrived_, {}); }
    bool has_arrived() const { return !arrived_.empty(); }

    /// A packet has crossed `link`.
    void on_packet(LinkIndex link, const PacketRef& packet, TimePoint now);
    void on_timer(TimePoint now);
    TimePoint next_deadline() const { return deadlines_.earliest(); }

    const Paths& paths(StreamId stream) const { return streams_[stream].paths; }
    const Sender& sender(StreamId stream) const { return streams_[stream].sender; }
    const Receiver& receiver(StreamId stream) const { return streams_[stream].receiver; }

  private:
    struct Watch {
        std::uint64_t bytes;
        std::uint64_t token;
    };
    struct Stream {
        Stream(const SenderOptions& options, Paths paths_)
            : paths(std::move(paths_)),
              sender(options),
              max_processing(options.max_processing),
              random(options.seed) {}
        Paths paths;
        Sender sender;
        Receiver receiver;
        std::deque<Watch> watches;  ///< by bytes
        Duration max_processing;
        port::RandomBits random;
        TimePoint blocked_until = kNever;  ///< never: nothing to wait for but acknowledgements
    };

    void on_data(LinkIndex link, const PacketRef& packet, const DataSegment& segment,
                 TimePoint now);
    void on_acknowledgement(LinkIndex link, const PacketRef& packet,
                            const Acknowledgement& acknowledgement, TimePoint now);
    /// Sends the packet over the next link of its path. False when `link` is the last one.
    bool forward(const std::vector<LinkIndex>& path, LinkIndex link, const PacketRef& packet);
    /// A random delay before processing: without it, flows over equal links would synchronise. The
    /// flow that filled the queue would always get the next free place, and the others would starve
    /// (Floyd and Jacobson, "On traffic phase effects in packet-switched gateways", 1992).
    void process_acknowledgement(StreamId id, TimePoint now);
    void send(StreamId id, TimePoint now);
    void report_arrived(Stream& stream);
    void set_deadline(StreamId id);

    Wire& wire_;
    PacketPool& pool_;
    std::deque<Stream> streams_;
    DeadlineHeap deadlines_;
    std::vector<std::uint64_t> arrived_;
};

}  // namespace innet::simulation::stream
