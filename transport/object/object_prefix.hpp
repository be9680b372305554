#pragma once
// A prefix under which an endpoint publishes objects, and its reply for missing ones.

#include <cstdint>
#include <memory>
#include <string>

#include "transport/object/request_guard.hpp"
#include "transport/security/keyring.hpp"
#include "transport/security/segment_tagger.hpp"

namespace innet {

/// Reply to an Interest for a missing object.
enum class MissingObject : std::uint8_t {
    kWait,    ///< the Interest stays pending; a Hold names the late rank
    kRefuse,  ///< as in a cache: a Nack at once (NackReason kNoData)
};

/// The keys that complete a draft.
struct DraftKeys {
    std::shared_ptr<security::SegmentTagger> tagger;
    std::shared_ptr<security::Signer> signer;
};

struct ObjectPrefix {
    std::string label;  ///< label of the producer (a rank) that Holds name as late
    MissingObject missing = MissingObject::kWait;
    /// Tags the segments of published objects and checks those of fetched ones; null: no tags.
    std::shared_ptr<security::SegmentTagger> tagger = nullptr;
    /// Signs drafts of the prefix; null: the prefix has no drafts.
    std::shared_ptr<security::Signer> root_signer = nullptr;
    /// Missing objects are requests: those that it does not admit are refused, and the others
    /// executed once. Null: all are awaited.
    std::shared_ptr<RequestGuard> guard = nullptr;
};

}  // namespace innet
