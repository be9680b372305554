// A Hold arrives: the producing node has the Interest, and a rank is late. Each requester of that
// node receives the Hold once.

#include <algorithm>

#include "switch_emulator/forwarding/node_state.hpp"
#include "transport/debug_log.hpp"

namespace innet::forwarding {

namespace {

/// How late a contribution is before its requesters learn of it; up to 1 ms more, as timers are.
/// Where round trips are long, requesters have longer timers, and such ranks are not late.
Duration hold_delay(Duration min_rto) {
    constexpr Duration kLeast = std::chrono::milliseconds(1);
    constexpr Duration kUsualMinRto = std::chrono::milliseconds(50);
    return kLeast + std::max(Duration::zero(), min_rto - kUsualMinRto) / 4;
}

/// A sum of many late ranks is held by each of them, and each hop of a chain of sums adds its own.
/// Requesters receive the labels of this time in one Hold at its end, unless the Data came first.
constexpr Duration kNewsInterval = std::chrono::milliseconds(50);

/// One face may lead to two hinted nodes: the nonce identifies the Interest that is answered.
tables::Way answered_way(const tables::PitEntry& entry, const tables::OutRecord& upstream,
                         const wire::InterestView& interest) {
    if (!entry.several_ways) return tables::kFirstWay;
    for (const tables::InRecord& record : entry.in_records()) {
        if (record.nonce == interest.nonce()) return record.way;
    }
    return upstream.way;
}

}  // namespace

void Node::State::on_incoming_hold(FaceId face, const wire::InterestView& interest,
                                   wire::ByteView missing, TimePoint now) {
    const tables::NamePrefixes name(interest.name());
    if (!faces.carries(face, job_of(name))) return on_forbidden_answer(face);
    tables::PitEntry* entry = pit.find(tables::PitKey::of(interest, name));
    INNET_LOG(kForwarding, "face " << face << ": Hold of " << interest.name().to_uri());
    if (entry == nullptr) return;
    tables::OutRecord* upstream = entry->find_out_record(face);
    if (upstream == nullptr || upstream->nacked) return;
    if (strategies::Strategy* strategy = notified_strategy(*entry)) {
        strategy->after_receive_hold(*entry, *upstream, now);
    }
    if (interest.nonce() == upstream->nonce) upstream->held = true;
    on_late_rank(*entry, answered_way(*entry, *upstream, interest), missing, now);
}

// Ranks call at nearly the same time: most Interests that arrive before their Data are answered
// sooner than a Hold would be of use.
void Node::State::schedule_hold(tables::PitEntry& entry, wire::ByteView missing, TimePoint now) {
    entry.missing.assign(missing);
    entry.hold_due = true;
    pit.timers().schedule(entry, std::min(entry.expiry, now + hold_delay(options.reducer.min_rto)),
                          now);
}

void Node::State::on_hold_due(tables::PitEntry& entry, TimePoint now) {
    entry.last_news.reset();
    const auto missing = entry.missing;
    on_late_rank(entry, tables::kFirstWay, missing.view(), now);
}

// Requesters whose Interests name another node receive no Hold. One of them may be the sender of
// the Hold: it would assume that another node evaluates its own request, and not retransmit it.
void Node::State::on_late_rank(tables::PitEntry& entry, std::optional<tables::Way> way,
                               wire::ByteView missing, TimePoint now) {
    const bool changed = !std::ranges::equal(entry.missing.view(), missing);
    const bool early =
        !entry.several_ways && entry.last_news && now - *entry.last_news < kNewsInterval;
    entry.missing.assign(missing);
    entry.held = true;
    entry.hold_due = false;
    for (tables::InRecord& record : entry.in_records()) {
        if (way && record.way != *way) continue;
        record.hold_stale = record.hold_stale || (record.hold_sent && changed);
        if (record.hold_stale && early) {
            entry.hold_due = true;
        } else if (record.hold_stale || !record.hold_sent) {
            send_hold(entry, record, now);
        }
    }
    if (entry.hold_due) {
        pit.timers().schedule(entry, std::min(entry.expiry, *entry.last_news + kNewsInterval), now);
    } else if (changed || !entry.last_news) {
        entry.last_news = now;
    }
}

void Node::State::send_hold(tables::PitEntry& entry, tables::InRecord& record, TimePoint now) {
    record.hold_sent = true;
    record.hold_stale = false;
    if (is_network(record.face)) {
        sender.send_hold(record.face, record.token.view(), interest_of(entry, record),
                         entry.missing.view());
    } else {
        requester(record.face).on_hold(entry.key.name, entry.missing.view(), now);
    }
}

}  // namespace innet::forwarding
