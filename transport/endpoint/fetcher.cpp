// What becomes of requests: answers, refusals, Holds. fetcher_requests.cpp makes the requests.

#include "transport/endpoint/fetcher.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/buffer/streaming_copy.hpp"
#include "transport/debug_log.hpp"
#include "transport/endpoint/segment_receiver.hpp"
#include "transport/fetch/cubic.hpp"

namespace innet {

namespace {

/// A held Interest is repeated a little before the tables on its way forget it.
Duration refresh_interval(Duration lifetime) { return lifetime * 7 / 8; }

/// Refusals for want of room in a row (each round waits twice as long) before going round the node.
constexpr std::uint32_t kRefusalRoundsBeforeSelfEvaluation = 2;
/// The same, each a dead end, before a fetch of what may be absent ends: routes that are just
/// changing get a few round trips, and a cache that is gone costs no more.
constexpr std::uint32_t kRefusalRoundsBeforeGivingUp = 2;
/// Forged roots before a fetch with `may_be_absent` ends: its caller has another source for the
/// object, and must not be delayed until the deadline.
constexpr std::uint32_t kForgeriesBeforeGivingUp = 3;
constexpr std::uint32_t kMaxRefusalDoublings = 10;
constexpr Duration kMinRetryDelay = std::chrono::milliseconds(1);
/// Of a result of this size, little is still in the core's cache when its reader begins.
constexpr std::size_t kUncachedResultBytes = std::size_t{1} << 20;

void place(const FetchSpec& spec, std::uint64_t segment, wire::ByteView content) {
    if (!spec.sizes.empty()) {
        spec.sizes[segment - spec.first_segment] = static_cast<std::uint32_t>(content.size());
    }
    if (content.empty()) return;
    const std::uint64_t begin = spec.segmentation.offset_of(spec.first_segment);
    const std::uint64_t offset = spec.segmentation.offset_of(segment) - begin;
    const std::span<std::uint8_t> target = spec.into.subspan(offset, content.size());
    if (spec.into.size() >= kUncachedResultBytes) return copy_streaming(content, target);
    std::memcpy(target.data(), content.data(), content.size());
}

bool has_its_tag(const FetchSpec& fetch, std::uint64_t segment, const wire::DataView& data) {
    if (fetch.tags.empty()) return false;
    const auto& tag = fetch.tags[static_cast<std::size_t>(segment - fetch.first_segment)];
    return fetch.tagger->holds(security::PacketParts::of(data), tag);
}

/// Of anything else, a link has damaged the Nack's reason.
bool may_be_absent(const OperationState& operation) {
    return operation.object && operation.object->may_be_absent();
}

/// About what a segment in a jumbo frame has.
constexpr std::uint64_t kUsualAnswerBytes = 8192;
/// Initial windows that leave at once after silence: an Interest that leaves later waits behind
/// Data, which on slow links takes longer than the way there and back.
constexpr std::uint64_t kFirstWindows = 2;

CreditOptions credit_of_links(const EndpointOptions& options) {
    return {options.receive_credit_bytes, options.receive_rate_bps,
            kFirstWindows * kUsualAnswerBytes * options.initial_window,
            options.receive_rate_bps == 0};
}

bool wants_room(wire::NackReason reason) {
    return reason == wire::NackReason::kNoSlot || reason == wire::NackReason::kCongestion;
}

}  // namespace

Fetcher::Fetcher(const EndpointOptions& options, const wire::Name& own_name, Forwarder& forwarder,
                 Publisher& publisher, EndpointCounters& counters)
    : options_(options),
      forwarder_(forwarder),
      publisher_(publisher),
      counters_(counters),
      answers_(options.answers == nullptr ? own_answers_ : *options.answers),
      credit_(credit_of_links(options), &answers_),
      own_credit_({.most_bytes = options.receive_credit_bytes,
                   .measures_path = options.receive_rate_bps == 0},
                  &answers_) {
    requesters_.use(flow_to(own_name, AnswerOrder::kLocal, options.initial_window));
}

std::uint32_t Fetcher::flow_to(const FetchTarget& target, std::uint32_t initial_window) {
    if (target.hint.view() == requesters_[kOwnFlow].flow.hint()) return kOwnFlow;
    return flow_to(target.hint,
                   target.can_self_evaluate ? AnswerOrder::kWhenReady : AnswerOrder::kAsSent,
                   initial_window);
}

std::uint32_t Fetcher::flow_to(const wire::Name& hint, AnswerOrder order,
                               std::uint32_t initial_window) {
    const wire::NameHash hash = hint.view().hash() ^ static_cast<wire::NameHash>(order);
    const std::uint32_t known = requesters_.find(hash, [&](const Asker& requester) {
        return requester.order == order && requester.flow.hint() == hint.view();
    });
    if (known != FlowTable<Asker>::kNone) return known;
    const bool own = order == AnswerOrder::kLocal;
    LossDetector detector(options_.min_rto, options_.max_rto,
                          refresh_interval(options_.interest_lifetime),
                          &(own ? own_credit_ : credit_).awaited(), order);
    CubicOptions window{initial_window, options_.max_window, options_.target_queue_delay};
    if (own) {
        window.max_window = std::min(options_.max_window, options_.evaluation_window);
        // What the links carry is known by then: there is nothing to be learnt first.
        if (own_credit_.limited()) window.initial_window = window.max_window;
    }
    auto control = std::make_unique<Cubic>(window);
    return requesters_.add(hash, {order, Flow(hint, std::move(detector), std::move(control)), {}});
}

void Fetcher::start(OperationState& operation, TimePoint now) {
    for (std::size_t fetch = 0; fetch < operation.fetches.size(); ++fetch) {
        const FetchSpec& spec = operation.fetches[fetch];
        operation.remaining_segments += spec.end_segment - spec.first_segment;
        for (std::size_t number = 0; number < spec.targets.size(); ++number) {
            add_target(operation, fetch, number);
        }
    }
    if (operation.remaining_segments == 0) {
        end(operation, OperationStatus::kDone, {});
        return;
    }
    pump_all(now);
}

void Fetcher::add_target(OperationState& operation, std::size_t fetch, std::size_t number) {
    const FetchSpec& spec = operation.fetches[fetch];
    const ShardCursor segments(spec, number);
    if (segments.at_end()) return;
    TargetState target;
    target.operation = &operation;
    target.fetch = fetch;
    target.number = number;
    target.hash = spec.targets[number].name.view().hash();
    target.namer = SegmentNamer(spec.targets[number].name.view());
    target.unsent = segments;
    target.flow = flow_to(spec.targets[number], initial_window(spec, spec.targets[number]));
    target.can_self_evaluate = spec.targets[number].can_self_evaluate;
    if (target.flow != kOwnFlow) target.most_awaited = most_awaited(spec);
    const std::uint32_t flow = target.flow;
    const std::uint32_t place = targets_.add(std::move(target));
    operation.targets.push_back(place);
    requesters_.use(flow);
    requesters_[flow].unsent.push_back(place);
}

void Fetcher::end(OperationState& operation, OperationStatus status, std::string detail,
                  bool names_late) {
    if (operation.ended) return;
    operation.ended = true;
    release(operation);
    outcomes_.push_back({&operation, status, std::move(detail), names_late});
}

void Fetcher::use_room_left(TimePoint now) {
    if (std::exchange(room_left_, false)) pump_all(now);
}

void Fetcher::take_outcomes(std::vector<Outcome>& into) {
    into.clear();
    into.swap(outcomes_);
}

void Fetcher::release(OperationState& operation) {
    for (const std::uint32_t place : operation.targets) {
        if (operation.remaining_segments > 0) cancel_outstanding(place);
        const std::uint32_t flow = targets_[place].flow;
        std::erase(requesters_[flow].unsent, place);
        requesters_.leave(flow);
        targets_.remove(place);
    }
    operation.targets.clear();
}

void Fetcher::cancel_outstanding(std::uint32_t place) {
    TargetState& target = targets_[place];
    ShardCursor segments(target.spec(), target.number);
    while (!segments.at_end()) {
        const std::uint64_t segment = segments.take();
        const RequestKey key = TargetTable::key(place, segment);
        Flow* flow = flow_of(target, key);
        if (flow == nullptr) continue;
        flow->detector().forget(key);
        room_left_ = true;
        bool wanted_elsewhere = false;
        targets_.for_each(target.namer.tensor(), segment, [&](std::uint32_t other) {
            wanted_elsewhere |= outstanding(targets_[other], TargetTable::key(other, segment));
        });
        if (!wanted_elsewhere) {
            forwarder_.cancel(RequesterId::kApplication, target.request_name(segment));
        }
    }
}

bool Fetcher::outstanding(const TargetState& target, RequestKey key) const {
    return requesters_[target.flow].flow.detector().outstanding(key) ||
           requesters_[kOwnFlow].flow.detector().outstanding(key);
}

Flow* Fetcher::flow_of(const TargetState& target, RequestKey key) {
    for (const std::uint32_t flow : {target.flow, kOwnFlow}) {
        if (std::as_const(requesters_)[flow].flow.detector().outstanding(key)) {
            return &requesters_[flow].flow;
        }
    }
    return nullptr;
}

void Fetcher::find_matches(wire::NameView tensor, std::uint64_t segment) {
    matches_.clear();
    targets_.for_each(tensor, segment, [this](std::uint32_t place) { matches_.push_back(place); });
}

void Fetcher::on_data(const wire::DataView& data, bool marked, TimePoint now) {
    if (marked) ++counters_.marks_received;
    const auto name = SegmentName::parse(data.name());
    matches_.clear();
    if (name) find_matches(name->tensor, name->segment);
    bool expected = false;
    std::optional<security::Sha256Digest> digest;
    for (const std::uint32_t place : matches_) {
        TargetState& target = targets_[place];
        if (target.operation == nullptr) continue;
        const RequestKey key = TargetTable::key(place, name->segment);
        Flow* flow = flow_of(target, key);
        const bool has_tag = data.is_vouched_for() && place == vouching_;
        if (flow == nullptr || !is_named(target, name->segment, data, digest, has_tag)) continue;
        expected = true;
        SegmentReceiver* receiver = target.spec().receiver;
        if (receiver != nullptr && !receiver->accepts(name->segment, data)) {
            not_accepted(target, *flow, key, now);
            continue;
        }
        flow->on_answered(key, marked, now);
        credit_of(*flow).on_answer(answer_bytes(target, name->segment), marked,
                                   flow->detector().rtt().minimum(), now);
        if (!on_own_flow(*flow)) flow->trust();
        target.on_answered();
        const std::uint32_t home = target.flow;
        const bool self_evaluated = on_own_flow(*flow);
        TimePoint& first_segment = target.operation->times.first_segment;
        first_segment = std::min(first_segment, now);
        deliver(target, name->segment, data);
        repeat_lost(self_evaluated ? kOwnFlow : home, now);
        if (self_evaluated) {
            pump_all(now);
        } else {
            pump(home, now);
        }
    }
    INNET_LOG(kFetch, (expected ? "receives " : "drops unexpected ") << data.name().to_uri());
    if (!expected) ++counters_.unexpected_data;
}

bool Fetcher::is_named(const TargetState& target, std::uint64_t segment, const wire::DataView& data,
                       std::optional<security::Sha256Digest>& digest, bool has_tag) {
    const FetchSpec& spec = target.spec();
    if (spec.digests.empty()) {
        return spec.tags.empty() || has_tag || has_its_tag(spec, segment, data);
    }
    const security::Sha256Digest& named = spec.digests[segment - spec.first_segment];
    if (!data.implicit_digest().empty()) return std::ranges::equal(data.implicit_digest(), named);
    if (!digest) digest = sha256_.digest(data.whole());
    return named == *digest;
}

const FetchSpec* Fetcher::tagged_fetch_of(const SegmentName& name) {
    find_matches(name.tensor, name.segment);
    for (const std::uint32_t place : matches_) {
        const TargetState& target = targets_[place];
        if (target.operation == nullptr || target.spec().tags.empty()) continue;
        if (outstanding(target, TargetTable::key(place, name.segment))) return &target.spec();
    }
    return nullptr;
}

bool Fetcher::has_tag_for(wire::NameView name) {
    const auto segment = SegmentName::parse(name);
    return segment && tagged_fetch_of(*segment) != nullptr;
}

const security::Sha256Digest* Fetcher::digest_by_tag(const wire::DataView& data) {
    const auto segment = SegmentName::parse(data.name());
    const FetchSpec* fetch = segment ? tagged_fetch_of(*segment) : nullptr;
    if (fetch == nullptr || fetch->digests.empty()) return nullptr;
    const auto place = static_cast<std::size_t>(segment->segment - fetch->first_segment);
    return has_its_tag(*fetch, segment->segment, data) ? &fetch->digests[place] : nullptr;
}

bool Fetcher::vouches_for(const wire::DataView& data) {
    const auto name = SegmentName::parse(data.name());
    if (!name) return false;
    find_matches(name->tensor, name->segment);
    return std::ranges::any_of(matches_, [&](std::uint32_t place) {
        const TargetState& target = targets_[place];
        if (target.operation == nullptr) return false;
        if (!outstanding(target, TargetTable::key(place, name->segment))) return false;
        vouching_ = place;
        const FetchSpec& fetch = target.spec();
        if (fetch.receiver != nullptr) return fetch.receiver->vouches_for(name->segment, data);
        return fetch.digests.empty() && has_its_tag(fetch, name->segment, data);
    });
}

void Fetcher::deliver(const TargetState& target, std::uint64_t segment,
                      const wire::DataView& data) {
    OperationState& operation = *target.operation;
    const FetchSpec& spec = target.spec();
    const AnswerCheck check = spec.receiver != nullptr ? spec.receiver->receive(segment, data)
                                                       : check_answer(spec, segment, data);
    if (check.status != OperationStatus::kDone) {
        end(operation, check.status, check.detail);
        return;
    }
    if (operation.in_place) operation.publication->retain(segment);
    const wire::ByteView content = data.content();
    if (spec.receiver == nullptr) place(spec, segment, content);
    if (operation.sends_ahead && target.fetch == 0) {
        operation.publication->on_sum_received(segment, data.segments_received().value_or(0));
    }
    ++counters_.segments_fetched;
    counters_.bytes_fetched += content.size();
    if (--operation.remaining_segments == 0) end(operation, OperationStatus::kDone, {});
}

void Fetcher::on_nack(wire::NameView name, wire::NackReason reason, TimePoint now) {
    INNET_LOG(kFetch, "Nack " << static_cast<unsigned>(reason) << " of " << name.to_uri());
    ++counters_.nacks_received;
    const auto parsed = SegmentName::parse_full(name);
    if (!parsed) return;
    find_matches(parsed->tensor, parsed->segment);
    for (const std::uint32_t place : matches_) {
        TargetState& target = targets_[place];
        if (target.operation == nullptr) continue;
        const RequestKey key = TargetTable::key(place, parsed->segment);
        Flow* flow = flow_of(target, key);
        if (flow == nullptr || flow->detector().parked(key)) continue;
        if (reason == wire::NackReason::kNoData && may_be_absent(*target.operation)) {
            end(*target.operation, OperationStatus::kAbsent,
                flow->hint().to_uri() + " does not have " + name.to_uri());
            continue;
        }
        if (is_dead_end(reason) && may_be_absent(*target.operation) &&
            target.refusal_rounds >= kRefusalRoundsBeforeGivingUp && now >= target.retry_at) {
            end(*target.operation, OperationStatus::kNoRoute,
                "nobody at " + flow->hint().to_uri() + " answers for " + name.to_uri());
            continue;
        }
        refused(target, *flow, key, reason, now);
    }
    pump_all(now);
}

void Fetcher::refused(TargetState& target, Flow& flow, RequestKey key, wire::NackReason reason,
                      TimePoint now) {
    target.last_refusal = reason;
    flow.on_refused(wants_room(reason), now);
    const TimePoint retry_at = retry_time(target, flow, now);
    Flow& home = requesters_[target.flow].flow;
    if (&flow != &home) flow.detector().forget(key);
    home.detector().park(key, target.hash);
    const bool hopeless =
        !wants_room(reason) || target.refusal_rounds > kRefusalRoundsBeforeSelfEvaluation;
    if (&flow == &home && !on_own_flow(home) && target.can_self_evaluate &&
        (hopeless || home.is_suspect())) {
        home.suspect(now);
        home.make_ready(key);
    } else {
        home.delay(key, retry_at);
    }
}

void Fetcher::not_accepted(TargetState& target, Flow& flow, RequestKey key, TimePoint now) {
    INNET_LOG(kFetch, "drops a root manifest of another signer");
    ++counters_.forged_roots;
    ++target.answers_not_accepted;
    if (may_be_absent(*target.operation) &&
        target.answers_not_accepted >= kForgeriesBeforeGivingUp) {
        end(*target.operation, OperationStatus::kUntrusted, target.operation->object->missing());
        return;
    }
    flow.on_refused(false, now);
    flow.detector().park(key, target.hash);
    flow.delay(key, retry_time(target, flow, now));
}

TimePoint Fetcher::retry_time(TargetState& target, const Flow& flow, TimePoint now) const {
    if (now < target.retry_at) return target.retry_at;
    const RttEstimator& rtt = flow.detector().rtt();
    const Duration base =
        std::max(kMinRetryDelay, rtt.has_sample() ? rtt.smoothed() : options_.min_rto);
    const std::uint32_t doublings = std::min(target.refusal_rounds, kMaxRefusalDoublings);
    ++target.refusal_rounds;
    target.retry_at = now + std::min(base * (std::int64_t{1} << doublings), options_.max_rto);
    return target.retry_at;
}

void Fetcher::on_hold(wire::NameView name, wire::ByteView missing, TimePoint now) {
    INNET_LOG(kFetch, "Hold of " << name.to_uri());
    ++counters_.holds_received;
    const auto parsed = SegmentName::parse_full(name);
    if (!parsed) return;
    find_matches(parsed->tensor, parsed->segment);
    for (const std::uint32_t place : matches_) {
        TargetState& target = targets_[place];
        const RequestKey key = TargetTable::key(place, parsed->segment);
        Flow* flow = flow_of(target, key);
        if (flow == nullptr) continue;
        flow->on_held(key, now);
        if (!on_own_flow(*flow)) flow->trust();
        target.on_held(missing, now);
        pump(target.flow, now);
    }
}

void Fetcher::on_timer(TimePoint now) {
    requesters_.for_each_due(now, [&](std::uint32_t flow) {
        requesters_[flow].flow.wake_delayed(now);
        repeat_lost(flow, now);
    });
    pump_all(now);
}

TimePoint Fetcher::next_deadline() const {
    return std::min(requesters_.next_deadline(), turns_.empty() ? kNever : credit_.room_at());
}

MissingReport Fetcher::missing(const OperationState& operation, TimePoint now) const {
    MissingReport report(now - 2 * options_.interest_lifetime);
    for (const std::uint32_t place : operation.targets) {
        const TargetState& target = targets_[place];
        std::uint64_t missing_segments = 0;
        std::uint64_t first_missing = 0;
        ShardCursor segments(target.spec(), target.number);
        while (!segments.at_end()) {
            const std::uint64_t segment = segments.take();
            if (segment < target.unsent.next() &&
                !outstanding(target, TargetTable::key(place, segment))) {
                continue;
            }
            if (missing_segments++ == 0) first_missing = segment;
        }
        if (missing_segments > 0) report.add(target, missing_segments, first_missing);
    }
    return report;
}

void Fetcher::audit(AuditReport& report) const {
    std::vector<std::uint64_t> segments(requesters_.size(), 0);
    std::vector<std::uint64_t> targets(requesters_.size(), 0);
    targets_.for_each_in_use([&](const TargetState& target) {
        for (const std::uint32_t flow : {target.flow, kOwnFlow}) {
            segments[flow] += target.spec().end_segment - target.spec().first_segment;
            ++targets[flow];
        }
    });
    requesters_.for_each_in_use([&](std::uint32_t place) {
        const LossDetector& detector = requesters_[place].flow.detector();
        detector.audit(report);
        report.expect_at_most(detector.outstanding_count(), segments[place],
                              "outstanding requests of one flow");
        // Held requests are in flight once their tensor appears, beside the window: a target's
        // initial requests, and a window that was requested before the first Hold.
        const std::uint64_t window = std::max(options_.initial_window, options_.max_window);
        report.expect_at_most(detector.in_flight_count(),
                              window + targets[place] * (options_.initial_window + window),
                              "requests in flight to one node");
    });
}

}  // namespace innet
