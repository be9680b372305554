#pragma once
// Pending Interest table: requesters (in-records) and upstreams (out-records) of each name.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "switch_emulator/jobs/weighted_shares.hpp"
#include "switch_emulator/tables/face_records.hpp"
#include "switch_emulator/tables/hash_chains.hpp"
#include "switch_emulator/tables/name_prefixes.hpp"
#include "switch_emulator/tables/pit_records.hpp"
#include "switch_emulator/tables/reflexive_routes.hpp"
#include "switch_emulator/tables/slab.hpp"
#include "switch_emulator/tables/strategy_choice.hpp"
#include "switch_emulator/tables/timing_wheel.hpp"
#include "transport/audit.hpp"
#include "transport/buffer/packet_ref.hpp"
#include "transport/time.hpp"
#include "transport/wire/interest.hpp"
#include "transport/wire/lp.hpp"

namespace innet::tables {

/// Identifies a request: Interests with the same key share an entry. The forwarding hint is not
/// part of it.
struct PitKey {
    static PitKey of(const wire::InterestView& interest, const NamePrefixes& name);

    wire::NameView name;
    wire::NameHash hash = 0;
    bool can_be_prefix = false;
    bool must_be_fresh = false;
    bool ends_with_digest = false;  ///< follows from the name
};

/// The last transmission whose answer an Interest can wait for.
struct LastTransmission {
    std::optional<TimePoint> sent;
    bool held = false;  ///< a Hold answered it
};

/// Fields of a look-up lie first: one cache line distinguishes most entries of a bucket.
struct alignas(64) PitEntry : TimerLink {
    PitEntry* next_in_bucket = nullptr;
    PitKey key;
    PacketRef interest;  ///< the first one; `key.name` points into it
    std::uint32_t interest_nonce = 0;
    TimePoint expiry;
    jobs::JobId job = jobs::kNoJob;  ///< whose the name is
    StrategyNumber strategy = kDefaultStrategy;
    bool held = false;            ///< a Hold arrived since the last transmission: a rank is late
    bool in_reduction = false;    ///< the reducer works on it
    bool several_ways = false;    ///< requesters name different nodes in their hints
    bool awaited_here = false;    ///< the application of this node will answer it
    bool accepts_draft = false;   ///< as all its Interests
    bool hold_due = false;        ///< some requesters get a Hold unless it is answered soon
    bool fallback_tried = false;  ///< the reducer tried to evaluate it by any rule
    std::optional<TimePoint> last_sent;  ///< upstream
    std::optional<TimePoint> last_news;  ///< requesters received a Hold with a new label
    std::optional<wire::NackReason> least_severe_nack;
    ShortBytes<wire::kMaxLabelSize> missing;    ///< the missing ranks, when held
    ReflexiveRoute* reflexive_route = nullptr;  ///< of a trigger Interest

    RecordRange<InRecord> in_records() const { return RecordRange(first_in); }
    RecordRange<OutRecord> out_records() const { return RecordRange(first_out); }
    InRecord* find_in_record(FaceId face) const;
    RequesterSearch find_requester(FaceId face, std::uint32_t nonce) const;
    OutRecord* find_out_record(FaceId face) const;
    FaceId first_requester() const { return first_in != nullptr ? first_in->face : kNoFace; }
    /// Whether a face other than this node's application and reducer waits.
    bool has_network_requester() const;
    /// Whether one received the Interest and has not refused it.
    bool has_live_upstream() const;
    /// The node that an Interest for this entry names.
    Way way_of(const wire::InterestView& other) const;
    /// A transmission to another named node, or a Hold from it, does not suppress an Interest: that
    /// node may be waiting for the answer to this very Interest.
    LastTransmission last_transmission(Way way) const;

    InRecord* first_in = nullptr;
    OutRecord* first_out = nullptr;
};

/// The purpose of an entry. Requests leave a part of the table to operands: if pending sums filled
/// the table, their operands could not be requested, and no sum would complete.
enum class PitUse : std::uint8_t { kRequest, kOperand };

/// A bounded hash table. Entries and records come from slabs and have stable
/// addresses. The buckets grow with the entries, not with the capacity: a table for the few hundred
/// Interests in flight stays in the cache. Half of the capacity is guaranteed to the jobs, by
/// weight; the rest is first come, first served.
class Pit {
  public:
    explicit Pit(std::size_t capacity);
    Pit(const Pit&) = delete;
    Pit& operator=(const Pit&) = delete;

