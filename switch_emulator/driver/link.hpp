#pragma once
// A face's channel, the modelled link in front of it, and what waits to be sent.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "switch_emulator/driver/channel.hpp"
#include "switch_emulator/management/face_factory.hpp"
#include "switch_emulator/port/congestion_marker.hpp"
#include "switch_emulator/simulation/link.hpp"

namespace innet::driver {

/// Whose a link is, as far as limits go: each kind has a share of its own, so that none of them
/// keeps another out.
enum class LinkKind : std::uint8_t {
    kNode,          ///< another node of the network
    kLocal,         ///< a program that the Unix socket's mode admits, by a connection of its own
    kLocalTcp,      ///< one of any user of this machine, likewise
    kRemote,        ///< one of another machine, likewise
    kLocalUdpPeer,  ///< a program of this machine that sends datagrams to a UDP port
    kUdpPeer,       ///< a remote sender of datagrams, whose address may be forged
};
inline constexpr std::size_t kLinkKinds = static_cast<std::size_t>(LinkKind::kUdpPeer) + 1;

constexpr bool is_udp_peer(LinkKind kind) {
    return kind == LinkKind::kLocalUdpPeer || kind == LinkKind::kUdpPeer;
}

/// Of a foreign link: without a descriptor, it is one of a UDP port's peers.
constexpr LinkKind foreign_kind(bool has_descriptor, const FaceOptions& options) {
    const bool is_local = options.scope == FaceScope::kLocal;
    if (!has_descriptor) return is_local ? LinkKind::kLocalUdpPeer : LinkKind::kUdpPeer;
    if (options.admitted_by_file) return LinkKind::kLocal;
    return is_local ? LinkKind::kLocalTcp : LinkKind::kRemote;
}

/// Links of a kind at once: each may hold a descriptor and buffers.
constexpr std::size_t most_links(LinkKind kind) {
    switch (kind) {
        case LinkKind::kNode:
            return kMaxNetworkFace;
        case LinkKind::kRemote:
            return 128;
        case LinkKind::kLocal:
        case LinkKind::kLocalTcp:
        case LinkKind::kLocalUdpPeer:
        case LinkKind::kUdpPeer:
            return 256;
    }
    return 0;
}

struct Link {
    bool foreign() const { return kind != LinkKind::kNode; }
    std::size_t backlog() const { return ready.size() - sent; }

    std::unique_ptr<Channel> channel;
    FaceId face = kNoFace;
    FaceNumber number = 0;
    LinkKind kind = LinkKind::kNode;
    management::FaceDescription description;
    /// Absent when the kernel shapes the link, or the link is not shaped.
    std::optional<simulation::Link> model;
    std::vector<OutgoingPacket> ready;  ///< leaves next; [sent, size) is still here
    std::size_t sent = 0;
    /// Of a foreign link: how many packets from the front of the backlog have been taken into
    /// memory of their own, and how much that is.
    std::size_t held = 0;
    std::size_t held_bytes = 0;
    std::uint64_t backlog_dropped = 0;
    /// Of a foreign link: bytes of the backlog on the wire, and the most that a packet has found in
    /// front of it, those in the system included.
    std::size_t backlog_wire_bytes = 0;
    std::size_t queued_max_bytes = 0;
    port::CongestionMarker marker;  ///< of a foreign link
    bool sent_malformed = false;    ///< a client's stream did: nothing more is read from it
    bool waits_for_room = false;
    std::uint64_t refusals_noted = 0;  ///< ICMP port unreachable: no socket at the peer's port
    TimePoint last_heard{};
    std::uint64_t rejections_noted = 0;  ///< what it sent for nothing
    TimePoint paused_until{};            ///< nothing is read from it before
    std::uint64_t dropped_paused = 0;
};

}  // namespace innet::driver
