#pragma once
// The prefixes under which an endpoint publishes objects, and its reply for missing ones.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/security/segment_tagger.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// Reply to an Interest for a missing object.
enum class MissingObject : std::uint8_t {
    kWait,    ///< the Interest stays pending; a Hold names the late rank
    kRefuse,  ///< as in a cache: a Nack at once (NackReason kNoData)
};

struct ObjectPrefix {
    wire::Name name;
    std::string label;  ///< label of the producer (a rank) that Holds name as late
    MissingObject missing = MissingObject::kWait;
    /// Tags the segments of published objects and checks those of fetched ones; null: no tags.
    std::shared_ptr<security::SegmentTagger> tagger = nullptr;
};

/// The longest prefix of a name counts. Looked up once per Interest: a walk along the name, as deep
/// as prefixes are, with one hash look-up per depth that any prefix has.
class ObjectPrefixes {
  public:
    /// In place of the one of that name.
    void add(ObjectPrefix prefix);
    void remove(const wire::Name& name);

    /// Null when `name` is under none. Stays where it is until it is removed.
    const ObjectPrefix* longest_of(wire::NameView name) const;

  private:
    std::unordered_map<wire::NameHash, ObjectPrefix> by_hash_;
    std::vector<std::size_t> of_depth_;  ///< number of prefixes, by number of components
};

}  // namespace innet
