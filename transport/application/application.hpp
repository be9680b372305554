#pragma once
// The interface between a node, which forwards, and its local applications: the endpoint, which
// publishes and fetches, and the reducer, which fetches operands. Calls are never re-entrant:
// requests to the forwarder are queued until after the current packet.

#include <cstdint>

#include "transport/buffer/packet_ref.hpp"
#include "transport/security/sha256.hpp"
#include "transport/time.hpp"
#include "transport/wire/data.hpp"
#include "transport/wire/interest.hpp"
#include "transport/wire/lp.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// The requester inside the node.
enum class RequesterId : std::uint8_t { kApplication = 0, kReducer = 1 };

/// Receives the replies to the Interests that it expressed.
class Requester {
  public:
    virtual ~Requester() = default;
    /// Verified Data. `packet` holds the bytes `data` shows; keep a share of it to keep them alive.
    /// `marked`: a congestion mark was set on the path.
    virtual void on_data(const wire::DataView& data, const PacketRef& packet, bool marked,
                         TimePoint now) = 0;
    virtual void on_nack(wire::NameView name, wire::NackReason reason, TimePoint now) = 0;
    /// The Interest reached the producer, or an aggregator that waits for one; the Data is not
    /// available yet. `missing` names the late rank, in decimal.
    virtual void on_hold(wire::NameView name, wire::ByteView missing, TimePoint now) = 0;
};

/// A producer's reply to an Interest.
struct Production {
    /// kAbsent: the name is the producer's, and there is no Data to wait for.
    enum class Kind : std::uint8_t { kNotMine, kPending, kData, kAbsent } kind = Kind::kNotMine;
    PacketRef data;  ///< kData: the signed packet
    wire::ByteView
        missing;  ///< kPending: label of the late producer (valid as long as its registration)
};

/// An application on a node: produces named data and requests it.
class Application : public Requester {
  public:
    /// `for_network`: the Data leaves this node, so it must carry its signature, or its MAC is due;
    /// a reducer on the same node takes it unsigned.
    virtual Production produce(const wire::InterestView& interest, bool for_network,
                               TimePoint now) = 0;
    /// The node keeps the Interest for which `produce` just returned kPending: the application
    /// answers it later. The application allocates state per pending Interest here, so that the
    /// node's limit of pending Interests bounds it, too.
    virtual void await(const wire::InterestView&, TimePoint) {}
    /// No Interest for `name`, announced by `await`, is pending any longer: all expired, or their
    /// faces closed.
    virtual void forget(wire::NameView) {}
    /// Whether `told_digest` may know the digest of Data of this name.
    virtual bool can_tell_digest(wire::NameView) { return false; }
    /// The implicit digest of requested Data, if the application knows it without hashing the
    /// packet; null: unknown. It holds for this application alone: other requesters of the digest
    /// have not verified it. Valid until the next call.
    virtual const security::Sha256Digest* told_digest(const wire::DataView&) { return nullptr; }
    /// Whether the application accepts a requested manifest, or a segment without a signature, by
    /// its own knowledge. It holds for this application alone, too.
    virtual bool vouches_for(const wire::DataView&) { return false; }
};

/// The node's services for an application and a reducer.
class Forwarder {
  public:
    virtual ~Forwarder() = default;
    /// Sends an Interest for `name` (a repetition gets a new nonce). With an empty `hint` the name
    /// itself is routed; with the node's own name as hint, the node evaluates the name itself.
    virtual void express(RequesterId requester, wire::NameView name, wire::NameView hint,
                         Duration lifetime) = 0;
    /// Expresses with MustBeFresh, for a requester that rejected a cached answer. The default suits
    /// a forwarder without a cache.
    virtual void express_fresh(RequesterId requester, wire::NameView name, wire::NameView hint,
                               Duration lifetime) {
        express(requester, name, hint, lifetime);
    }
    /// Expresses an Interest that accepts a draft, and goes no further than to a neighbour, with
    /// root manifests attached (attached_roots.hpp), if any. The default suits a forwarder whose
    /// receivers send signed roots and request those that they need.
    virtual void express_to_neighbour(RequesterId requester, wire::NameView name,
                                      wire::NameView hint, Duration lifetime, PacketRef /*roots*/) {
        express(requester, name, hint, lifetime);
    }
    /// The requester no longer wants `name`; the PIT entry stays if others do.
    virtual void cancel(RequesterId requester, wire::NameView name) = 0;
    /// Satisfies pending Interests with local Data, which is trusted. The node caches the reducer's
    /// Data for later requesters; an application keeps its own publications.
    virtual void put_data(RequesterId maker, PacketRef data, bool marked) = 0;
    /// Sends Data that nobody here has asked for towards `hint`: a node on the way may add it. The
    /// default suits a forwarder without a network.
    virtual void offer_data(PacketRef, wire::NameView, bool /*marked*/) {}
    /// Sends a Hold for `name` to its requesters: the Data is late because of `missing`.
    virtual void hold(wire::NameView name, wire::ByteView missing) = 0;
    /// Sends a Nack for `name` to its requesters.
    virtual void nack(wire::NameView name, wire::NackReason reason) = 0;
};

}  // namespace innet
