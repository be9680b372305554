#pragma once
// Records of the pending Interest table: requesters and upstreams.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "switch_emulator/forwarding/face.hpp"
#include "transport/time.hpp"
#include "transport/wire/lp.hpp"
#include "transport/wire/name.hpp"
#include "transport/wire/text.hpp"

namespace innet::tables {

struct PitEntry;

/// A few bytes with their length, stored in place.
template <std::size_t kCapacity>
class ShortBytes {
  public:
    /// Keeps the first `kCapacity` bytes.
    void assign(wire::ByteView bytes) {
        size_ = static_cast<std::uint8_t>(std::min(bytes.size(), kCapacity));
        if (size_ != 0) std::memcpy(bytes_.data(), bytes.data(), size_);
    }
    wire::ByteView view() const { return {bytes_.data(), size_}; }

  private:
    static_assert(kCapacity <= 255);
    std::array<std::uint8_t, kCapacity> bytes_{};
    std::uint8_t size_ = 0;
};

/// What records of both kinds have in common: they stand in the list of their entry, and in that
/// of their face.
template <typename Record>
struct RecordLinks {
    Record* next = nullptr;  ///< of the entry
    Record* next_of_face = nullptr;
    Record* previous_of_face = nullptr;
    PitEntry* entry = nullptr;
};

/// The node that an Interest names in its forwarding hint: the hint's hash, or `kFirstWay` where it
/// is that of the entry's first Interest. Interests of one entry may name different nodes, and one
/// of these nodes may wait for another's answer.
using Way = wire::NameHash;
inline constexpr Way kFirstWay = 0;

/// A requester of a pending Interest.
struct InRecord : RecordLinks<InRecord> {
    FaceId face = kNoFace;
    bool hold_sent = false;           ///< has received the entry's Hold since its last Interest
    bool hold_stale = false;          ///< that Hold named another late rank than the entry does
    bool awaits_application = false;  ///< counts towards its face's share of what this node awaits
    std::uint32_t nonce = 0;
    Way way = kFirstWay;
    TimePoint arrived;  ///< its last Interest
    TimePoint expiry;
    ShortBytes<wire::kMaxPitTokenSize> token;
};

/// What one walk along the requesters of an entry tells about an Interest.
struct RequesterSearch {
    InRecord* own = nullptr;   ///< of the Interest's face
    InRecord* last = nullptr;  ///< of the entry
    bool knows_nonce = false;  ///< one of them has the Interest's nonce
};

/// An upstream that received the Interest.
struct OutRecord : RecordLinks<OutRecord> {
    FaceId face = kNoFace;
    std::optional<wire::NackReason> nacked;
    std::uint32_t nonce = 0;
    bool repeated = false;  ///< sent more than once
    bool held = false;      ///< it has answered the last Interest with a Hold
    bool rejected = false;  ///< its answer to the last Interest failed verification
    Way way = kFirstWay;    ///< of the last Interest
    TimePoint sent;         ///< the last time
    /// The prefix among whose measurements the answer belongs; 0: it is not measured.
    wire::NameHash measured_under = 0;
};

/// A forward range over an intrusive list of records.
template <typename Record>
class RecordRange {
  public:
    class Iterator {
      public:
        explicit Iterator(Record* record) : record_(record) {}
        Record& operator*() const { return *record_; }
        Iterator& operator++() {
            record_ = record_->next;
            return *this;
        }
        bool operator==(const Iterator& other) const = default;

      private:
        Record* record_;
    };

    explicit RecordRange(Record* first) : first_(first) {}
    Iterator begin() const { return Iterator(first_); }
    Iterator end() const { return Iterator(nullptr); }
    bool empty() const { return first_ == nullptr; }

  private:
    Record* first_;
};

}  // namespace innet::tables
