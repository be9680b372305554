// Forwards reflexive Interests to the face of the pending trigger Interest
// (draft-irtf-icnrg-reflexive-forwarding, sections 4.6 and 6); docs/protocol.md lists what is
// implemented.

#include "switch_emulator/forwarding/node_state.hpp"
#include "transport/debug_log.hpp"

namespace innet::forwarding {

namespace {

/// The draft requires this size: shorter names could collide by chance, or be guessed.
constexpr std::size_t kMinPrefixBytes = 8;

wire::Element prefix_of(const tables::NamePrefixes& name) {
    return name.name().component(name.reflexive_depth() - 1);
}

// Section 6.1.2: the trigger is answered after the reflexive Interest.
void prolong(tables::PitEntry& trigger, Duration lifetime, TimePoint now) {
    const TimePoint until = now + std::min<Duration>(lifetime * 3 / 2, wire::kMaxInterestLifetime);
    for (tables::InRecord& record : trigger.in_records()) {
        record.expiry = std::max(record.expiry, until);
    }
    trigger.expiry = std::max(trigger.expiry, until);
}

}  // namespace

bool Node::State::is_trigger(const IncomingInterest& interest) {
    return interest.name.reflexive_depth() > 1 && is_network(interest.face) &&
           prefix_of(interest.name).value.size() >= kMinPrefixBytes;
}

std::optional<wire::NackReason> Node::State::reflexive_error(const IncomingInterest& interest) {
    const wire::ByteView prefix = prefix_of(interest.name).whole;
    const wire::NameHash hash = wire::hash_name(prefix);
    if (!reflexive_routes.has_room(interest.face, hash)) {
        ++counters.reflexive_full;
        return wire::NackReason::kCongestion;
    }
    if (reflexive_routes.find(hash, prefix) == nullptr) return std::nullopt;
    ++counters.reflexive_refused;
    return wire::NackReason::kDuplicate;
}

void Node::State::add_reflexive_route(const IncomingInterest& interest, tables::PitEntry& entry) {
    // Points into the entry's own bytes: they outlive the packet at hand.
    const wire::Element prefix = entry.key.name.component(interest.name.reflexive_depth() - 1);
    entry.reflexive_route =
        &reflexive_routes.add(wire::hash_name(prefix.whole), prefix.whole, entry, interest.face);
}

void Node::State::remove_reflexive_route(tables::PitEntry& entry) {
    reflexive_routes.remove(*entry.reflexive_route);
    entry.reflexive_route = nullptr;
}

tables::ReflexiveRoute* Node::State::find_reflexive_route(const tables::NamePrefixes& name) const {
    return reflexive_routes.find(name.hash(1), name.name().component(0).whole);
}

// Only a node that received the trigger may answer it with a reflexive Interest.
strategies::Outcome Node::State::forward_reflexive(tables::PitEntry& entry,
                                                   const tables::NamePrefixes& name,
                                                   const Upstream& upstream) {
    const tables::ReflexiveRoute* route = find_reflexive_route(name);
    const bool may_forward = route != nullptr && faces.is_open(route->face) &&
                             has_hops_for(upstream.view, route->face) &&
                             (!is_network(upstream.except) ||
                              route->trigger->find_out_record(upstream.except) != nullptr);
    if (!may_forward) {
        INNET_LOG(kForwarding, "refuses it: no such reflexive route");
        ++counters.reflexive_refused;
        return strategies::Outcome::kNoNextHop;
    }
    const tables::OutRecord* known = entry.find_out_record(route->face);
    if (known != nullptr && known->nacked) return strategies::Outcome::kNoNextHop;
    send_upstream(entry, upstream, route->face, strategies::Nonce::kSame);
    ++counters.reflexive_interests;
    prolong(*route->trigger, upstream.view.lifetime(), upstream.now);
    return strategies::Outcome::kForwarded;
}

// Section 6.2.2: the consumer refuses further reflexive Interests.
void Node::State::on_reflexive_interest_forbidden(const tables::NamePrefixes& name, FaceId face) {
    tables::ReflexiveRoute* route = find_reflexive_route(name);
    if (route != nullptr && route->face == face) remove_reflexive_route(*route->trigger);
}

}  // namespace innet::forwarding
