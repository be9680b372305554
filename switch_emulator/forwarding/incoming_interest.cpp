// An Interest arrives: loop detection, aggregation, content store, the application of this node.

#include "switch_emulator/forwarding/interest_rewriting.hpp"
#include "switch_emulator/forwarding/node_state.hpp"
#include "switch_emulator/tables/compact.hpp"
#include "transport/debug_log.hpp"

namespace innet::forwarding {

namespace {

/// The same packet twice: a link or a driver doubled it.
bool is_duplicate(const IncomingInterest& interest, const tables::RequesterSearch& found) {
    return found.own != nullptr && found.own->nonce == interest.view.nonce();
}

/// The same nonce by another way, while `entry` is pending.
bool is_in_circles(const IncomingInterest& interest, const tables::PitEntry& entry,
                   const tables::RequesterSearch& found) {
    if (found.knows_nonce) return true;
    for (const tables::OutRecord& record : entry.out_records()) {
        if (record.nonce == interest.view.nonce()) return true;
    }
    return false;
}

/// Whether a draft may answer it: its sender forwards neither the Interest nor the draft.
bool accepts_draft(const IncomingInterest& interest) {
    return interest.view.accepts_draft() &&
           (!is_network(interest.face) || interest.view.hop_limit() == 1);
}

}  // namespace

void Node::State::on_incoming_interest(FaceId face, const PacketRef& packet,
                                       wire::ByteView pit_token, TimePoint now) {
    const auto view = wire::InterestView::parse(packet.bytes());
    if (!view) return on_malformed_packet(face);
    ++faces.counters(face).interests_in;
    INNET_LOG(kForwarding, "face " << face << ": Interest " << view->name().to_uri());
    if (view->hop_limit() == 0) {
        INNET_LOG(kForwarding, "drops it: hop limit 0");
        ++counters.hop_limit_exceeded;
        return;
    }
    if (view->nonce()) return on_complete_interest(face, packet, *view, pit_token, now);
    const PacketRef completed = with_nonce(packet.bytes(), next_nonce(), pool);
    if (const auto completed_view = wire::InterestView::parse(completed.bytes())) {
        on_complete_interest(face, completed, *completed_view, pit_token, now);
    }
}

void Node::State::on_complete_interest(FaceId face, const PacketRef& packet,
                                       const wire::InterestView& view, wire::ByteView pit_token,
                                       TimePoint now) {
    const tables::NamePrefixes name(view.name());
    const jobs::JobId job = job_of(name);
    if (!may_request(face, job)) return on_forbidden_interest(face, packet, pit_token);
    if (!faces.is_local(face) && scope_of(view.name()) == NameScope::kLocalhost) {
        return on_scope_violation(face);
    }
    const IncomingInterest interest{face, packet, view, name, job, pit_token, now};

    tables::PitEntry* entry = pit.find(tables::PitKey::of(view, name));
    if (entry != nullptr) {
        on_requested_again(interest, *entry);
    } else if (has_circled(interest)) {
        on_interest_loop(interest);
    } else {
        on_new_interest(interest);
    }
}

// With a thousand ranks on a switch, an Interest costs what looking through the requesters does:
// one search serves all that it is asked about.
void Node::State::on_requested_again(const IncomingInterest& interest, tables::PitEntry& entry) {
    const tables::RequesterSearch found =
        entry.find_requester(interest.face, *interest.view.nonce());
    if (is_duplicate(interest, found)) {
        INNET_LOG(kForwarding, "drops it: the face repeats the nonce of its pending Interest");
        ++counters.loops;
    } else if (is_in_circles(interest, entry, found) || has_circled(interest)) {
        on_interest_loop(interest);
    } else {
        on_pending_interest(interest, entry, found);
    }
}

// The local application is fetching Data that remote faces already requested; the answer satisfies
// both.
bool Node::State::fetches_for_others(const IncomingInterest& interest,
                                     const tables::PitEntry& entry) const {
    const wire::NameView hint = interest.view.forwarding_hint();
    return interest.face == kApplicationFace && !entry.in_reduction && !hint.empty() &&
           !is_own_hint(hint);
}

// A node that received the Interest may request the same Data from another node, and all requesters
// then wait for that answer. If its Interest were aggregated, it would wait for itself.
bool Node::State::opens_another_way(const IncomingInterest& interest, const tables::PitEntry& entry,
                                    tables::Way way) const {
    if (way == tables::kFirstWay || !is_network(interest.face) ||
        is_own_hint(interest.view.forwarding_hint())) {
        return false;
    }
    for (const tables::OutRecord& record : entry.out_records()) {
        if (record.way == way) return false;
    }
    return true;
}

bool Node::State::has_circled(const IncomingInterest& interest) const {
    // A local requester's nonce has not left this node yet, so only network Interests can loop.
    return is_network(interest.face) &&
           dead_nonces.contains(interest.name.hash(), *interest.view.nonce());
}

void Node::State::on_interest_loop(const IncomingInterest& interest) {
    INNET_LOG(kForwarding, "loop: the nonce was seen before");
    ++counters.loops;
    if (!is_network(interest.face)) return;
    sender.send_nack(interest.face, interest.pit_token, interest.packet,
                     wire::NackReason::kDuplicate);
}

void Node::State::on_pending_interest(const IncomingInterest& interest, tables::PitEntry& entry,
                                      const tables::RequesterSearch& found) {
    if (found.own == nullptr && !may_wait(interest, entry.awaited_here)) {
        return on_face_over_share(interest);
    }
    const tables::Way way = entry.way_of(interest.view);
    entry.several_ways |= way != tables::kFirstWay;
    // The application would answer the earlier Interests with a draft, which is not for this one.
    const bool wants_signature = entry.accepts_draft && !accepts_draft(interest);
    entry.accepts_draft &= accepts_draft(interest);
    const bool retransmits = wants_signature || opens_another_way(interest, entry, way) ||
                             must_retransmit(interest, entry, found.own, way);
    tables::InRecord& record = put_in_record(interest, entry, found, way);
    if (retransmits) return on_interest_retransmission(interest, entry);
    INNET_LOG(kForwarding, "aggregates it with the pending Interest");
    ++counters.pit_aggregated;
    if (entry.last_transmission(way).held) send_hold(entry, record, interest.now);
}

// A downstream that repeats its Interest misses the answer to what was sent upstream before its
// previous Interest. If this node has sent another Interest since, that one's answer may still
// come: so eight repetitions for one lost Data become one. The second repetition is always sent on.
bool Node::State::must_retransmit(const IncomingInterest& interest, const tables::PitEntry& entry,
                                  const tables::InRecord* earlier, tables::Way way) const {
    if (is_for_management(entry.key.name)) return false;  // it loses no Interest
    // The requester wants this node to evaluate what it has only forwarded so far.
    const bool evaluated = entry.in_reduction || entry.fallback_tried;
    if (!evaluated && is_own_hint(interest.view.forwarding_hint())) return true;
    if (!entry.last_sent) return earlier != nullptr || fetches_for_others(interest, entry);
    const tables::LastTransmission last = entry.last_transmission(way);
    if (earlier != nullptr && earlier->arrived >= *last.sent) return true;
    const Duration interval = last.held
                                  ? std::max(kHeldSuppressionInterval, options.reducer.max_rto)
                                  : std::max(kSuppressionInterval, options.reducer.min_rto);
    return interest.now - *last.sent >= interval;
}

void Node::State::on_interest_retransmission(const IncomingInterest& interest,
                                             tables::PitEntry& entry) {
    INNET_LOG(kForwarding, "forwards the retransmission");
    // A Hold is valid for one transmission: the next upstream sends a new one if it still applies.
    entry.held = false;
    entry.hold_due = false;
    const Production production = query_application(interest, entry.has_network_requester());
    if (production.kind == Production::Kind::kData) {
        if (const auto data = wire::DataView::parse(production.data.bytes())) {
            satisfy(entry, {production.data, *data, kNoFace, false, interest.now},
                    Recipients::kEveryone);
        }
    } else if (production.kind == Production::Kind::kPending) {
        await_application(interest, entry);
        on_late_rank(entry, entry.way_of(interest.view), production.missing, interest.now);
    } else if (production.kind == Production::Kind::kAbsent) {
        entry.fallback_tried = true;  // no rule makes an object
        on_interest_unanswerable(interest, entry, wire::NackReason::kNoData);
    } else {
        on_interest_not_produced_here(interest, entry);
    }
}

void Node::State::on_new_interest(const IncomingInterest& interest) {
    if (is_for_management(interest.view.name())) return on_management_interest(interest);
    // Local requesters receive verified Data only; remote requesters verify for themselves.
    const auto answers = is_network(interest.face) ? tables::ContentStore::Answers::kAll
                                                   : tables::ContentStore::Answers::kVerified;
    const tables::ContentStore::Found found =
        content_store.find(interest.view, interest.name, interest.now, answers);
    if (found.packet == nullptr || !is_of_its_job(*found.packet, interest)) {
        on_content_store_miss(interest, {});
    } else if (found.is_verified) {
        on_content_store_hit(interest, *found.packet);
    } else {
        on_content_store_miss(interest, *found.packet);
    }
}

// A prefix may be too short to be a job's, and of the names below it one may be.
bool Node::State::is_of_its_job(const PacketRef& data, const IncomingInterest& interest) const {
    if (!interest.view.can_be_prefix() || job_table.empty()) return true;
    const auto view = wire::DataView::parse(data.bytes());
    return view && job_of(tables::NamePrefixes(view->name())) == interest.job;
}

void Node::State::on_content_store_hit(const IncomingInterest& interest, const PacketRef& data) {
    INNET_LOG(kForwarding, "content store hit");
    ++counters.cache_hits;
    answer_directly(interest, data);
}

// The application takes precedence: its publication under the name replaces unverified Data from
// other nodes.
void Node::State::on_content_store_miss(const IncomingInterest& interest,
                                        const PacketRef& unverified) {
    const Production production = query_application(interest, is_network(interest.face));
    if (unverified && production.kind == Production::Kind::kNotMine) {
        return on_content_store_hit(interest, unverified);
    }
    ++counters.cache_misses;
    INNET_LOG(kForwarding, "content store miss");
    if (production.kind == Production::Kind::kData) {
        INNET_LOG(kForwarding, "the application produces the Data");
        return answer_directly(interest, production.data);
    }
    if (production.kind == Production::Kind::kAbsent) {
        INNET_LOG(kForwarding, "the application does not have the object");
        return refuse_directly(interest, wire::NackReason::kNoData);
    }
    const bool is_pending = production.kind == Production::Kind::kPending;
    if (!may_wait(interest, is_pending)) return on_face_over_share(interest);
    const bool triggers = is_trigger(interest);
    if (triggers) {
        if (const auto reason = reflexive_error(interest))
            return refuse_directly(interest, *reason);
    }
    tables::PitEntry* entry = insert_entry(interest);
    if (entry == nullptr) return on_pit_full(interest);
    if (triggers) add_reflexive_route(interest, *entry);
    if (!is_pending) return on_interest_not_produced_here(interest, *entry);
    await_application(interest, *entry);
    schedule_hold(*entry, production.missing, interest.now);
}

bool Node::State::may_wait(const IncomingInterest& interest, bool for_application) const {
    const tables::FaceRecords& records = pit.face_records();
    return records.may_wait(interest.face) &&
           (!for_application || records.may_await_application(interest.face));
}

void Node::State::await_application(const IncomingInterest& interest, tables::PitEntry& entry) {
    INNET_LOG(kForwarding, "waits for the application");
    application->await(interest.view, interest.now);
    pit.await_application(entry);
}

void Node::State::on_pit_full(const IncomingInterest& interest) {
    INNET_LOG(kForwarding, "refuses it: the PIT is full");
    ++counters.pit_full;
    ++job_parts[interest.job].pit_refused;
    refuse_directly(interest, wire::NackReason::kCongestion);
}

void Node::State::refuse_directly(const IncomingInterest& interest, wire::NackReason reason) {
    if (is_network(interest.face)) {
        sender.send_nack(interest.face, interest.pit_token, interest.packet, reason);
    } else {
        requester(interest.face).on_nack(interest.view.name(), reason, interest.now);
    }
}

Production Node::State::query_application(const IncomingInterest& interest, bool for_network) {
    if (application == nullptr) return {};
    const Production production = application->produce(interest.view, for_network, interest.now);
    const wire::NameView hint = interest.view.forwarding_hint();
    const bool has_foreign_hint = !hint.empty() && !is_own_hint(hint);
    // What is not here may well be where the Interest is bound for.
    if (production.kind == Production::Kind::kAbsent && has_foreign_hint) return {};
    return production;
}

void Node::State::answer_directly(const IncomingInterest& interest, const PacketRef& data) {
    if (is_network(interest.face)) {
        sender.send_data(interest.face, interest.pit_token, data, false);
    } else if (const auto view = wire::DataView::parse(data.bytes())) {
        requester(interest.face).on_data(*view, data, false, interest.now);
    }
}

tables::PitEntry* Node::State::insert_entry(const IncomingInterest& interest) {
    tables::PitKey key = tables::PitKey::of(interest.view, interest.name);
    PacketRef kept = tables::compact(interest.packet, pool);
    const auto name_offset =
        static_cast<std::size_t>(key.name.value().data() - interest.packet.bytes().data());
    key.name = wire::NameView::trusted(kept.bytes().subspan(name_offset, key.name.value().size()));
    const auto use =
        interest.face == kReducerFace ? tables::PitUse::kOperand : tables::PitUse::kRequest;
    tables::PitEntry* entry = pit.insert(key, std::move(kept), interest.job, use);
    if (entry == nullptr) return nullptr;
    if (!strategy_table.empty()) entry->strategy = strategy_table.number_for(interest.name);
    entry->interest_nonce = *interest.view.nonce();
    entry->accepts_draft = accepts_draft(interest);
    put_in_record(interest, *entry, {}, tables::kFirstWay);
    pit.timers().schedule(*entry, entry->expiry, interest.now);
    return entry;
}

tables::InRecord& Node::State::put_in_record(const IncomingInterest& interest,
                                             tables::PitEntry& entry,
                                             const tables::RequesterSearch& found,
                                             tables::Way way) {
    tables::InRecord& record = pit.put_in_record(entry, interest.face, found);
    record.way = way;
    record.nonce = *interest.view.nonce();
    record.token.assign(interest.pit_token);
    record.arrived = interest.now;
    record.expiry = interest.now + interest.view.lifetime();
    record.hold_sent = false;
    record.hold_stale = false;
    if (entry.awaited_here) pit.await_application(record);
    // The timer stays where it is: when it fires too early, it is set anew.
    entry.expiry = std::max(entry.expiry, record.expiry);
    return record;
}

}  // namespace innet::forwarding
