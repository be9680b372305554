// An Interest that nothing here can answer at once: the reducer, or a face that leads further.

#include "switch_emulator/forwarding/interest_rewriting.hpp"
#include "switch_emulator/forwarding/node_state.hpp"

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
        if (entry.in_reduction) return;
        if (admission == reduction::Admission::kNoSlot)
            return on_reduction_refused(interest, entry);
    }
    if (is_network(interest.face) && interest.view.hop_limit() == 1) {
        return on_hop_limit_exceeded(interest, entry);
    }
    const bool asked = decide_by_name
                           ? ask_upstream(entry, interest.name, interest.packet, interest.view,
                                          interest.face, interest.now)
                           : ask_upstream(entry, tables::NamePrefixes(hint), interest.packet,
                                          interest.view, interest.face, interest.now);
    if (!asked) on_no_route(interest, entry);
}

void Node::State::on_reduction_refused(const IncomingInterest& interest, tables::PitEntry& entry) {
    entry.fallback_tried = true;  // no rule of any kind helps while there is no slot
    on_interest_unanswerable(interest, entry, wire::NackReason::kNoSlot);
}

void Node::State::on_hop_limit_exceeded(const IncomingInterest& interest, tables::PitEntry& entry) {
    ++counters.hop_limit_exceeded;
    pit.erase_in_record(entry, interest.face);
    if (entry.in_records().empty()) finish(entry);
}

void Node::State::on_no_route(const IncomingInterest& interest, tables::PitEntry& entry) {
    const wire::NameView hint = interest.view.forwarding_hint();
    if (is_own_hint(hint)) {
        ++counters.no_rule;
        return on_interest_unanswerable(interest, entry, wire::NackReason::kNoRule);
    }
    ++counters.no_route;
    const wire::ByteView wanted = (hint.empty() ? interest.name.name() : hint).value();
    last_unroutable.assign(wanted.begin(), wanted.end());
    on_interest_unanswerable(interest, entry, wire::NackReason::kNoRoute);
}

// The others may still get what they wait for; this one asked for a way that does not exist.
void Node::State::on_interest_unanswerable(const IncomingInterest& interest,
                                           tables::PitEntry& entry, wire::NackReason reason) {
    if (!entry.has_live_upstream()) return on_upstreams_exhausted(entry, reason, interest.now);
    reject(entry, *entry.find_in_record(interest.face), reason, interest.now);
    pit.erase_in_record(entry, interest.face);
    if (entry.in_records().empty()) finish(entry);
}

std::span<const tables::NextHop> Node::State::next_hops(const tables::NamePrefixes& route) {
    const auto known = fib.longest_prefix_match(route);
    if (!known.empty() || route_source == nullptr) return known;
    const auto got = route_source->route_to(route.name());
    if (!got) return {};
    fib.add(got->prefix, got->face, got->cost);
    return fib.longest_prefix_match(route);
}

bool Node::State::ask_upstream(tables::PitEntry& entry, const tables::NamePrefixes& route,
                               const PacketRef& packet, const wire::InterestView& view,
                               FaceId except, TimePoint now) {
    const NameScope scope = scope_of(entry.key.name);
    for (const tables::NextHop& hop : next_hops(route)) {
        if (hop.face == except || !is_open(hop.face) || !carries(hop.face, entry.job)) continue;
        if (!may_go(scope, except, hop.face)) continue;
        const tables::OutRecord* known = entry.find_out_record(hop.face);
        if (known != nullptr && known->nacked) continue;

        const auto hop_limit = view.hop_limit();
        const PacketRef outgoing =
            hop_limit ? with_hop_limit(view, static_cast<std::uint8_t>(*hop_limit - 1), pool)
                      : packet;
        transmit(hop.face, outgoing, {});
        ++faces[hop.face].counters.interests_out;

        tables::OutRecord& record = pit.put_out_record(entry, hop.face);
        record.nonce = *view.nonce();
        record.sent = now;
        entry.last_sent = now;
        return true;
    }
    return false;
}

bool Node::State::ask_elsewhere(tables::PitEntry& entry, TimePoint now) {
    // With the old nonce, a node that has met it on the other way would take it for a loop.
    const PacketRef packet = with_nonce(entry.interest.bytes(), next_nonce(), pool);
    const auto view = wire::InterestView::parse(packet.bytes());
    if (!view || view->hop_limit() == 1) return false;
    const wire::NameView hint = view->forwarding_hint();
    const bool decide_by_name = hint.empty() || is_own_hint(hint);
    entry.held = false;
    const FaceId except = entry.first_in != nullptr ? entry.first_in->face : kNoFace;
    return ask_upstream(entry, tables::NamePrefixes(decide_by_name ? view->name() : hint), packet,
                        *view, except, now);
}

}  // namespace innet::forwarding
