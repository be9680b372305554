#include "switch_emulator/reduction/operand_requests.hpp"

#include <algorithm>

#include "switch_emulator/reduction/reducer.hpp"

namespace innet::reduction {

using wire::ByteView;
using wire::NameView;

namespace {

/// A held Interest is repeated before it expires on its way, so that the Data finds it there.
Duration refresh_interval(Duration interest_lifetime) { return interest_lifetime * 7 / 8; }

/// Before the first answer: a segment in a jumbo frame.
constexpr std::uint32_t kFirstExpectedBytes = 8192;
/// Contributions that are requested at once after silence. The others follow at the rate of the
/// link: sums wait behind them in the queue of their sender.
constexpr std::uint64_t kFirstCreditBytes = std::uint64_t{2} * kFirstExpectedBytes;
/// Contributions of ranks that call at nearly the same time arrive so soon after each other. It
/// doubles where some arrive later, over slower or longer links than others, up to a limit, and
/// shrinks where it was in vain.
constexpr Duration kShortestPatience = std::chrono::milliseconds(2);
constexpr Duration kLongestPatience = std::chrono::milliseconds(64);
/// Small operations between large ones must not make the large ones look small.
constexpr std::uint32_t kExpectedBytesDecay = 1024;

}  // namespace

LateLabel::LateLabel(ByteView text)
    : size_(static_cast<std::uint8_t>(std::min(text.size(), bytes_.size()))) {
    std::copy_n(text.begin(), size_, bytes_.begin());
}

OperandRequests::OperandRequests(Forwarder& forwarder, const ReducerOptions& options)
    : forwarder_(forwarder),
      min_rto_(options.min_rto),
      max_rto_(options.max_rto),
      interest_lifetime_(options.interest_lifetime),
      own_name_(options.own_name),
      answers_(options.answers == nullptr ? own_answers_ : *options.answers),
      credit_({options.receive_credit_bytes, options.receive_rate_bps, kFirstCreditBytes,
               options.receive_rate_bps == 0},
              &answers_),
      expected_bytes_(kFirstExpectedBytes),
      patience_(kShortestPatience) {}

std::uint32_t OperandRequests::request(NameView name, ReductionName::OperandHash hash,
                                       ByteView interval, const wire::Name& hint, Waiter waiter,
                                       bool may_come, TimePoint now) {
    std::uint32_t request = index_.find(hash.name);
    if (request != kNoPlace) {
        if (!(this->name(request) == name)) return kNoPlace;
        join(request, waiter);
        return request;
    }
    request = new_place();
    Request& added = requests_[request];
    added.name.assign(name.value().begin(), name.value().end());
    added.waiters.assign(1, waiter);
    added.hash = hash.name;
    added.publication = hash.publication;
    added.segment = hash.segment;
    added.shard = hash.shard;
    added.interval = wire::hash_name(interval);
    added.contribution = is_contribution(interval);
    added.flow = use_flow_to(hint, added.interval, added.contribution);
    added.label = {};
    added.late = false;
    // Sums round a ring depend on each other, and a sum without a request is never evaluated. This
    // node's own contribution crosses no link.
    const bool elsewhere = !(hint == own_name_);
    added.limited = credit_.limited() && added.contribution && elsewhere;
    added.other_sum = !added.contribution && elsewhere;
    other_sums_ += added.other_sum ? 1 : 0;
    const bool patient = may_come && elsewhere && !added.limited;
    index_.insert(hash.name, request);
    if (added.limited) {
        flows_[added.flow].detector.park(request, added.publication);
        waiting_.push(request);
    } else if (patient) {
        flows_[added.flow].detector.park(request, added.publication);
        patient_.add(request, stream_of(added.flow, added.publication, added.shard));
        patiences_.push_back({request, hash.name, now + patience_});
    } else {
        send(request, now);
    }
    return request;
}

bool OperandRequests::awaits_offer(std::uint32_t request) const {
    return patient_.contains(request);
}

void OperandRequests::lengthen_patience() { patience_ = std::min(2 * patience_, kLongestPatience); }

void OperandRequests::shorten_patience() {
    patience_ = std::max(patience_ - patience_ / 8, kShortestPatience);
}

// Contributions of one rank come one after the other: behind the others, over a slow link, the
// last may come long after the first.
void OperandRequests::end_patience(TimePoint now, std::vector<std::uint32_t>& given_up) {
    while (!patiences_.empty() && (is_over(patiences_.front()) || patiences_.front().ends <= now)) {
        Patience patience = patiences_.front();
        patiences_.pop_front();
        if (is_over(patience)) continue;
        patience.ends = flows_[requests_[patience.request].flow].latest + patience_;
        if (patience.ends > now) {
            patiences_.push_back(patience);
            continue;
        }
        send(patience.request, now);
        given_up.push_back(patience.request);
    }
}

std::uint64_t OperandRequests::stream_of(FlowPlace flow, PublicationTag publication,
                                         std::uint32_t shard) {
    // Odd constants of 64 bits, so that small numbers change all of the key.
    return publication ^ (flow * 0x9e37'79b9'7f4a'7c15ULL) ^ (shard * 0xc2b2'ae3d'27d4'eb4fULL);
}

// Nearly in the order of the segments: the first that is not overtaken ends the search.
void OperandRequests::note_arrival(FlowPlace flow, const ReductionName::OperandHash& arrived,
                                   TimePoint now) {
    flows_[flow].latest = now;
    std::uint32_t next = kNoPlace;
    const std::uint64_t stream = stream_of(flow, arrived.publication, arrived.shard);
    for (std::uint32_t request = patient_.oldest(stream); request != kNoPlace; request = next) {
        next = patient_.newer(request);
        if (requests_[request].segment >= arrived.segment) break;
        send(request, now);
    }
}

void OperandRequests::note_unasked(const wire::Name& hint, ByteView interval,
                                   ReductionName::OperandHash hash, TimePoint now) {
    const FlowPlace flow = flow_to(hint, wire::hash_name(interval));
    if (flow != FlowTable<Flow>::kNone) note_arrival(flow, hash, now);
}

void OperandRequests::join(std::uint32_t request, Waiter waiter) {
    requests_[request].waiters.push_back(waiter);
}

void OperandRequests::leave(std::uint32_t request, Waiter waiter) {
    std::erase(requests_[request].waiters, waiter);
    if (!requests_[request].waiters.empty()) return;
    forwarder_.cancel(RequesterId::kReducer, name(request));
    flows_[requests_[request].flow].detector.forget(request);
    release(request);
}

std::uint32_t OperandRequests::find(NameView name) const {
    const std::uint32_t request = index_.find(name.hash());
    return request != kNoPlace && this->name(request) == name ? request : kNoPlace;
}

NameView OperandRequests::name(std::uint32_t request) const {
    return NameView::trusted(requests_[request].name);
}

std::span<const Waiter> OperandRequests::waiters(std::uint32_t request) const {
    return requests_[request].waiters;
}

void OperandRequests::use_credit(TimePoint now, std::vector<std::uint32_t>& late) {
    while (can_use_credit(now)) {
        const std::uint32_t request = can_resume() ? kept_back_.pop() : waiting_.pop();
        const Request& next = requests_[request];
        if (!waits_for_credit(next)) continue;
        if (credit_.has_room_for_late() || !flows_[next.flow].detector.is_late(next.publication)) {
            send(request, now);
        } else {
            keep_back(request, late);
        }
    }
}

void OperandRequests::keep_back(std::uint32_t request, std::vector<std::uint32_t>& late) {
    kept_back_.push(request);
    Request& kept_back = requests_[request];
    const LossDetector& detector = flows_[kept_back.flow].detector;
    const auto held = detector.held_request(kept_back.publication);
    if (kept_back.late || !held) return;
    kept_back.label = requests_[*held].label;
    late.push_back(request);
}

void OperandRequests::reconsider_kept_back() {
    while (!kept_back_.empty()) waiting_.push(kept_back_.pop());
}

bool OperandRequests::waits_for_credit(const Request& request) const {
    const auto place = static_cast<std::uint32_t>(&request - requests_.data());
    return !request.waiters.empty() && flows_[request.flow].detector.parked(place);
}

void OperandRequests::learn_size(std::size_t answer_bytes) {
    expected_bytes_ -= expected_bytes_ / kExpectedBytesDecay;
    expected_bytes_ = std::max(expected_bytes_, static_cast<std::uint32_t>(answer_bytes));
}

void OperandRequests::take_answered(std::uint32_t request, std::size_t answer_bytes, bool marked,
                                    std::vector<Waiter>& waiters, TimePoint now) {
    Request& answered = requests_[request];
    if (answered.limited) {
        learn_size(answer_bytes);
        if (other_sums_ > 0) credit_.on_answer_beside_sums(answer_bytes, now);
    }
    waiters.assign(answered.waiters.begin(), answered.waiters.end());
    LossDetector& detector = flows_[answered.flow].detector;
    if (detector.is_late(answered.publication)) reconsider_kept_back();
    leave_patient(request);
    note_arrival(answered.flow,
                 {answered.publication, answered.hash, answered.segment, answered.shard}, now);
    if (detector.parked(request)) {  // it came unasked
        detector.forget(request);
    } else {
        detector.on_answered(request, now);
    }
    credit_.on_answer(answer_bytes, marked, detector.rtt().minimum(), now);
    release(request);
}

void OperandRequests::on_held(std::uint32_t request, TimePoint now) {
    flows_[requests_[request].flow].detector.on_held(request, now);
}

void OperandRequests::repeat(std::uint32_t request, TimePoint now) { send(request, now); }

void OperandRequests::redirect(std::uint32_t request, const wire::Name& hint, TimePoint now) {
    Request& redirected = requests_[request];
    leave_patient(request);
    flows_[redirected.flow].detector.forget(request);
    flows_.leave(redirected.flow);
    redirected.flow = use_flow_to(hint, redirected.interval, redirected.contribution);
    send(request, now);
}

const wire::Name& OperandRequests::hint(std::uint32_t request) const {
    return flows_[requests_[request].flow].hint;
}

void OperandRequests::collect(TimePoint now, std::vector<LostRequest>& into) {
    const std::size_t first = into.size();
    flows_.for_each_due(now, [&](FlowPlace place) { flows_[place].detector.collect(now, into); });
    for (std::size_t i = first; i < into.size(); ++i) {
        const bool limited = requests_[static_cast<std::uint32_t>(into[i].key)].limited;
        if (limited && into[i].cause != LossCause::kRefresh) credit_.on_loss(expected_bytes_);
    }
}

TimePoint OperandRequests::next_deadline() const {
    return std::min({flows_.next_deadline(), waiting_.empty() ? kNever : credit_.room_at(),
                     patiences_.empty() ? kNever : patiences_.front().ends});
}

OperandRequests::FlowPlace OperandRequests::flow_to(const wire::Name& hint,
                                                    wire::NameHash interval) {
    return flows_.find(hint.view().hash() ^ interval, [&](const Flow& known) {
        return known.interval == interval && known.hint == hint;
    });
}

OperandRequests::FlowPlace OperandRequests::use_flow_to(const wire::Name& hint,
                                                        wire::NameHash interval,
                                                        bool contribution) {
    FlowPlace flow = flow_to(hint, interval);
    if (flow == FlowTable<Flow>::kNone) {
        const AnswerOrder order = hint == own_name_ ? AnswerOrder::kLocal
                                  : contribution    ? AnswerOrder::kAsSent
                                                    : AnswerOrder::kWhenReady;
        LossDetector detector(min_rto_, max_rto_, refresh_interval(interest_lifetime_),
                              &credit_.awaited(), order);
        flow = flows_.add(hint.view().hash() ^ interval, {hint, interval, std::move(detector)});
    }
    flows_.use(flow);
    return flow;
}

std::uint32_t OperandRequests::new_place() {
    if (free_.empty()) {
        requests_.emplace_back();
        return static_cast<std::uint32_t>(requests_.size() - 1);
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    return place;
}

void OperandRequests::send(std::uint32_t request, TimePoint now) {
    Request& sent = requests_[request];
    leave_patient(request);
    Flow& flow = flows_[sent.flow];
    forwarder_.express(RequesterId::kReducer, name(request), flow.hint.view(), interest_lifetime_);
    if (sent.limited) credit_.on_request(now);
    flow.detector.on_sent(request, sent.publication, now, sent.limited ? expected_bytes_ : 0);
}

void OperandRequests::release(std::uint32_t request) {
    leave_patient(request);
    flows_.leave(requests_[request].flow);
    index_.erase(requests_[request].hash);
    other_sums_ -= requests_[request].other_sum ? 1 : 0;
    requests_[request].waiters.clear();
    free_.push_back(request);
    // So that no timer waits for what has come.
    while (!patiences_.empty() && is_over(patiences_.front())) patiences_.pop_front();
}

std::size_t OperandRequests::waiter_count() const {
    std::size_t count = 0;
    for (const Request& request : requests_) count += request.waiters.size();
    return count;
}

void OperandRequests::audit(AuditReport& report) const {
    std::size_t awaited = 0;
    for (const Request& request : requests_) awaited += request.waiters.empty() ? 0 : 1;
    report.expect_equal(index_.size(), awaited, "requested operands with a waiter");
    std::size_t timed = 0;
    std::size_t known = 0;
    flows_.for_each_in_use([&](FlowPlace place) {
        flows_[place].detector.audit(report);
        const LossDetector& detector = flows_[place].detector;
        timed += detector.in_flight_count() + detector.held_count();
        known += detector.outstanding_count();
    });
    std::size_t waiting = 0;
    for (const Request& request : requests_) waiting += waits_for_credit(request) ? 1 : 0;
    report.expect_equal(timed + waiting, known,
                        "operands with a timer, or waiting for credit or an offer");
    report.expect_equal(known, awaited, "requested operands with loss detection");
}

}  // namespace innet::reduction
