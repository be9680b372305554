#pragma once
// Ways back to those whose Interests wait: what a reflexive name leads to while its trigger
// Interest is pending (draft-irtf-icnrg-reflexive-forwarding).

#include <cstddef>
#include <cstdint>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "switch_emulator/tables/hash_chains.hpp"
#include "switch_emulator/tables/slab.hpp"
#include "transport/wire/name.hpp"

namespace innet::tables {

struct PitEntry;

/// A reflexive name prefix leads to `face` as long as `trigger` is pending.
struct ReflexiveRoute {
    ReflexiveRoute* next_in_bucket = nullptr;
    wire::NameHash hash = 0;   ///< of the prefix
    wire::ByteView component;  ///< the prefix, in the trigger's own bytes
    PitEntry* trigger = nullptr;
    FaceId face = kNoFace;
};

/// A hash table with entries from a slab; each face has a bounded number of them.
class ReflexiveRoutes {
  public:
    /// Each of them stands for a call in flight.
    static constexpr std::uint32_t kMaxPerFace = 1024;

    ReflexiveRoutes() = default;
    ReflexiveRoutes(const ReflexiveRoutes&) = delete;
    ReflexiveRoutes& operator=(const ReflexiveRoutes&) = delete;

    /// `component` is the prefix with its type and length; null when nothing pending has it.
    ReflexiveRoute* find(wire::NameHash hash, wire::ByteView component) const;
    /// Whether a route for a prefix of that hash to `face` may be added.
    bool has_room(FaceId face, wire::NameHash hash) const {
        return (face >= by_face_.size() || by_face_[face] < kMaxPerFace) && chains_.has_room(hash);
    }
    /// Its prefix must not be there yet. `component` lies in the trigger's packet.
    ReflexiveRoute& add(wire::NameHash hash, wire::ByteView component, PitEntry& trigger,
                        FaceId face);
    void remove(ReflexiveRoute& route);
    std::size_t size() const { return chains_.size(); }

  private:
    static constexpr std::size_t kInitialBuckets = 64;

    HashChains<ReflexiveRoute, &ReflexiveRoute::hash> chains_{kInitialBuckets};
    std::vector<std::uint32_t> by_face_;
    Slab<ReflexiveRoute> routes_;
};

}  // namespace innet::tables
