#pragma once
// Routing information base: the routes that clients have registered, and the next hops that follow
// from them (NFD Developer's Guide, section 7: "RIB Management").

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "transport/time.hpp"
#include "transport/wire/name.hpp"

namespace innet::management {

/// Origin of what the network itself puts there: NFD's number of its routing daemon (`nlsr`).
inline constexpr std::uint64_t kNetworkOrigin = 128;

/// RouteFlags.
inline constexpr std::uint64_t kChildInherit = 1;  ///< longer prefixes get this next hop, too
inline constexpr std::uint64_t kCapture = 2;       ///< they get none of shorter ones than this

struct RibRoute {
    FaceId face = kNoFace;
    std::uint64_t origin = 0;  ///< the source of the registration; one face may have several
    std::uint32_t cost = 0;
    std::uint64_t flags = 0;
    TimePoint expiry = kNever;
};

/// Receives the next hops for the FIB, and the routes that they were derived from.
class NextHopSink {
  public:
    virtual ~NextHopSink() = default;
    virtual void add_next_hop(const wire::Name& prefix, FaceId face, std::uint32_t cost) = 0;
    virtual void remove_next_hop(const wire::Name& prefix, FaceId face) = 0;
    virtual void on_route_added(const wire::Name& prefix, const RibRoute& route) {
        (void)prefix, (void)route;
    }
    virtual void on_route_removed(const wire::Name& prefix, const RibRoute& route) {
        (void)prefix, (void)route;
    }
};

/// A prefix has the next hops of its own routes, each face at its least cost, and those that it
/// inherits: of the nearest shorter prefix first, up to the first that captures.
class Rib {
  public:
    /// `sink` must outlive the RIB.
    explicit Rib(NextHopSink& sink) : sink_(sink) {}
    Rib(const Rib&) = delete;
    Rib& operator=(const Rib&) = delete;

    /// Adds a route, or changes that of the same prefix, face and origin.
    void put(const wire::Name& prefix, const RibRoute& route);
    /// False when there was none.
    bool remove(const wire::Name& prefix, FaceId face, std::uint64_t origin);
    void remove_face(FaceId face);
    /// Null when there is none; valid until the next change.
    const RibRoute* find(const wire::Name& prefix, FaceId face, std::uint64_t origin) const;
    /// The routes of exactly this prefix; valid until the next change.
    std::span<const RibRoute> routes_of(const wire::Name& prefix) const;
    /// Removes what has expired by now.
    void expire(TimePoint now);
    TimePoint next_expiry() const;

    std::size_t routes() const { return route_count_; }
    template <typename Visit>
    void for_each(Visit&& visit) const {
        for (const auto& [prefix, entry] : entries_) visit(prefix, entry.routes);
    }

  private:
    using NextHops = std::map<FaceId, std::uint32_t>;  ///< cost by face
    using Expiry = std::tuple<TimePoint, wire::Name, FaceId, std::uint64_t>;

    struct Entry {
        std::vector<RibRoute> routes;
        NextHops installed;  ///< what the sink has of this prefix
    };
    using Entries = std::map<wire::Name, Entry>;

    void erase(Entries::iterator entry, std::vector<RibRoute>::iterator route);
    /// After a change of the routes at `prefix`: it, and all longer prefixes.
    void update_from(const wire::Name& prefix);
    NextHops next_hops_of(const wire::Name& prefix, const Entry& entry) const;
    void install(const wire::Name& prefix, Entry& entry);

    NextHopSink& sink_;
    Entries entries_;  ///< in canonical order: the longer prefixes follow the shorter
    std::map<FaceId, std::set<wire::Name>> prefixes_by_face_;
    std::set<Expiry> expiries_;
    std::size_t route_count_ = 0;
};

}  // namespace innet::management
