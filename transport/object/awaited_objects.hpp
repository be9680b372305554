#pragma once
// Objects that are not there and that somebody waits for, and those that are expected: on disk, or
// on their way.

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
    /// Packets remembered. One more takes the place of those of the object that was waited for
    /// first, whose requesters repeat their Interests. Without another object it is not remembered.
    static constexpr std::size_t kMaxPackets = 65536;

    /// Who asks for the object waits, even where what is missing is refused.
    void expect(const wire::Name& object);
    bool expects(wire::NameView object) const;

    /// Somebody waits for `packet` (a segment or a manifest, as it was asked for) of `object` until
    /// `until`. True when nobody waited for any packet of that object before.
    bool wait(wire::NameView object, wire::NameView packet, TimePoint now, TimePoint until);

    /// Nobody waits for `packet` of `object` any longer.
    void forget(wire::NameView object, wire::NameView packet);

    /// Forgets the object, whether it was expected or waited for; the packets that were waited for.
    std::vector<wire::Name> take(wire::NameView object);
    /// The same for all objects under `prefix`.
    std::vector<wire::Name> take_under(const wire::Name& prefix);

    std::size_t waiting_packets() const { return packets_; }

  private:
    struct Awaited {
        Awaited() = default;
        explicit Awaited(wire::Name name) : object(std::move(name)) {}

        wire::Name object;
        bool expected = false;
        TimePoint until{};  ///< when the last Interest will be gone
        /// By hash, so that an Interest that is repeated counts once.
        std::unordered_map<wire::NameHash, wire::Name> packets;
        std::list<wire::NameHash>::iterator turn;  ///< its place in `turns_` while it has packets
    };

    Awaited& entry_of(wire::NameView object);
    void clear_packets(Awaited& entry);
    void move_packets(Awaited& entry, std::vector<wire::Name>& into);
    bool make_room(const Awaited& added);
    void forget_expired(TimePoint now);

    std::unordered_map<wire::NameHash, Awaited> awaited_;
    std::list<wire::NameHash>
        turns_;  ///< objects that have packets, by when the first was asked for
    std::size_t packets_ = 0;
    std::size_t next_clearance_ = kMinClearance;  ///< entries at which expired ones are looked for

    static constexpr std::size_t kMinClearance = 1024;
};

}  // namespace innet