    PitEntry* find(const PitKey& key) const;
    /// A new entry whose name lies in `interest`'s bytes; null when the table or the name's bucket
    /// is full, or what is left is reserved for other jobs or for operands. The key must not be
    /// there yet.
    PitEntry* insert(const PitKey& key, PacketRef interest, jobs::JobId job = jobs::kNoJob,
                     PitUse use = PitUse::kRequest);
    void erase(PitEntry& entry);

    /// Adds a face; records of an earlier one of its number must be gone.
    void add_face(FaceId face, bool foreign) { face_records_.add_face(face, foreign); }
    const FaceRecords& face_records() const { return face_records_; }

    /// Adds a record, or gives the one that `face` has. `found` is what `find_requester` has just
    /// said of that face; of a new entry, it says nothing.
    InRecord& put_in_record(PitEntry& entry, FaceId face, const RequesterSearch& found);
    OutRecord& put_out_record(PitEntry& entry, FaceId face);
    /// The application of this node will answer the entry: counts it for all its requesters.
    void await_application(PitEntry& entry);
    /// The same for a requester that joins such an entry.
    void await_application(InRecord& record) { face_records_.await_application(record); }
    /// Whether another entry of the same name waits for the application as well.
    bool is_awaited_by_another(const PitEntry& entry) const;
    void erase_in_record(PitEntry& entry, FaceId face);
    void erase_out_record(PitEntry& entry, FaceId face);
    template <typename Predicate>
    void erase_in_records_if(PitEntry& entry, Predicate&& predicate) {
        for (InRecord* record = entry.first_in; record != nullptr;) {
            InRecord* next = record->next;
            if (predicate(*record)) erase_in_record(entry, record->face);
            record = next;
        }
    }

    /// All entries that a Data of this name satisfies, save for freshness and implicit digests.
    void collect_matches(const NamePrefixes& data_name, std::vector<PitEntry*>& into) const;
    /// All entries whose name is `data_name` followed by this implicit digest (32 bytes).
    void collect_digest_matches(const NamePrefixes& data_name, wire::ByteView digest,
                                std::vector<PitEntry*>& into) const;
    bool awaits_digests() const { return digest_entries_ != 0; }
    /// Whether an entry may name Data of this name by its digest, so that the digest is worth
    /// computing. Sometimes true for another name's hash, never false for the right one.
    bool may_await_digest_of(wire::NameHash data_name) const {
        return awaits_digests() && digest_names_[data_name % kDigestNames] != 0;
    }
    /// All entries of exactly this name.
    void collect_named(wire::NameView name, std::vector<PitEntry*>& into) const;
    void collect_all(std::vector<PitEntry*>& into) const;
    /// Entries with an in-record of `face`, and entries with an out-record. Linear in their number.
    void collect_waiting(FaceId face, std::vector<PitEntry*>& into) const;
    void collect_upstream(FaceId face, std::vector<PitEntry*>& into) const;

    void set_weight(jobs::JobId job, std::uint32_t weight) { shares_.set_weight(job, weight); }
    const jobs::WeightedShares& shares() const { return shares_; }
    std::size_t size() const { return shares_.used(); }
    /// The most entries that a look-up may have to compare.
    std::size_t longest_chain() const { return chains_.longest_chain(); }
    /// Whether the counts match the entries, and each entry has a requester and a timer.
    void audit(AuditReport& report) const;
    TimingWheel& timers() { return timers_; }
    const TimingWheel& timers() const { return timers_; }

  private:
    void count_digest_entry(const PitKey& key, bool is_new);

    struct HashOf {
        wire::NameHash operator()(const PitEntry& entry) const { return entry.key.hash; }
    };

    jobs::WeightedShares shares_;
    FaceRecords face_records_;
    std::size_t prefix_entries_ =
        0;  ///< with CanBePrefix: none means that no prefixes are looked up
    static constexpr std::size_t kDigestNames = 4096;

    std::size_t digest_entries_ = 0;
    /// Entries that end with a digest, counted by the hash of the name before it. Empty without
    /// any. Counts, and no chains: Interests for one name and many digests must fill no bucket.
    std::vector<std::uint32_t> digest_names_;
    HashChains<PitEntry, HashOf{}> chains_;
    Slab<PitEntry> entries_;
    Slab<InRecord> in_records_;
    Slab<OutRecord> out_records_;
    TimingWheel timers_;
};

}  // namespace innet::tables
