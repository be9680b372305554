// Which requests leave next, and where to: windows, credit, turns of the flows, repetitions.

#include <algorithm>
#include <utility>

#include "transport/debug_log.hpp"
#include "transport/endpoint/fetcher.hpp"

namespace innet {

std::uint32_t Fetcher::initial_window(const FetchSpec& spec, const FetchTarget& target) const {
    const std::uint64_t fetched = spec.end_segment - spec.first_segment;
    const bool for_all_ranks = target.can_self_evaluate && fetched == spec.segmentation.segments();
    // The sum that all ranks fetch crosses each link once, so the requesters of one node do not add
    // up in its queue: the credit alone is the limit.
    return credit_.limited() && for_all_ranks
               ? std::max(options_.initial_window, options_.max_window)
               : options_.initial_window;
}

// Each of the other ranks fetches other blocks from the same nodes at the same time. Together they
// wait for one credit, as the answers share the queue of the producer's link.
std::uint64_t Fetcher::most_awaited(const FetchSpec& spec) const {
    const Segmentation& whole = spec.segmentation;
    if (!credit_.limited() || whole.blocks == 1) return UINT64_MAX;
    const double share = static_cast<double>(spec.end_segment - spec.first_segment) /
                         static_cast<double>(whole.segments());
    const double segment_bytes = static_cast<double>(whole.segment_bytes) * options_.virtual_scale;
    const double segments = share * credit_.most() / segment_bytes;
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(segments));
}

void Fetcher::repeat_lost(std::uint32_t flow_number, TimePoint now) {
    Flow& flow = requesters_[flow_number].flow;
    lost_.clear();
    flow.collect(now, lost_);
    for (const LostRequest& request : lost_) {
        if (request.cause == LossCause::kRefresh) {
            INNET_LOG(kFetch, "refreshes a held Interest");
            ++counters_.refreshes_of_held;
            send(flow, request.key, now);
            continue;
        }
        flow.make_ready(request.key);
        const TargetState& target = targets_[TargetTable::place_of(request.key)];
        const std::uint64_t segment = TargetTable::segment_of(request.key);
        credit_of(flow).on_loss(answer_bytes(target, segment));
        if (request.cause == LossCause::kGap) {
            INNET_LOG(kFetch, "a gap: requests a segment again");
            ++counters_.retransmissions_by_gap;
            continue;
        }
        INNET_LOG(kFetch, "a timeout: requests a segment again");
        ++counters_.retransmissions_by_timeout;
        const std::uint32_t timeouts = std::max(request.consecutive_timeouts, flow.silent_rounds());
        if (timeouts >= options_.timeouts_before_self_evaluation && target.can_self_evaluate &&
            !on_own_flow(flow)) {
            flow.suspect(now);
        }
    }
}

void Fetcher::pump_all(TimePoint now) {
    requesters_.for_each_in_use([&](std::uint32_t flow) {
        if (!credit_.limited() || flow == kOwnFlow) {
            pump(flow, now);
        } else {
            wait_for_turn(flow);
        }
    });
    use_credit(now);
}

void Fetcher::pump(std::uint32_t flow, TimePoint now) {
    if (!credit_.limited() || flow == kOwnFlow) {
        const ReceiveCredit& credit = credit_of(requesters_[flow].flow);
        while (credit.has_room(now) && send_next(flow, now)) {
        }
        return;
    }
    wait_for_turn(flow);
    use_credit(now);
}

void Fetcher::wait_for_turn(std::uint32_t flow) {
    if (std::exchange(requesters_[flow].waits_for_turn, true)) return;
    turns_.push(flow);
}

void Fetcher::use_credit(TimePoint now) {
    while (!turns_.empty() && credit_.has_room(now)) {
        const std::uint32_t flow = turns_.pop();
        requesters_[flow].waits_for_turn = false;
        if (send_next(flow, now)) wait_for_turn(flow);
    }
}

bool Fetcher::send_next(std::uint32_t flow, TimePoint now) {
    Asker& requester = requesters_[flow];
    const auto key = next_request(requester);
    if (!key) return false;
    TargetState& target = targets_[TargetTable::place_of(*key)];
    Flow& via = route(requester, target, now);
    const bool again = requester.flow.detector().parked(*key);
    const bool room =
        again ? via.has_room() : via.has_room_for_new() && requester.flow.has_room_for_new();
    if (!room) return false;
    if (again) {
        requester.flow.on_ready_sent();
    } else {
        const std::uint64_t segment = target.unsent.take();
        ++target.awaited;
        if (target.operation->sends_ahead && target.fetch == 0 && &via == &requester.flow) {
            publisher_.offer(*target.operation->publication, segment, via.hint());
        }
    }
    if (&via != &requester.flow) {
        requester.flow.detector().forget(*key);
        INNET_LOG(kFetch, "evaluates a segment here: its node does not answer");
        ++counters_.self_evaluations;
    } else if (requester.flow.is_suspect() && target.can_self_evaluate) {
        requester.flow.on_probe_sent(now);
    }
    send(via, *key, now);
    return true;
}

std::optional<RequestKey> Fetcher::next_request(Asker& requester) {
    if (const auto ready = requester.flow.first_ready()) return ready;
    std::erase_if(requester.unsent,
                  [this](std::uint32_t place) { return targets_[place].unsent.at_end(); });
    for (const std::uint32_t place : requester.unsent) {
        const TargetState& target = targets_[place];
        if (target.awaited >= target.most_awaited) continue;
        // Enough held requests to start with when the late tensor appears; more would only fill the
        // tables and reduction slots of others.
        const std::size_t held = requester.flow.detector().held_count(target.hash) +
                                 requesters_[kOwnFlow].flow.detector().held_count(target.hash);
        if (!credit_.has_room_for_late() && requester.flow.detector().is_late(target.hash))
            continue;
        if (held < options_.initial_window) return TargetTable::key(place, target.unsent.next());
    }
    return std::nullopt;
}

Flow& Fetcher::route(Asker& requester, const TargetState& target, TimePoint now) {
    Flow& home = requester.flow;
    const bool probe = home.probe_due(now) && home.has_room();
    const bool go_round =
        home.is_suspect() && target.can_self_evaluate && !on_own_flow(home) && !probe;
    return go_round ? requesters_[kOwnFlow].flow : home;
}

void Fetcher::send(Flow& flow, RequestKey key, TimePoint now) {
    TargetState& target = targets_[TargetTable::place_of(key)];
    const wire::NameView name = target.request_name(TargetTable::segment_of(key));
    INNET_LOG(kFetch, "requests " << name.to_uri());
    if (std::exchange(target.operation->to_neighbour, false)) {
        forwarder_.express_to_neighbour(RequesterId::kApplication, name, flow.hint(),
                                        options_.interest_lifetime,
                                        std::move(target.operation->attached));
    } else if (target.answers_not_accepted == 0) {
        forwarder_.express(RequesterId::kApplication, name, flow.hint(),
                           options_.interest_lifetime);
    } else {
        forwarder_.express_fresh(RequesterId::kApplication, name, flow.hint(),
                                 options_.interest_lifetime);
    }
    const std::uint32_t expected_bytes = answer_bytes(target, TargetTable::segment_of(key));
    credit_of(flow).on_request(now);
    flow.detector().on_sent(key, target.hash, now, expected_bytes);
    ++counters_.interests_expressed;
}

std::uint32_t Fetcher::answer_bytes(const TargetState& target, std::uint64_t segment) const {
    const std::uint64_t size_bytes = target.spec().segmentation.size_of(segment);
    return static_cast<std::uint32_t>(size_bytes * options_.virtual_scale);
}

}  // namespace innet
