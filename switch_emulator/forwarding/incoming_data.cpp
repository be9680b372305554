// Data arrives, or this node produces it: verification, content store, all pending requesters.

#include <algorithm>
#include <utility>

#include "switch_emulator/forwarding/node_state.hpp"
#include "switch_emulator/reduction/reduction_name.hpp"
#include "transport/debug_log.hpp"
#include "transport/security/late_mac.hpp"
#include "transport/security/manifest.hpp"

namespace innet::forwarding {

namespace {

bool is_sum(wire::NameView name) {
    const auto parsed = reduction::ReductionName::parse(name);
    return parsed && !reduction::is_contribution(parsed->interval());
}

bool wanted_by_network(const std::vector<tables::PitEntry*>& entries) {
    return std::ranges::any_of(entries, &tables::PitEntry::has_network_requester);
}

void count_refused(security::Verdict verdict, NodeCounters& counters) {
    switch (verdict) {
        case security::Verdict::kOutOfScope:
            ++counters.key_out_of_scope;
            break;
        case security::Verdict::kExpired:
            ++counters.key_expired;
            break;
        default:
            ++counters.invalid_signature;
    }
}

}  // namespace

void Node::State::on_incoming_data(FaceId face, const PacketRef& packet, bool marked, TimePoint now,
                                   const security::Sha256Digest* known_digest) {
    auto data = wire::DataView::parse(packet.bytes());
    if (!data) return on_malformed_packet(face);
    ++faces.counters(face).data_in;
    INNET_LOG(kForwarding, "face " << face << ": Data " << data->name().to_uri());
    const tables::NamePrefixes name(data->name());
    const jobs::JobId job = job_of(name);
    if (!faces.carries(face, job)) return on_forbidden_answer(face);
    if (!faces.is_local(face) && scope_of(data->name()) == NameScope::kLocalhost) {
        return on_scope_violation(face);
    }
    const auto digest = collect_waiting(*data, name, job, known_digest);
    if (digest) data->set_implicit_digest(*digest);
    const Answer answer{packet, *data, face, marked, now};
    if (waiting.empty() && waiting_by_digest.empty()) return on_unsolicited_data(answer);
    if (application_vouches_for(*data)) data->set_vouched_for();
    if (data->is_vouched_for() && waiting_by_digest.empty() && !passes_through()) {
        INNET_LOG(kForwarding, "the application vouches for it");
        return satisfy_waiting(answer);
    }
    const security::Verdict verdict = verify(answer);
    if (verdict == security::Verdict::kValid) {
        if (!data->tensor_error() && !name.is_reflexive() && passes_through())
            content_store.insert(*data, name, packet, job, now);
        satisfy_waiting(answer);
        return;
    }
    const bool is_draft = security::is_draft(*data);
    if (!waiting_by_digest.empty() && !is_draft) on_data_named_by_digest(answer, name, *digest);
    if (data->is_vouched_for() && data->content_type() != wire::ContentType::kManifest) {
        for (tables::PitEntry* entry : waiting) satisfy(*entry, answer, Recipients::kLocalOnly);
    } else if (!waiting.empty() || is_draft) {
        on_untrusted_data(answer, name, job, verdict);
    }
}

// The entry stays pending: forged Data must not make the true Data unsolicited. For names of no
// known job this node cannot know all keys, so remote requesters verify for themselves.
void Node::State::on_untrusted_data(const Answer& answer, const tables::NamePrefixes& name,
                                    jobs::JobId job, security::Verdict verdict) {
    for (tables::PitEntry* entry : waiting) request_past_caches(*entry, answer);
    if (verdict == security::Verdict::kUnknownKey) {
        INNET_LOG(kForwarding, "unknown key: sends it to remote requesters only");
        ++counters.unknown_key;
        if (job != jobs::kNoJob) return;
        if (!name.is_reflexive() && wanted_by_network(waiting)) {
            content_store.insert_unverified(answer.view, name, answer.packet, answer.now);
        }
        for (tables::PitEntry* entry : waiting) satisfy(*entry, answer, Recipients::kNetworkOnly);
        return;
    }
    on_invalid_signature(answer, verdict);
}

// A cache that cannot verify would answer each repetition with the same Data. Each transmission of
// the Interest causes at most one: a neighbour can send any number of bad answers. A sum is
// evaluated elsewhere when its requests fail, so it is not requested twice. With several ways, the
// hint of the first Interest may be another requester's.
void Node::State::request_past_caches(tables::PitEntry& entry, const Answer& answer) {
    tables::OutRecord* upstream = entry.find_out_record(answer.from);
    if (upstream == nullptr || std::exchange(upstream->rejected, true)) return;
    if (entry.several_ways || entry.key.must_be_fresh || is_sum(entry.key.name)) return;
    const auto first = wire::InterestView::parse(entry.interest.bytes());
    if (!first) return;
    for (const tables::InRecord& record : entry.in_records()) {
        if (is_network(record.face) || record.expiry <= answer.now) continue;
        const auto by =
            record.face == kReducerFace ? RequesterId::kReducer : RequesterId::kApplication;
        requests.add({.kind = Request::Kind::kExpress,
                      .requester = by,
                      .must_be_fresh = true,
                      .lifetime = first->lifetime()},
                     entry.key.name.value(), first->forwarding_hint().value());
    }
}

// The requester named these bytes by digest, so any signer will do. The digest proves nothing more:
// requesters of the name alone never receive this Data, neither directly nor from the cache.
void Node::State::on_data_named_by_digest(const Answer& answer, const tables::NamePrefixes& name,
                                          const security::Sha256Digest& digest) {
    INNET_LOG(kForwarding, "the implicit digest matches");
    if (wanted_by_network(waiting_by_digest)) {
        content_store.insert_by_digest(answer.view, name, digest, answer.packet, job_of(name),
                                       answer.now);
    }
    for (tables::PitEntry* entry : waiting_by_digest) {
        satisfy(*entry, answer, Recipients::kEveryone);
    }
}

// A contribution, or a sum of several, that was sent ahead of the request for it.
void Node::State::on_unsolicited_data(const Answer& answer) {
    if (!faces.is_foreign(answer.from) && reducer.may_use(answer.view.name())) {
        const security::Verdict verdict = verify(answer);
        if (verdict == security::Verdict::kUnknownKey) {
            ++counters.unknown_key;
        } else if (verdict != security::Verdict::kValid) {
            return on_invalid_signature(answer, verdict);
        } else if (reducer.on_offer(answer.view, answer.packet, answer.marked, answer.now)) {
            return;
        }
    }
    INNET_LOG(kForwarding, "drops it: unsolicited");
    ++counters.unsolicited_data;
}

security::Verdict Node::State::verify(const Answer& answer) {
    // A draft is invalid even where its key is unknown: others could not verify it, either.
    if (security::is_draft(answer.view)) return security::Verdict::kInvalid;
    const bool mac_waived = faces.options(answer.from).trusted && security::lacks_mac(answer.view);
    if (mac_waived) answer.packet.set_mac_due();
    return keyring.verify(answer.view, answer.now, mac_waived);
}

void Node::State::on_invalid_signature(const Answer& answer, security::Verdict verdict) {
    INNET_LOG(kForwarding, "drops it: wrong signature, scope or time of the key");
    count_refused(verdict, counters);
    ++faces.counters(answer.from).invalid_signature_in;
}

void Node::State::on_local_data(RequesterId maker, const PacketRef& packet, bool marked,
                                TimePoint now) {
    const auto data = wire::DataView::parse(packet.bytes());
    if (!data) return;
    INNET_LOG(kForwarding, "local Data " << data->name().to_uri());
    const tables::NamePrefixes name(data->name());
    const jobs::JobId job = job_of(name);
    collect_waiting(*data, name, job, nullptr);
    // A sum of this node's reducer is cached even without a pending remote requester: a requester
    // that retransmits after a lost or late answer must not start the evaluation again.
    // The application's own publications would only displace sums and forwarded Data.
    if (maker == RequesterId::kReducer && !data->tensor_error()) {
        content_store.insert(*data, name, packet, job, now);
    }
    satisfy_waiting({packet, *data, kNoFace, marked, now});
}

void Node::State::satisfy_waiting(const Answer& answer) {
    for (tables::PitEntry* entry : waiting) satisfy(*entry, answer, Recipients::kEveryone);
    for (tables::PitEntry* entry : waiting_by_digest) {
        satisfy(*entry, answer, Recipients::kEveryone);
    }
}

std::optional<security::Sha256Digest> Node::State::collect_waiting(
    const wire::DataView& data, const tables::NamePrefixes& name, jobs::JobId job,
    const security::Sha256Digest* known_digest) {
    waiting.clear();
    waiting_by_digest.clear();
    pit.collect_matches(name, waiting);
    // A prefix that is too short for a job may have a job's names below it. A requester that named
    // a job's Data before this node knew the job is answered.
    std::erase_if(waiting, [&](const tables::PitEntry* entry) {
        return entry->job != job && entry->key.can_be_prefix &&
               job_of(tables::NamePrefixes(entry->key.name)) != job;
    });
    if (!pit.may_await_digest_of(name.hash())) return std::nullopt;
    if (known_digest == nullptr && application != nullptr) {
        const security::Sha256Digest* known = application->told_digest(data);
        if (known != nullptr) pit.collect_digest_matches(name, *known, waiting_by_digest);
        if (!waiting_by_digest.empty() && !passes_through()) return *known;
        waiting_by_digest.clear();
    }
    const security::Sha256Digest digest =
        known_digest != nullptr ? *known_digest : sha256.digest(data.whole());
    pit.collect_digest_matches(name, digest, waiting_by_digest);
    return digest;
}

// Data for this node's application needs no signature when that vouches for it; Data that this node
// forwards does.
bool Node::State::application_vouches_for(const wire::DataView& data) {
    const bool may_be_proven = data.content_type() == wire::ContentType::kManifest ||
                               data.signature_type() == wire::SignatureType::kNull;
    return may_be_proven && application != nullptr && !waiting.empty() &&
           application->vouches_for(data);
}

// Data for this node alone (operands, results of its application) must not evict Data that other
// nodes request.
bool Node::State::passes_through() const {
    return wanted_by_network(waiting) || wanted_by_network(waiting_by_digest);
}

void Node::State::satisfy(tables::PitEntry& entry, const Answer& answer, Recipients recipients) {
    if (recipients != Recipients::kLocalOnly && security::is_draft(answer.view) &&
        entry.has_network_requester() && !entry.accepts_draft) {
        INNET_LOG(kForwarding, "a draft is not for all that wait");
        return;
    }
    if (strategies::Strategy* strategy = notified_strategy(entry)) {
        tables::OutRecord* upstream = entry.find_out_record(answer.from);
        if (upstream) strategy->before_satisfy_interest(entry, *upstream, answer.now);
    }
    const auto receives = [recipients](const tables::InRecord& record) {
        return recipients == Recipients::kEveryone ||
               is_network(record.face) == (recipients == Recipients::kNetworkOnly);
    };
    for (const tables::InRecord& record : entry.in_records()) {
        if (record.expiry <= answer.now || record.face == answer.from) continue;
        if (!receives(record)) continue;
        if (is_network(record.face)) {
            sender.send_data(record.face, record.token.view(), answer.packet, answer.marked);
        } else {
            requester(record.face).on_data(answer.view, answer.packet, answer.marked, answer.now);
        }
    }
    if (recipients != Recipients::kEveryone) {
        // The other requesters wait for Data that they can verify.
        pit.erase_in_records_if(entry, receives);
        const bool is_network_done = recipients == Recipients::kNetworkOnly;
        if (is_network_done && entry.reflexive_route != nullptr) remove_reflexive_route(entry);
        if (!entry.in_records().empty()) return;
    }
    INNET_LOG(kForwarding, "satisfies " << entry.key.name.to_uri());
    ++counters.pit_satisfied;
    finish(entry);
}

}  // namespace innet::forwarding
