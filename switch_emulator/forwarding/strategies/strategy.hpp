#pragma once
// Forwarding strategies: choose the next hops of an Interest, and react to their answers.
//
// The pipelines of the node call a strategy where NFD's call theirs (NFD Developer's Guide, section
// 5). The node handles reductions, hints, Holds and the suppression of retransmissions before it
// calls a strategy. Sans-IO: each call passes the time; a seed gives the randomness.

#include <cstdint>

#include "switch_emulator/tables/fib.hpp"
#include "switch_emulator/tables/pit.hpp"

namespace innet::forwarding::strategies {

/// An Interest that is to go further. Views and references are valid during the call only.
struct UpstreamRequest {
    tables::PitEntry& entry;
    const tables::FibEntry& route;  ///< next hops, cheapest first
    const PacketRef& packet;        ///< what would be sent
    const wire::InterestView& view;
    FaceId except;  ///< never a next hop: the Interest arrived on it
    bool repeated;  ///< this entry's Interest has been sent upstream before
    TimePoint now;
};

enum class Nonce : std::uint8_t {
    kSame,  ///< copies that meet on their ways are one Interest
    kNew,   ///< a question of its own, which no other copy is taken for
};

/// What a strategy may do.
class StrategyActions {
  public:
    virtual ~StrategyActions() = default;
    /// Whether the Interest may go there: not back, an open face that may carry the name, and has
    /// not refused it.
    virtual bool may_forward(const UpstreamRequest& request, FaceId face) const = 0;
    /// How many faces there have been by now: one whose number is not below came later.
    virtual FaceNumber faces_so_far() const = 0;
    /// Sends the Interest to the face; returns its out-record.
    virtual tables::OutRecord& forward(const UpstreamRequest& request, FaceId face,
                                       Nonce nonce) = 0;
};

enum class Outcome : std::uint8_t {
    kForwarded,
    kNoNextHop,  ///< no next hop is eligible
    kLater,      ///< an external listener decides later
};

class Strategy {
  public:
    virtual ~Strategy() = default;

    virtual Outcome after_receive_interest(const UpstreamRequest& request,
                                           StrategyActions& actions) = 0;
    /// All upstreams nacked, `refused` as the last. `request.packet` has a new nonce.
    virtual Outcome after_all_refused(const UpstreamRequest& request, StrategyActions& actions) {
        return after_receive_interest(request, actions);
    }

    // What the node tells a strategy that remembers; the records are about to go, or have changed.

    /// Data arrived from `upstream`.
    virtual void before_satisfy_interest(const tables::PitEntry& /*entry*/,
                                         tables::OutRecord& /*upstream*/, TimePoint /*now*/) {}
    virtual void after_receive_nack(const tables::PitEntry& /*entry*/,
                                    tables::OutRecord& /*upstream*/, wire::NackReason /*reason*/,
                                    TimePoint /*now*/) {}
    /// `upstream` says that the answer will be late.
    virtual void after_receive_hold(const tables::PitEntry& /*entry*/,
                                    tables::OutRecord& /*upstream*/, TimePoint /*now*/) {}
    /// Its lifetime is over.
    virtual void after_interest_timeout(tables::PitEntry& /*entry*/, TimePoint /*now*/) {}
    /// The last call for an entry, whatever its end was.
    virtual void on_entry_ended(tables::PitEntry& /*entry*/) {}
    virtual void on_face_closed(FaceId /*face*/) {}

    /// Whether a pending Interest goes to a next hop that its route gets meanwhile.
    virtual bool forwards_to_new_next_hops() const { return false; }

    /// The cheapest eligible next hop; null when there is none.
    static const tables::NextHop* cheapest(const UpstreamRequest& request,
                                           const StrategyActions& actions);
};

}  // namespace innet::forwarding::strategies
