#include "switch_emulator/tables/pit.hpp"

#include <algorithm>
#include <cassert>

namespace innet::tables {

namespace {

constexpr std::size_t kInitialBuckets = 256;
constexpr std::size_t kDigestComponentBytes = 34;

/// A quarter is for operands alone.
std::size_t room_for_requests(std::size_t capacity) { return capacity - capacity / 4; }

/// What waits for the application of this node, which remembers each: the rest is for what passes
/// through.
std::size_t room_for_application(std::size_t capacity) { return capacity / 2; }

/// Interests of foreign programs must leave most of the table to jobs.
std::size_t room_for_foreign_faces(std::size_t capacity) { return capacity / 4; }

template <typename Record>
Record* find_record(Record* record, FaceId face) {
    while (record != nullptr && record->face != face) record = record->next;
    return record;
}

// Records stay in the order of their first arrival, so that answers leave in the order of requests.
template <typename Record>
Record& append_record(PitEntry& entry, Record*& link, Slab<Record>& slab, FaceRecords& faces,
                      FaceId face) {
    Record& record = slab.take();
    record = Record{};
    record.face = face;
    record.entry = &entry;
    faces.add(record);
    link = &record;
    return record;
}

template <typename Record>
void erase_record(Record*& first, Slab<Record>& slab, FaceRecords& faces, FaceId face) {
    Record** link = &first;
    while (*link != nullptr && (*link)->face != face) link = &(*link)->next;
    if (*link == nullptr) return;
    Record& record = **link;
    *link = record.next;
    faces.remove(record);
    slab.give(record);
}

template <typename Record>
void erase_records(Record*& first, Slab<Record>& slab, FaceRecords& faces) {
    while (first != nullptr) {
        Record& record = *first;
        first = record.next;
        faces.remove(record);
        slab.give(record);
    }
}

}  // namespace

PitKey PitKey::of(const wire::InterestView& interest, const NamePrefixes& name) {
    return {.name = name.name(),
            .hash = name.hash(),
            .can_be_prefix = interest.can_be_prefix(),
            .must_be_fresh = interest.must_be_fresh(),
            .ends_with_digest = name.last_type() == wire::kImplicitSha256Digest};
}

InRecord* PitEntry::find_in_record(FaceId face) const { return find_record(first_in, face); }

RequesterSearch PitEntry::find_requester(FaceId face, std::uint32_t nonce) const {
    RequesterSearch found;
    for (InRecord& record : in_records()) {
        if (record.face == face) found.own = &record;
        found.knows_nonce |= record.nonce == nonce;
        found.last = &record;
    }
    return found;
}

OutRecord* PitEntry::find_out_record(FaceId face) const { return find_record(first_out, face); }

bool PitEntry::has_network_requester() const {
    for (const InRecord& record : in_records()) {
        if (is_network(record.face)) return true;
    }
    return false;
}

Way PitEntry::way_of(const wire::InterestView& other) const {
    const wire::NameView hint = other.forwarding_hint();
    if (hint.empty() || in_reduction) return kFirstWay;
    const auto first = wire::InterestView::parse(interest.bytes());
    if (!first || first->forwarding_hint() == hint) return kFirstWay;
    return hint.hash();
}

LastTransmission PitEntry::last_transmission(Way way) const {
    LastTransmission last;
    if (several_ways) {
        for (const OutRecord& record : out_records()) {
            if (record.way != way || (last.sent && *last.sent >= record.sent)) continue;
            last = {record.sent, record.held};
        }
    }
    return last.sent ? last : LastTransmission{last_sent, held};
}

bool PitEntry::has_live_upstream() const {
    for (const OutRecord& record : out_records()) {
        if (!record.nacked) return true;
    }
    return false;
}

Pit::Pit(std::size_t capacity)
    : shares_(std::max<std::size_t>(capacity, 1), capacity / 2),
      face_records_(room_for_foreign_faces(capacity), room_for_application(capacity)),
      chains_(kInitialBuckets) {}

PitEntry* Pit::find(const PitKey& key) const {
    PitEntry* entry = chains_.first(key.hash);
    while (entry != nullptr &&
           !(entry->key.hash == key.hash && entry->key.can_be_prefix == key.can_be_prefix &&
             entry->key.must_be_fresh == key.must_be_fresh && entry->key.name == key.name)) {
        entry = entry->next_in_bucket;
    }
    return entry;
}

PitEntry* Pit::insert(const PitKey& key, PacketRef interest, jobs::JobId job, PitUse use) {
    if (!shares_.has_room_beside_reserves(job)) return nullptr;
    if (use == PitUse::kRequest && !shares_.is_below_guarantee(job) &&
        size() >= room_for_requests(shares_.capacity())) {
        return nullptr;
    }
    if (!chains_.has_room(key.hash)) return nullptr;
    PitEntry& entry = entries_.take();
    entry = PitEntry{};
    entry.interest = std::move(interest);
    entry.key = key;
    entry.job = job;
    chains_.insert(entry);
    if (key.can_be_prefix) ++prefix_entries_;
    if (key.ends_with_digest) count_digest_entry(key, true);
    shares_.take(job);
    return &entry;
}

void Pit::erase(PitEntry& entry) {
    timers_.cancel(entry);
    erase_records(entry.first_in, in_records_, face_records_);
    erase_records(entry.first_out, out_records_, face_records_);
    chains_.erase(entry);
    if (entry.key.can_be_prefix) --prefix_entries_;
    if (entry.key.ends_with_digest) count_digest_entry(entry.key, false);
    shares_.give(entry.job);
    entry.interest = PacketRef();
    entries_.give(entry);
}

void Pit::count_digest_entry(const PitKey& key, bool is_new) {
    if (digest_names_.empty()) digest_names_.resize(kDigestNames);
    const wire::ByteView name = key.name.value();
    const wire::ByteView before = name.first(name.size() - kDigestComponentBytes);
    std::uint32_t& of_name = digest_names_[wire::hash_name(before) % kDigestNames];
    if (is_new) {
        ++digest_entries_;
        ++of_name;
    } else {
        --digest_entries_;
        --of_name;
    }
}

InRecord& Pit::put_in_record(PitEntry& entry, FaceId face, const RequesterSearch& found) {
    if (found.own != nullptr) return *found.own;
    InRecord*& link = found.last == nullptr ? entry.first_in : found.last->next;
    assert(link == nullptr);
    return append_record(entry, link, in_records_, face_records_, face);
}

OutRecord& Pit::put_out_record(PitEntry& entry, FaceId face) {
    OutRecord** link = &entry.first_out;
    while (*link != nullptr && (*link)->face != face) link = &(*link)->next;
    return *link != nullptr ? **link
                            : append_record(entry, *link, out_records_, face_records_, face);
}

void Pit::await_application(PitEntry& entry) {
    entry.awaited_here = true;
    for (InRecord& record : entry.in_records()) face_records_.await_application(record);
}

bool Pit::is_awaited_by_another(const PitEntry& entry) const {
    for (PitEntry* other = chains_.first(entry.key.hash); other; other = other->next_in_bucket) {
        if (other != &entry && other->awaited_here && other->key.hash == entry.key.hash &&
            other->key.name == entry.key.name) {
            return true;
        }
    }
    return false;
}

void Pit::erase_in_record(PitEntry& entry, FaceId face) {
    erase_record(entry.first_in, in_records_, face_records_, face);
}

void Pit::erase_out_record(PitEntry& entry, FaceId face) {
    erase_record(entry.first_out, out_records_, face_records_, face);
}

void Pit::collect_matches(const NamePrefixes& data_name, std::vector<PitEntry*>& into) const {
    const auto collect = [&](wire::NameHash hash, wire::NameView name, bool prefixes_only) {
        for (PitEntry* entry = chains_.first(hash); entry; entry = entry->next_in_bucket) {
            if (entry->key.hash == hash && (entry->key.can_be_prefix || !prefixes_only) &&
                entry->key.name == name) {
                into.push_back(entry);
            }
        }
    };
    collect(data_name.hash(), data_name.name(), false);
    if (prefix_entries_ == 0) return;
    const std::size_t proper = data_name.depth() - (data_name.covers_whole_name() ? 1 : 0);
    for (std::size_t depth = proper; depth > 0; --depth) {
        collect(data_name.hash(depth), data_name.prefix(depth), true);
    }
}

void Pit::collect_digest_matches(const NamePrefixes& data_name, wire::ByteView digest,
                                 std::vector<PitEntry*>& into) const {
    std::array<std::uint8_t, kDigestComponentBytes> component{wire::kImplicitSha256Digest, 32};
    std::ranges::copy(digest.first(32), component.begin() + 2);
    wire::NameHasher full_name;
    full_name.add(data_name.name().value());
    full_name.add(component);
    const wire::NameHash hash = full_name.hash();
    for (PitEntry* entry = chains_.first(hash); entry; entry = entry->next_in_bucket) {
        if (entry->key.hash != hash || !entry->key.ends_with_digest) continue;
        const wire::ByteView name = entry->key.name.value();
        const wire::ByteView data = data_name.name().value();
        if (name.size() == data.size() + component.size() &&
            std::ranges::equal(name.first(data.size()), data) &&
            std::ranges::equal(name.last(component.size()), component)) {
            into.push_back(entry);
        }
    }
}

void Pit::collect_named(wire::NameView name, std::vector<PitEntry*>& into) const {
    const wire::NameHash hash = name.hash();
    for (PitEntry* entry = chains_.first(hash); entry; entry = entry->next_in_bucket) {
        if (entry->key.hash == hash && entry->key.name == name) into.push_back(entry);
    }
}

void Pit::collect_all(std::vector<PitEntry*>& into) const {
    chains_.for_each([&](PitEntry& entry) { into.push_back(&entry); });
}

void Pit::collect_waiting(FaceId face, std::vector<PitEntry*>& into) const {
    face_records_.waiting(face).for_each([&](InRecord& record) { into.push_back(record.entry); });
}

void Pit::collect_upstream(FaceId face, std::vector<PitEntry*>& into) const {
    face_records_.upstream(face).for_each([&](OutRecord& record) { into.push_back(record.entry); });
}

void Pit::audit(AuditReport& report) const {
    std::vector<PitEntry*> entries;
    collect_all(entries);
    std::array<std::size_t, jobs::kMaxJobIds> of_job{};
    std::vector<std::size_t> waiting(face_records_.faces());
    std::vector<std::size_t> upstream(face_records_.faces());
    for (const PitEntry* entry : entries) {
        ++of_job[entry->job];
        report.expect(!entry->in_records().empty(), "each pending Interest has a requester");
        report.expect(entry->scheduled(), "each pending Interest ends by a timer");
        for (const InRecord& record : entry->in_records()) {
            report.expect(record.expiry <= entry->expiry, "an entry outlives its records");
            if (record.face < waiting.size()) ++waiting[record.face];
        }
        for (const OutRecord& record : entry->out_records()) {
            if (record.face < upstream.size()) ++upstream[record.face];
        }
    }
    for (std::size_t i = 0; i < waiting.size(); ++i) {
        const auto face = static_cast<FaceId>(i);
        report.expect_equal(face_records_.waiting(face).size(), waiting[i], "a face's Interests");
        report.expect_equal(face_records_.upstream(face).size(), upstream[i],
                            "Interests sent to a face");
    }
    report.expect_equal(shares_.used(), entries.size(), "pending Interests");
    report.expect_at_most(entries.size(), shares_.capacity(), "pending Interests");
    report.expect_at_most(longest_chain(), chains_.kMaxChain, "pending Interests of one bucket");
    for (jobs::JobId job = 0; job < of_job.size(); ++job) {
        report.expect_equal(shares_.used(job), of_job[job], "pending Interests of one job");
    }
}

}  // namespace innet::tables
