#pragma once
// Packets whose fragments arrive apart, put together again (NDNLPv2,
// redmine.named-data.net/projects/nfd/wiki/NDNLPv2, "Fragmentation and Reassembly": sequence
// numbers are consecutive, and the other fields of the header stand on the first fragment).

#include <cstdint>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "transport/time.hpp"
#include "transport/wire/lp.hpp"

namespace innet::forwarding {

/// Keeps copies of a bounded number of fragments, for each face and in all, for a bounded time. It
/// allocates: fragments of innet's nodes arrive together (`driver::FragmentLanding`), unless a link
/// takes their message apart.
class Reassembler {
  public:
    /// Fragments of one packet; NFD's limit is higher, but no MTU in use needs it.
    static constexpr std::uint64_t kMaxFragments = 64;
    static constexpr std::size_t kMaxPacketsPerFace = 8;
    static constexpr std::size_t kMaxPackets = 256;
    /// From the first fragment that came, as NFD has it.
    static constexpr Duration kTimeout = std::chrono::milliseconds(500);

    explicit Reassembler(PacketPool& pool) : pool_(pool) {}

    enum class Outcome : std::uint8_t {
        kWaiting,   ///< for more of the packet, or it came twice
        kComplete,  ///< `whole` is the packet, with the link headers of its first fragment
        kRefused,   ///< there are too many, they do not fit together, or are too large for a packet
    };
    /// `fragment` is what `view` shows, which has a `fragment()`; of a packet of at most
    /// `max_packet_bytes`.
    Outcome add(FaceId face, const PacketRef& fragment, const wire::LpView& view,
                std::size_t max_packet_bytes, TimePoint now, PacketRef& whole);
    /// The face has been closed.
    void forget(FaceId face);
    void on_timer(TimePoint now);
    TimePoint next_deadline() const {
        return packets_.empty() ? kNever : packets_.front().begun + kTimeout;
    }

    std::size_t packets() const { return packets_.size(); }
    /// Packets of which not all came in time, or that others have displaced.
    std::uint64_t given_up() const { return given_up_; }

  private:
    struct Packet {
        FaceId face = kNoFace;
        std::uint64_t first_sequence = 0;
        std::vector<PacketRef> fragments;  ///< by index; empty until it arrives
        std::size_t missing = 0;
        std::size_t payload_bytes = 0;
        std::size_t kept_bytes = 0;  ///< with the fragments' own headers
        TimePoint begun;
    };
    using Packets = std::vector<Packet>;

    Packets::iterator find_or_begin(FaceId face, const wire::FragmentInfo& info, TimePoint now);
    void make_room(FaceId face);
    PacketRef join(const Packet& packet);

    PacketPool& pool_;
    Packets packets_;  ///< in the order of their first fragments
    std::uint64_t given_up_ = 0;
};

}  // namespace innet::forwarding
