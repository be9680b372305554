#pragma once
// Repeats the packets that a link loses, from the node in front of it (NDNLPv2, fields TxSequence
// and Ack), so a loss costs a round trip of one link instead of one of the whole path.
//
// Every packet has a number, each repetition a new one: an acknowledgement shows which of them
// arrived. The neighbour acknowledges in idle packets, a millisecond after it received a packet or
// once 16 wait; each idle packet states the numbers of the one before as well, so that one that is
// lost repeats nothing. A packet is lost when one sent three numbers later was acknowledged and 9/8
// of the round trip passed (RFC 9002, section 6.1), or at the retransmission timeout of RFC 6298.
// After four repetitions the node gives the packet up: its requester repeats it.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "transport/deadline_heap.hpp"
#include "transport/fetch/rtt_estimator.hpp"
#include "transport/time.hpp"

namespace innet::forwarding {

/// Packets of one link that were sent and not acknowledged, by number.
class UnacknowledgedPackets {
  public:
    /// What `take_lost` did with packets that were lost.
    struct Losses {
        std::size_t repeated = 0;
        std::size_t given_up = 0;
    };

    UnacknowledgedPackets();

    /// The number of the next packet.
    std::uint64_t next_number() const { return next_; }
    /// Keeps the packet, whose header has `next_number()`. How many others were given up for it:
    /// at most 4,096 packets and 4 MiB are kept.
    std::size_t add(const OutgoingPacket& packet, TimePoint now);
    void on_acknowledged(std::uint64_t number, TimePoint now);
    /// Appends the packets that are to be sent again, with their new numbers, and keeps them.
    Losses take_lost(TimePoint now, std::vector<OutgoingPacket>& into);
    TimePoint next_deadline() const;
    std::size_t size() const { return size_; }

  private:
    struct Kept {
        OutgoingPacket packet;
        std::uint64_t number = 0;     ///< 0: none, or acknowledged
        std::uint64_t successor = 0;  ///< number of its repetition; 0: none
        TimePoint sent{};
        std::uint8_t repetitions = 0;
        bool is_awaited = false;
    };

    Kept& at(std::uint64_t number) { return ring_[number & (ring_.size() - 1)]; }
    const Kept& at(std::uint64_t number) const { return ring_[number & (ring_.size() - 1)]; }
    bool is_overtaken(std::uint64_t number) const;
    TimePoint deadline_of(std::uint64_t number) const;
    void keep(OutgoingPacket packet, std::uint8_t repetitions, TimePoint now);
    /// Forgets the packet; when and whether it was repeated stays known for a while.
    OutgoingPacket release(std::uint64_t number);
    void release_successor(std::uint64_t number);
    void skip_released();
    void grow();

    std::vector<Kept> ring_;  ///< by number, modulo its size, a power of two
    std::uint64_t oldest_ = 1;
    std::uint64_t next_ = 1;
    std::uint64_t latest_acknowledged_ = 0;
    TimePoint last_acknowledged_{};
    TimePoint last_timeout_{};
    RttEstimator rtt_;
    std::size_t size_ = 0;
    std::size_t bytes_ = 0;
};

/// Numbers that arrived on one link and wait to be acknowledged.
class Acknowledgements {
  public:
    static constexpr std::size_t kPerPacket = 16;

    /// True when a packet is full of them: it must be taken before the next one is added.
    bool add(std::uint64_t number, TimePoint now);
    TimePoint deadline() const { return deadline_; }
    /// An idle packet that states them, and those of the packet before. Empty when memory is short.
    PacketRef take(PacketPool& pool);

  private:
    std::array<std::uint64_t, 2 * kPerPacket> numbers_{};  ///< those of the packet before in front
    std::size_t stated_ = 0;                               ///< by the packet before
    std::size_t count_ = 0;
    TimePoint deadline_ = kNever;
};

/// The links of a node. Links whose packets are neither repeated nor acknowledged cost nothing.
class LinkReliability {
  public:
    explicit LinkReliability(PacketPool& pool) : pool_(pool) {}

    /// Adds a face; replaces an earlier one of that number.
    void add_face(FaceId face);
    /// The number of the next packet to `face`.
    std::uint64_t next_number(FaceId face) { return link_at(face).unacknowledged.next_number(); }
    /// As `UnacknowledgedPackets::add`.
    std::size_t on_sent(FaceId face, const OutgoingPacket& packet, TimePoint now);
    /// True when acknowledgements must be taken before anything else is received.
    bool on_received(FaceId face, std::uint64_t number, TimePoint now);
    void on_acknowledged(FaceId face, const wire::LpView& link, TimePoint now);

    TimePoint next_deadline() const { return deadlines_.earliest(); }
    /// The face of the earliest deadline, if that is not after `now`; else kNoFace.
    FaceId due_face(TimePoint now) const;
    /// Appends what is to be sent to `face` now: repetitions and acknowledgements.
    UnacknowledgedPackets::Losses take_due(FaceId face, TimePoint now,
                                           std::vector<OutgoingPacket>& into);

  private:
    struct Link {
        UnacknowledgedPackets unacknowledged;
        Acknowledgements acknowledgements;
    };

    Link& link_at(FaceId face);
    void schedule(FaceId face);

    PacketPool& pool_;
    std::vector<std::unique_ptr<Link>> links_;  ///< by face; null until one is needed
    DeadlineHeap deadlines_;                    ///< by face
};

}  // namespace innet::forwarding
