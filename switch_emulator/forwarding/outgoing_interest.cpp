// An Interest that nothing here can answer at once: the reducer, or a face that leads further.

#include <algorithm>

#include "switch_emulator/forwarding/interest_rewriting.hpp"
#include "switch_emulator/forwarding/node_state.hpp"
#include "transport/debug_log.hpp"

namespace innet::forwarding {

bool Node::State::is_own_hint(wire::NameView hint) const {
    return !hint.empty() && hint == options.own_name.view();
}

void Node::State::on_interest_not_produced_here(const IncomingInterest& interest,
                                                tables::PitEntry& entry) {
    const wire::NameView hint = interest.view.forwarding_hint();
    const bool hint_is_own = is_own_hint(hint);
    const bool decide_by_name = hint.empty() || hint_is_own;
    if (decide_by_name || entry.in_reduction) {
        const bool allow_fallback = hint_is_own || entry.fallback_tried;
        entry.fallback_tried = allow_fallback;
        const auto admission = reducer.admit(entry.key.name, allow_fallback, interest.now);
        entry.in_reduction = admission == reduction::Admission::kAccepted;
        if (entry.in_reduction) {
            INNET_LOG(kForwarding, "the reducer evaluates it");
            return;
        }
        if (admission == reduction::Admission::kNoSlot)
            return on_reduction_refused(interest, entry);
    }
    const Upstream upstream{interest.packet, interest.view, interest.face, interest.now};
    const auto outcome = decide_by_name
                             ? forward_upstream(entry, interest.name, upstream)
                             : forward_upstream(entry, tables::NamePrefixes(hint), upstream);
    if (outcome != strategies::Outcome::kNoNextHop) return;
    if (!hint_is_own && lacks_hops(interest, entry)) return on_hop_limit_exceeded(interest, entry);
    on_no_route(interest, entry);
}

void Node::State::on_reduction_refused(const IncomingInterest& interest, tables::PitEntry& entry) {
    INNET_LOG(kForwarding, "refuses it: no reduction slot is free");
    entry.fallback_tried = true;  // no rule of any kind helps while there is no slot
    on_interest_unanswerable(interest, entry, wire::NackReason::kNoSlot);
}

// NDN Packet Format v0.3: a node decrements the HopLimit, and an Interest whose limit is then 0
// goes to local programs alone.
bool Node::State::has_hops_for(const wire::InterestView& interest, FaceId face) const {
    return interest.hop_limit() != 1 || faces.is_local(face);
}

bool Node::State::lacks_hops(const IncomingInterest& interest, const tables::PitEntry& entry) {
    if (interest.view.hop_limit() != 1) return false;
    const tables::FibEntry* route = route_towards(tables::NamePrefixes(towards(interest.view)));
    return route != nullptr &&
           std::ranges::any_of(route->next_hops, [&](const tables::NextHop& hop) {
               return may_send(entry, interest.face, hop.face);
           });
}

void Node::State::on_hop_limit_exceeded(const IncomingInterest& interest, tables::PitEntry& entry) {
    INNET_LOG(kForwarding, "drops it: the hop limit is used up");
    ++counters.hop_limit_exceeded;
    erase_in_record(entry, interest.face);
    if (entry.in_records().empty()) finish(entry);
}

void Node::State::on_no_route(const IncomingInterest& interest, tables::PitEntry& entry) {
    const wire::NameView hint = interest.view.forwarding_hint();
    if (is_own_hint(hint)) {
        INNET_LOG(kForwarding, "refuses it: no rule");
        ++counters.no_rule;
        return on_interest_unanswerable(interest, entry, wire::NackReason::kNoRule);
    }
    INNET_LOG(kForwarding, "refuses it: no route");
    ++counters.no_route;
    const wire::ByteView wanted = (hint.empty() ? interest.name.name() : hint).value();
    last_unroutable.assign(wanted.begin(), wanted.end());
    on_interest_unanswerable(interest, entry, wire::NackReason::kNoRoute);
}

// The other requesters may still get an answer; this one named a node without a route.
void Node::State::on_interest_unanswerable(const IncomingInterest& interest,
                                           tables::PitEntry& entry, wire::NackReason reason) {
    if (!entry.has_live_upstream()) return on_upstreams_exhausted(entry, reason, interest.now);
    reject(entry, *entry.find_in_record(interest.face), reason, interest.now);
    erase_in_record(entry, interest.face);
    if (entry.in_records().empty()) finish(entry);
}

const tables::FibEntry* Node::State::route_towards(const tables::NamePrefixes& name) {
    const tables::FibEntry* known = fib.longest_prefix_entry(name);
    if (known != nullptr || route_source == nullptr) return known;
    const auto got = route_source->route_to(name.name());
    if (!got) return nullptr;
    fib.add(got->prefix, got->face, got->cost);
    return fib.longest_prefix_entry(name);
}

bool Node::State::may_send(const tables::PitEntry& entry, FaceId except, FaceId face) const {
    if (face == except || !faces.is_open(face) || !faces.carries(face, entry.job)) return false;
    if (!faces.may_go(scope_of(entry.key.name), except, face)) return false;
    const tables::OutRecord* known = entry.find_out_record(face);
    return known == nullptr || !known->nacked;
}

bool Node::State::may_forward(const strategies::UpstreamRequest& request, FaceId face) const {
    return may_send(request.entry, request.except, face) && has_hops_for(request.view, face) &&
           !is_uninvited(request.entry.job, request.route, face);
}

tables::OutRecord& Node::State::forward(const strategies::UpstreamRequest& request, FaceId face,
                                        strategies::Nonce nonce) {
    const Upstream upstream{request.packet, request.view, request.except, request.now};
    return send_upstream(request.entry, upstream, face, nonce);
}

tables::OutRecord& Node::State::send_upstream(tables::PitEntry& entry, const Upstream& upstream,
                                              FaceId face, strategies::Nonce nonce) {
    const auto hop_limit = upstream.view.hop_limit();
    PacketRef outgoing =
        hop_limit ? with_hop_limit(upstream.view, static_cast<std::uint8_t>(*hop_limit - 1), pool)
                  : upstream.packet;
    std::uint32_t sent_nonce = *upstream.view.nonce();
    if (nonce == strategies::Nonce::kNew) {
        sent_nonce = next_nonce();
        outgoing = with_nonce(outgoing.bytes(), sent_nonce, pool);
    }
    INNET_LOG(kForwarding, "sends it to face " << face);
    sender.send_interest(face, outgoing);

    tables::OutRecord& record = pit.put_out_record(entry, face);
    record.repeated = record.sent != TimePoint{};
    record.nonce = sent_nonce;
    record.held = false;
    record.rejected = false;
    record.way = entry.several_ways ? entry.way_of(upstream.view) : tables::kFirstWay;
    record.sent = upstream.now;
    entry.last_sent = upstream.now;
    return record;
}

strategies::Outcome Node::State::forward_upstream(tables::PitEntry& entry,
                                                  const tables::NamePrefixes& towards,
                                                  const Upstream& upstream) {
    if (towards.is_reflexive()) return forward_reflexive(entry, towards, upstream);
    return forward_by(strategy_table.at(entry.strategy), entry, towards, upstream);
}

strategies::Outcome Node::State::forward_by(strategies::Strategy& strategy, tables::PitEntry& entry,
                                            const tables::NamePrefixes& towards,
                                            const Upstream& upstream) {
    const tables::FibEntry* route = route_towards(towards);
    if (route == nullptr) return strategies::Outcome::kNoNextHop;
    const strategies::UpstreamRequest request{.entry = entry,
                                              .route = *route,
                                              .packet = upstream.packet,
                                              .view = upstream.view,
                                              .except = upstream.except,
                                              .repeated = entry.last_sent.has_value(),
                                              .now = upstream.now};
    return upstream.all_refused ? strategy.after_all_refused(request, *this)
                                : strategy.after_receive_interest(request, *this);
}

bool Node::State::forward_elsewhere(tables::PitEntry& entry, TimePoint now) {
    const PacketRef packet = kept_interest(entry);
    const auto view = wire::InterestView::parse(packet.bytes());
    if (!view) return false;
    entry.held = false;
    const Upstream upstream{packet, *view, entry.first_requester(), now, true};
    return forward_upstream(entry, tables::NamePrefixes(towards(*view)), upstream) !=
           strategies::Outcome::kNoNextHop;
}

PacketRef Node::State::kept_interest(const tables::PitEntry& entry) {
    const auto view = wire::InterestView::parse(entry.interest.bytes());
    if (!view) return {};
    // A node that received the old nonce on the other path would detect a loop.
    return entry.last_sent ? with_nonce(entry.interest.bytes(), next_nonce(), pool)
                           : entry.interest;
}

void Node::State::add_route(const wire::Name& prefix, FaceId face, std::uint32_t cost) {
    const bool is_new = !fib.contains(prefix, face);
    fib.add(prefix, face, cost);
    if (is_new && !strategy_table.empty()) on_new_next_hop(prefix, face);
}

void Node::State::on_new_next_hop(const wire::Name& prefix, FaceId face) {
    std::vector<tables::PitEntry*> entries;
    pit.collect_all(entries);
    for (tables::PitEntry* entry : entries) {
        const strategies::Strategy* strategy = notified_strategy(*entry);
        if (strategy == nullptr || !strategy->forwards_to_new_next_hops()) continue;
        if (entry->last_sent) forward_to_new_next_hop(*entry, prefix, face);
    }
}

void Node::State::forward_to_new_next_hop(tables::PitEntry& entry, const wire::Name& prefix,
                                          FaceId face) {
    const PacketRef packet = kept_interest(entry);
    const auto view = wire::InterestView::parse(packet.bytes());
    if (!view) return;
    const tables::FibEntry* route = fib.longest_prefix_entry(tables::NamePrefixes(towards(*view)));
    if (route == nullptr || !(route->prefix == prefix)) return;
    for (const tables::InRecord& record : entry.in_records()) {
        const strategies::UpstreamRequest request{.entry = entry,
                                                  .route = *route,
                                                  .packet = packet,
                                                  .view = *view,
                                                  .except = record.face,
                                                  .repeated = true,
                                                  .now = last_seen_now};
        if (!may_forward(request, face)) continue;
        INNET_LOG(kForwarding, "forwards it to a new next hop");
        forward(request, face, strategies::Nonce::kSame);
        return;
    }
}

wire::NameView Node::State::towards(const wire::InterestView& interest) const {
    const wire::NameView hint = interest.forwarding_hint();
    return hint.empty() || is_own_hint(hint) ? interest.name() : hint;
}

}  // namespace innet::forwarding
