#pragma once
// Missing objects with pending Interests, and expected objects (on disk, or being
// produced).

#include <cstddef>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/time.hpp"
#include "transport/wire/name.hpp"

namespace innet {

class AwaitedObjects {
  public:
    /// Maximum pending packets. At the limit, the object that was requested first loses its packets
    /// (its requesters retransmit); without another object, the new packet is not recorded.
    static constexpr std::size_t kMaxPackets = 65536;

    /// Interests for the object stay pending, even under a prefix that refuses missing objects.
    void expect(const wire::Name& object);
    bool expects(wire::NameView object) const;

    /// Records a pending Interest for `packet` (a segment or a manifest) of `object` until `until`.
    /// True when it is the object's first.
    bool wait(wire::NameView object, wire::NameView packet, TimePoint now, TimePoint until);
    /// A pending Interest for the object is for a root with its signature.
    void want_signature(wire::NameView object);
    /// Whether all pending Interests for the object accept a draft of its root.
    bool accepts_draft(wire::NameView object) const;

    /// Removes `packet` of `object`: no Interest for it is pending any longer.
    void forget(wire::NameView object, wire::NameView packet);

    /// Removes the object, expected or not, and returns its pending packets.
    std::vector<wire::Name> take(wire::NameView object);
    /// `take` for all objects under `prefix`.
    std::vector<wire::Name> take_under(const wire::Name& prefix);

    std::size_t waiting_packets() const { return packets_; }

  private:
    struct Awaited {
        Awaited() = default;
        explicit Awaited(wire::Name name) : object(std::move(name)) {}

        wire::Name object;
        bool expected = false;
        bool wants_signature = false;  ///< until it has no packets
        TimePoint until{};             ///< end of the last Interest's lifetime
        /// By hash, so that a retransmitted Interest counts once.
        std::unordered_map<wire::NameHash, wire::Name> packets;
        std::list<wire::NameHash>::iterator turn;  ///< its place in `turns_` while it has packets
    };

    const Awaited* find(wire::NameView object) const;
    Awaited& entry_of(wire::NameView object);
    void clear_packets(Awaited& entry);
    void move_packets(Awaited& entry, std::vector<wire::Name>& into);
    bool make_room(const Awaited& added);
    void forget_expired(TimePoint now);

    std::unordered_map<wire::NameHash, Awaited> awaited_;
    std::list<wire::NameHash>
        turns_;  ///< objects with pending packets, ordered by their first request
    std::size_t packets_ = 0;
    std::size_t next_clearance_ = kMinClearance;  ///< entries at which expired ones are looked for

    static constexpr std::size_t kMinClearance = 1024;
};

}  // namespace innet
