#pragma once
// Under which prefixes an endpoint offers objects, and what it says where there is none.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/security/segment_tagger.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// What happens to who asks for an object that is not there.
enum class MissingObject : std::uint8_t {
    kWait,    ///< it may yet come: the asker waits, and hears that somebody is late
    kRefuse,  ///< as in a cache: the asker is told at once (NackReason kNoData)
};

struct ObjectPrefix {
    wire::Name name;
    std::string label;  ///< who is late (a rank) when an object is waited for
    MissingObject missing = MissingObject::kWait;
    /// Tags the segments of objects published here, and checks those fetched; null: nothing does.
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
    std::vector<std::size_t> of_depth_;  ///< how many prefixes of so many components
};

}  // namespace innet
