#include "switch_emulator/forwarding/strategies/adaptive.hpp"

#include <algorithm>

namespace innet::forwarding::strategies {

namespace {

/// Whether this entry's Interest is on its way through that face.
bool is_pending(const tables::PitEntry& entry, FaceId face) {
    return entry.find_out_record(face) != nullptr;
}

}  // namespace

int Adaptive::rank(const tables::FaceMeasurement& measurement) const {
    if (measurement.timeouts() >= options_.max_timeouts) return 2;
    return measurement.measured() ? 0 : 1;
}

bool Adaptive::precedes(const tables::FaceMeasurement& a, const tables::FaceMeasurement& b) const {
    const int rank_a = rank(a);
    const int rank_b = rank(b);
    return rank_a != rank_b ? rank_a < rank_b : a.srtt() < b.srtt();
}

Outcome Adaptive::after_receive_interest(const UpstreamRequest& request, StrategyActions& actions) {
    tables::PrefixMeasurements& known = measurements_.of(request.route.prefix, request.now);
    // A repeated Interest was not answered by its upstreams: other next hops take precedence.
    FaceId best = kNoFace;
    for (const tables::NextHop& hop : request.route.next_hops) {
        if (!actions.may_forward(request, hop.face)) continue;
        known.at(hop.face).note_silence(request.now);
        if (best == kNoFace) {
            best = hop.face;
            continue;
        }
        const bool best_is_pending = is_pending(request.entry, best);
        const bool better = best_is_pending == is_pending(request.entry, hop.face)
                                ? precedes(known.at(hop.face), known.at(best))
                                : best_is_pending;
        if (better) best = hop.face;
    }
    if (best == kNoFace) return Outcome::kNoNextHop;
    forward(request, actions, known.at(best), Nonce::kSame);
    if (!request.repeated && is_probe_due(known, request.now)) {
        probe(request, actions, known, best);
    }
    return Outcome::kForwarded;
}

// The first probe is due soon, at a random time: the nodes of a path must not probe all at once.
bool Adaptive::is_probe_due(tables::PrefixMeasurements& known, TimePoint now) {
    if (!known.next_probe) {
        known.next_probe =
            now + Duration(static_cast<Duration::rep>(
                      random_.fraction() * static_cast<double>(options_.probing_interval.count())));
    }
    if (now < *known.next_probe) return false;
    known.next_probe = now + options_.probing_interval;
    return true;
}

// A next hop with better measurements is probed more often: the k-th of n with probability
// 2(n + 1 - k) / n(n + 1), as in NFD.
void Adaptive::probe(const UpstreamRequest& request, StrategyActions& actions,
                     tables::PrefixMeasurements& known, FaceId best) {
    others_.clear();
    for (const tables::NextHop& hop : request.route.next_hops) {
        if (hop.face != best && actions.may_forward(request, hop.face)) others_.push_back(hop.face);
    }
    if (others_.empty()) return;
    std::ranges::stable_sort(
        others_, [&](FaceId a, FaceId b) { return precedes(known.at(a), known.at(b)); });
    const std::size_t count = others_.size();
    std::uint64_t lot = random_.below(count * (count + 1) / 2);
    std::size_t chosen = 0;
    while (lot >= count - chosen) {
        lot -= count - chosen;
        ++chosen;
    }
    forward(request, actions, known.at(others_[chosen]), Nonce::kNew);
    ++probes_;
}

void Adaptive::forward(const UpstreamRequest& request, StrategyActions& actions,
                       tables::FaceMeasurement& measurement, Nonce nonce) {
    tables::OutRecord& upstream = actions.forward(request, measurement.face, nonce);
    // A retransmission before the answer is not a new sample: its answer gives no round-trip time.
    if (upstream.measured_under == 0) measurement.on_sent(request.now);
    upstream.measured_under = request.route.prefix.view().hash();
}

tables::FaceMeasurement* Adaptive::settle(tables::OutRecord& upstream) {
    if (upstream.measured_under == 0) return nullptr;
    tables::FaceMeasurement* of = measurements_.find(upstream.measured_under, upstream.face);
    upstream.measured_under = 0;
    return of;
}

void Adaptive::before_satisfy_interest(const tables::PitEntry& /*entry*/,
                                       tables::OutRecord& upstream, TimePoint now) {
    tables::FaceMeasurement* of = settle(upstream);
    if (of == nullptr) return;
    std::optional<Duration> rtt;
    if (!upstream.repeated) rtt = now - upstream.sent;
    of->on_answer(rtt, now);
}

void Adaptive::after_receive_nack(const tables::PitEntry& /*entry*/, tables::OutRecord& upstream,
                                  wire::NackReason reason, TimePoint now) {
    tables::FaceMeasurement* of = settle(upstream);
    if (of == nullptr) return;
    // Two copies of the Interest met on the path: neither next hop failed.
    if (reason == wire::NackReason::kDuplicate) return of->on_withdrawn();
    of->on_refusal(now);
}

void Adaptive::after_receive_hold(const tables::PitEntry& /*entry*/, tables::OutRecord& upstream,
                                  TimePoint now) {
    if (upstream.measured_under == 0) return;
    tables::FaceMeasurement* of = measurements_.find(upstream.measured_under, upstream.face);
    if (of != nullptr) of->on_sign_of_life(now);
}

void Adaptive::after_interest_timeout(tables::PitEntry& entry, TimePoint /*now*/) {
    for (tables::OutRecord& upstream : entry.out_records()) {
        const TimePoint sent = upstream.sent;
        if (tables::FaceMeasurement* of = settle(upstream)) of->on_given_up(sent);
    }
}

void Adaptive::on_entry_ended(tables::PitEntry& entry) {
    for (tables::OutRecord& upstream : entry.out_records()) {
        if (tables::FaceMeasurement* of = settle(upstream)) of->on_withdrawn();
    }
}

}  // namespace innet::forwarding::strategies
