#pragma once
// Sends packets to faces: adds link headers, leaves out what a face does not accept, and counts.

#include "switch_emulator/forwarding/face_table.hpp"
#include "switch_emulator/forwarding/link_reliability.hpp"
#include "switch_emulator/forwarding/node_counters.hpp"
#include "switch_emulator/reduction/reducer.hpp"
#include "transport/buffer/packet_ref.hpp"
#include "transport/wire/lp.hpp"

namespace innet::forwarding {

/// Packets for closed faces, and Nacks and Holds without their Interest, are dropped silently.
class PacketSender {
  public:
    /// `reducer` knows the signers of the names.
    PacketSender(FaceTable& faces, reduction::Reducer& reducer, NodeCounters& counters,
                 PacketPool& pool)
        : links(pool), faces_(faces), reducer_(reducer), counters_(counters) {}

    /// Time of what is sent from now on.
    void set_time(TimePoint now) { now_ = now; }

    void send_interest(FaceId face, const PacketRef& interest);
    /// Makes the MAC that the Data still lacks, unless the face is trusted. `marked`: the Data has
    /// met congestion.
    void send_data(FaceId face, wire::ByteView pit_token, const PacketRef& data, bool marked);
    void send_nack(FaceId face, wire::ByteView pit_token, const PacketRef& interest,
                   wire::NackReason reason);
    /// Not sent to foreign faces: a Hold is a promise between nodes of one network.
    void send_hold(FaceId face, wire::ByteView pit_token, const PacketRef& interest,
                   wire::ByteView missing);
    /// `receives`: packets of the neighbour arrive here.
    void send_hello(FaceId face, bool receives);

    /// Sends the repetitions and acknowledgements that are due.
    void send_due();

    Outbox outbox;
    LinkReliability links;

  private:
    void transmit(FaceId face, const PacketRef& payload, wire::LpFields fields);
    /// False, counted, when no key here makes the MAC.
    bool ensure_mac(const PacketRef& data);

    FaceTable& faces_;
    reduction::Reducer& reducer_;
    NodeCounters& counters_;
    TimePoint now_{};
    std::vector<OutgoingPacket> due_;  ///< scratch
};

}  // namespace innet::forwarding
