#pragma once
// The border between a node (which forwards) and what lives on top of it: the endpoint that
// publishes and fetches, and the reducer that asks for operands. Neither ever calls the other
// re-entrantly: what they ask of the forwarder is queued and done after the current packet.

#include <cstdint>

#include "transport/buffer/packet_ref.hpp"
#include "transport/security/sha256.hpp"
#include "transport/time.hpp"
#include "transport/wire/data.hpp"
#include "transport/wire/interest.hpp"
#include "transport/wire/lp.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// Who asked, inside the node.
enum class RequesterId : std::uint8_t { kApplication = 0, kReducer = 1 };

/// Receives what comes back for Interests it expressed.
class Requester {
  public:
    virtual ~Requester() = default;
    /// Verified Data. `packet` holds the bytes `data` shows; keep a share of it to keep them alive.
    /// `marked`: congestion was met on the way.
    virtual void on_data(const wire::DataView& data, const PacketRef& packet, bool marked,
                         TimePoint now) = 0;
    virtual void on_nack(wire::NameView name, wire::NackReason reason, TimePoint now) = 0;
    /// The Interest reached the producer (or an aggregator that waits for one), which has nothing
    /// to give yet. `missing` names who is waited for (a rank, in decimal).
    virtual void on_hold(wire::NameView name, wire::ByteView missing, TimePoint now) = 0;
};

/// What a producer says to an Interest.
struct Production {
    /// kAbsent: mine, not there, and not worth waiting for.
    enum class Kind : std::uint8_t { kNotMine, kPending, kData, kAbsent } kind = Kind::kNotMine;
    PacketRef data;  ///< kData: the signed packet
    wire::ByteView
        missing;  ///< kPending: who is late (lives as long as the producer's registration)
};

/// An application on a node: produces named data and requests it.
class Application : public Requester {
  public:
    /// `for_network`: the Data leaves this node, so it must carry its signature; a reducer on the
    /// same node takes it unsigned.
    virtual Production produce(const wire::InterestView& interest, bool for_network,
                               TimePoint now) = 0;
    /// The node keeps the Interest, to which `produce` has just said kPending: it is to be answered
    /// when there is something to give. State for those who wait begins here, so that what bounds
    /// the node's pending Interests bounds it, too.
    virtual void await(const wire::InterestView&, TimePoint) {}
    /// Nobody waits any longer for `name`, for which there was an `await`: the Interests expired,
    /// or their faces are closed.
    virtual void forget(wire::NameView) {}
    /// Whether `told_digest` may know the digest of Data of this name.
    virtual bool can_tell_digest(wire::NameView) { return false; }
    /// The implicit digest of Data that this application has asked for, if it can tell without
    /// hashing the packet; null: it cannot. Its word, for itself alone: whoever else asked for the
    /// bytes of that digest has not taken it. Valid until the next call.
    virtual const security::Sha256Digest* told_digest(const wire::DataView&) { return nullptr; }
    /// Whether a manifest that this application has asked for is right by what it knows itself,
    /// whoever signed it. Its word, for itself alone, as well.
    virtual bool vouches_for(const wire::DataView&) { return false; }
};

/// What an application and a reducer may ask of their node.
class Forwarder {
  public:
    virtual ~Forwarder() = default;
    /// Sends an Interest for `name` (a repetition gets a new nonce). With an empty `hint` the name
    /// itself is routed; with the node's own name as hint, the node evaluates the name itself.
    virtual void express(RequesterId requester, wire::NameView name, wire::NameView hint,
                         Duration lifetime) = 0;
    /// The same with MustBeFresh, for a requester that has refused the answer of a cache. A
    /// forwarder without a cache makes no difference.
    virtual void express_fresh(RequesterId requester, wire::NameView name, wire::NameView hint,
                               Duration lifetime) {
        express(requester, name, hint, lifetime);
    }
    /// The requester no longer wants `name`; the PIT entry stays if others do.
    virtual void cancel(RequesterId requester, wire::NameView name) = 0;
    /// Satisfies whoever waits for this Data (made here: trusted, not verified again). The node
    /// keeps what its reducer made for those who ask again; an application keeps what it publishes.
    virtual void put_data(RequesterId maker, PacketRef data, bool marked) = 0;
    /// Tells whoever waits for `name` that it is late because of `missing`.
    virtual void hold(wire::NameView name, wire::ByteView missing) = 0;
    /// Tells whoever waits for `name` that it cannot be had here.
    virtual void nack(wire::NameView name, wire::NackReason reason) = 0;
};

}  // namespace innet
