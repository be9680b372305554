// Interests that go back where a pending one came from (draft-irtf-icnrg-reflexive-forwarding,
// sections 4.6 and 6): docs/protocol.md says what of it is here.

#include "switch_emulator/forwarding/node_state.hpp"

namespace innet::forwarding {

namespace {

/// With fewer bytes than the draft asks for, names would meet by chance, or be guessed.
constexpr std::size_t kMinPrefixBytes = 8;

wire::Element prefix_of(const tables::NamePrefixes& name) {
    return name.name().component(name.reflexive_depth() - 1);
}

}  // namespace

bool Node::State::is_trigger(const IncomingInterest& interest) {
    return interest.name.reflexive_depth() > 1 && is_network(interest.face) &&
           prefix_of(interest.name).value.size() >= kMinPrefixBytes;
}

bool Node::State::is_reflexive(const tables::NamePrefixes& name) {
    return name.reflexive_depth() == 1;
}

std::optional<wire::NackReason> Node::State::why_no_way_back(const IncomingInterest& interest) {
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

void Node::State::add_way_back(const IncomingInterest& interest, tables::PitEntry& entry) {
    // The entry's own bytes: the packet at hand goes.
    const wire::Element prefix = entry.key.name.component(interest.name.reflexive_depth() - 1);
    entry.way_back =
        &reflexive_routes.add(wire::hash_name(prefix.whole), prefix.whole, entry, interest.face);
}

void Node::State::remove_way_back(tables::PitEntry& entry) {
    reflexive_routes.remove(*entry.way_back);
    entry.way_back = nullptr;
}

tables::ReflexiveRoute* Node::State::way_back(const tables::NamePrefixes& name) const {
    return reflexive_routes.find(name.hash(1), name.name().component(0).whole);
}

// Only whoever the trigger was sent to may answer it with a question.
strategies::Outcome Node::State::ask_back(tables::PitEntry& entry, const tables::NamePrefixes& name,
                                          const Upstream& upstream) {
    const tables::ReflexiveRoute* route = way_back(name);
    const bool may_ask = route != nullptr && is_open(route->face) &&
                         (!is_network(upstream.except) ||
                          route->trigger->find_out_record(upstream.except) != nullptr);
    if (!may_ask) {
        ++counters.reflexive_refused;
        return strategies::Outcome::kNoNextHop;
    }
    const tables::OutRecord* known = entry.find_out_record(route->face);
    if (known != nullptr && known->nacked) return strategies::Outcome::kNoNextHop;
    send_upstream(entry, upstream, route->face, strategies::Nonce::kSame);
    ++counters.reflexive_interests;
    prolong(*route->trigger, upstream.view.lifetime(), upstream.now);
    return strategies::Outcome::kAsked;
}

// Section 6.1.2: the trigger's answer comes after this one's.
void Node::State::prolong(tables::PitEntry& trigger, Duration lifetime, TimePoint now) {
    const TimePoint until = now + std::min<Duration>(lifetime * 3 / 2, wire::kMaxInterestLifetime);
    for (tables::InRecord& record : trigger.in_records()) {
        record.expiry = std::max(record.expiry, until);
    }
    trigger.expiry = std::max(trigger.expiry, until);
}

// Section 6.2.2: a consumer that wants no more of these questions says so.
void Node::State::on_way_back_forbidden(const tables::NamePrefixes& name, FaceId face) {
    tables::ReflexiveRoute* route = way_back(name);
    if (route != nullptr && route->face == face) remove_way_back(*route->trigger);
}

}  // namespace innet::forwarding
