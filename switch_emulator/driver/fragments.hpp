#pragma once
// Packets larger than a link's datagrams (NDNLPv2, "Fragmentation and Reassembly"): cut into
// fragments that leave as one message with segmentation offload, and joined without a copy where
// they arrive as one. Fragments that arrive apart are joined by `forwarding::Reassembler`.

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "transport/buffer/packet_ref.hpp"

namespace innet::driver {

/// What fits into one UDP datagram over IPv4.
inline constexpr std::size_t kMaxDatagramBytes = 65507;
/// The kernel cuts a message into so many datagrams at most.
inline constexpr std::size_t kMaxDatagramsOfMessage = 64;

/// How one packet is cut: every datagram but the last has `datagram_bytes`.
struct FragmentCut {
    std::size_t datagram_bytes = 0;
    std::size_t fragments = 0;
    std::uint64_t sequence = 0;  ///< of the first; the others' follow it
    std::size_t first_piece_bytes = 0;
};

/// Nothing (`fragments` is 0) when the packet would need more datagrams than one message may have.
FragmentCut cut_into_fragments(const OutgoingPacket& packet, std::size_t datagram_bytes,
                               std::uint64_t sequence);

/// Room for the link header of a fragment: the first has the packet's own fields, too.
using FragmentHeader = std::array<std::uint8_t, 128>;

/// Appends header and piece of the fragment of that index to `vectors`; the header is written to
/// `header`, which has to stay until they are sent.
void append_fragment(const OutgoingPacket& packet, const FragmentCut& cut, std::size_t index,
                     FragmentHeader& header, std::vector<iovec>& vectors);

/// Memory that one received message lands in. Link headers of fragments after the first land apart
/// from the pieces, which therefore follow each other.
class FragmentLanding {
  public:
    /// `datagram_bytes` of fragments; 0 where none arrive: all bytes land in order.
    FragmentLanding(std::size_t datagram_bytes, PacketPool& pool);

    /// Where the kernel puts the message, in order.
    std::span<iovec> vectors();
    /// The packet whose fragments the message of `total` bytes holds in their order; empty when
    /// it holds anything else. `step`: size of every datagram but the last.
    PacketRef join(std::size_t total, std::size_t step);
    /// `size` bytes of the message from `offset`: a share of the memory where they lie together and
    /// are more than a few, else a copy.
    PacketRef take(std::size_t offset, std::size_t size, bool copies);

  private:
    void renew();
    std::size_t piece_offset(std::size_t index) const;
    /// Bytes of the piece in the datagram of `size` bytes at `index`; 0: it is no such fragment.
    std::size_t piece_bytes(std::size_t index, std::size_t fragments, std::uint64_t sequence,
                            std::size_t size);

    PacketPool* pool_;
    std::size_t datagram_bytes_;
    PacketRef buffer_;
    bool is_shared_ = false;
    std::vector<std::uint8_t> headers_;  ///< of fragments after the first
    std::vector<iovec> vectors_;
};

}  // namespace innet::driver
