// Executes the requests of the application and the reducer of this node, between packets.

#include <algorithm>

#include "switch_emulator/forwarding/node_state.hpp"

namespace innet::forwarding {

namespace {

// Requests can cause requests (an answer from this very node opens a window for the next Interest).
// What is still waiting after so many rounds runs after the driver has had its turn.
constexpr int kMaxRounds = 64;

FaceId face_of(RequesterId requester) {
    return requester == RequesterId::kReducer ? kReducerFace : kApplicationFace;
}

/// Whether the application, for which the Interest was sent upstream, withdrew its request; the
/// other requesters of the entry would have shared the answer.
bool is_withdrawn(const tables::PitEntry& entry, wire::NackReason reason) {
    return reason == wire::NackReason::kNoData && entry.find_in_record(kApplicationFace) == nullptr;
}

/// The most that an Interest's fixed parts take, with room for type and length of everything.
constexpr std::size_t kInterestOverhead = 64;
/// This node takes one off; what arrives with 1 goes no further.
constexpr std::uint8_t kHopLimitToNeighbour = 2;

}  // namespace

void Node::State::run_pending(TimePoint now) {
    last_seen_now = now;
    for (int round = 0; round < kMaxRounds && !requests.empty(); ++round) {
        requests.run_waiting(
            [&](const Request& request, wire::ByteView name_bytes, wire::ByteView argument) {
                const wire::NameView name = wire::NameView::trusted(name_bytes);
                switch (request.kind) {
                    case Request::Kind::kExpress:
                        return on_express(request, name, wire::NameView::trusted(argument), now);
                    case Request::Kind::kCancel:
                        return on_cancel(face_of(request.requester), name);
                    case Request::Kind::kPutData:
                        return on_local_data(request.requester, request.data, request.marked, now);
                    case Request::Kind::kOfferData:
                        return on_offer(request.data, wire::NameView::trusted(argument),
                                        request.marked);
                    case Request::Kind::kHold:
                        return on_local_hold(name, argument, now);
                    case Request::Kind::kNack:
                        return on_local_nack(name, request.reason, now);
                }
            });
    }
}

void Node::State::on_express(const Request& request, wire::NameView name, wire::NameView hint,
                             TimePoint now) {
    const FaceId face = face_of(request.requester);
    if (face == kApplicationFace && application == nullptr) return;
    const wire::ByteView roots = request.data.bytes();
    PacketRef packet =
        pool.allocate(name.value().size() + hint.value().size() + roots.size() + kInterestOverhead);
    if (!packet) return;
    wire::InterestFields fields{.name = name,
                                .forwarding_hint = hint,
                                .nonce = next_nonce(),
                                .lifetime = request.lifetime,
                                .must_be_fresh = request.must_be_fresh,
                                .attached_roots = roots,
                                .accepts_draft = request.to_neighbour};
    if (request.to_neighbour) fields.hop_limit = kHopLimitToNeighbour;
    const auto view = wire::InterestView::encode(fields, packet.writable());
    if (!view) return;
    packet.truncate(view->whole().size());
    on_complete_interest(face, packet, *view, {}, now);
}

void Node::State::on_cancel(FaceId face, wire::NameView name) {
    waiting.clear();
    pit.collect_named(name, waiting);
    for (tables::PitEntry* entry : waiting) {
        if (entry->find_in_record(face) == nullptr) continue;
        erase_in_record(*entry, face);
        if (entry->in_records().empty()) finish(*entry);
    }
}

void Node::State::on_offer(const PacketRef& packet, wire::NameView hint, bool marked) {
    const auto frame = wire::DataFrame::parse(packet.parts());
    const tables::FibEntry* route = route_towards(tables::NamePrefixes(hint));
    if (!frame || route == nullptr) return;
    const jobs::JobId job = job_of(tables::NamePrefixes(frame->name));
    const auto takes = [&](const tables::NextHop& hop) {
        return faces.is_open(hop.face) && !faces.is_foreign(hop.face) &&
               faces.carries(hop.face, job);
    };
    const auto hop = std::ranges::find_if(route->next_hops, takes);
    if (hop != route->next_hops.end()) sender.send_data(hop->face, {}, packet, marked);
}

void Node::State::on_local_hold(wire::NameView name, wire::ByteView missing, TimePoint now) {
    waiting.clear();
    pit.collect_named(name, waiting);
    for (tables::PitEntry* entry : waiting) on_late_rank(*entry, std::nullopt, missing, now);
}

void Node::State::on_local_nack(wire::NameView name, wire::NackReason reason, TimePoint now) {
    waiting.clear();
    pit.collect_named(name, waiting);
    for (tables::PitEntry* entry : waiting) {
        // Requested again before this Nack was handled: the reducer retries already.
        if (entry->in_reduction && reducer.works_on(name)) continue;
        entry->in_reduction = false;
        entry->held = false;
        if (entry->has_live_upstream() && !is_withdrawn(*entry, reason)) continue;
        entry->fallback_tried = true;  // it was what has just failed
        on_upstreams_exhausted(*entry, reason, now);
    }
}

std::uint32_t Node::State::next_nonce() { return static_cast<std::uint32_t>(nonces.next() >> 32U); }

}  // namespace innet::forwarding
