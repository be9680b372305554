#include "transport/fetch/loss_detector.hpp"

#include <algorithm>
#include <array>

#include "transport/fetch/outstanding_requests.hpp"

namespace innet {

namespace {

using Request = OutstandingRequests::Request;
using Queue = OutstandingRequests::Queue;
using Where = OutstandingRequests::Where;

constexpr std::uint32_t kNone = OutstandingRequests::kNone;
constexpr std::size_t kLevels = OutstandingRequests::kLevels;

/// Answers to later requests that make an earlier one lost (RFC 9002, kPacketThreshold).
constexpr std::size_t kGapThreshold = 3;

/// Gap losses of one request before only its timer may repeat it: when others are answered and this
/// one never is, its answer does not exist yet, and a repetition once per RTT would only add load.
constexpr std::uint32_t kMaxGapLosses = 3;

/// Needless repetitions in a row after which answers are taken for late again, not for lost.
constexpr std::uint32_t kNeedlessUntilLossless = 8;

/// The latest numbers that were answered, descending: a request below the last of them has at least
/// kGapThreshold later ones answered.
class LatestAnswered {
  public:
    void note(std::uint64_t number) {
        for (std::uint64_t& latest : numbers_) {
            if (number > latest) std::swap(number, latest);
        }
    }
    bool passed(std::uint64_t number) const { return number < numbers_.back(); }

  private:
    std::array<std::uint64_t, kGapThreshold> numbers_{};
};

}  // namespace

void AnswerHistory::on_repeated(bool needed) {
    needless = needed ? 0 : needless + 1;
    lossy = needed || (lossy && needless < kNeedlessUntilLossless);
}

struct LossDetector::State {
    State(Duration min_rto_, Duration max_rto, Duration refresh_interval_, AwaitedBytes* awaited_,
          AnswerOrder order_)
        : order(order_),
          min_rto(min_rto_),
          rtt(min_rto_, max_rto),
          refresh_interval(refresh_interval_),
          awaited(awaited_ == nullptr ? &own_awaited : awaited_),
          history(awaited->history == nullptr ? &own_history : awaited->history),
          requests(*awaited) {}

    AnswerOrder order;
    Duration min_rto;
    RttEstimator rtt;
    Duration refresh_interval;
    AwaitedBytes own_awaited;
    AwaitedBytes* awaited;
    AnswerHistory own_history;
    AnswerHistory* history;

    OutstandingRequests requests;

    LatestAnswered latest_answered;   ///< send numbers
    LatestAnswered latest_interests;  ///< interest numbers
    /// Send number of the latest repetition after a timeout that was answered.
    std::uint64_t answered_probe = 0;
    TimePoint last_answer{};
    TimePoint last_timeout{};
    /// Send number at the last back-off: only the timeout of a later request justifies another.
    std::uint64_t backed_off_at = 0;

    void send(std::uint32_t place, TimePoint now);
    void sample_rtt(const Request& request, TimePoint now);
    /// Too soon for an answer to the repetition: the first one was not lost, only late (the Eifel
    /// detection of RFC 3522, by time).
    bool answers_first_sending(const Request& request, TimePoint now) const;
    /// Whether an answer shows that its request had to be repeated.
    bool was_needed(const Request& request, TimePoint now) const;
    Duration gap_delay() const;
    Duration probe_delay() const;
    TimePoint gap_deadline(const Request& request) const;
    TimePoint timeout_deadline(const Request& request) const;
    /// When the tables on the way forget the Interest.
    TimePoint expiry(const Request& request) const { return request.since + refresh_interval; }
    TimePoint refresh_deadline(const Request& request) const;
    void report(std::uint32_t place, LossCause cause, std::vector<LostRequest>& into);
};

void LossDetector::State::send(std::uint32_t place, TimePoint now) {
    const Request& request = requests.at(place);
    const std::uint32_t excess_gaps =
        request.gap_losses > kMaxGapLosses ? request.gap_losses - kMaxGapLosses : 0;
    const std::size_t level =
        std::min<std::size_t>(std::max(request.timeouts, excess_gaps), kLevels - 1);
    requests.send(place, static_cast<std::uint8_t>(level), now);
}

void LossDetector::State::sample_rtt(const Request& request, TimePoint now) {
    if (request.where != Where::kSent || request.first_sent == kNever) return;
    if (request.sample) {
        rtt.sample(now - request.since);
    } else if (answers_first_sending(request, now)) {
        // Without these samples the estimate would know the quick answers alone and call ever more
        // of the others lost.
        rtt.sample(now - request.first_sent);
    }
}

bool LossDetector::State::answers_first_sending(const Request& request, TimePoint now) const {
    return rtt.has_sample() && now - request.since < rtt.minimum();
}

bool LossDetector::State::was_needed(const Request& request, TimePoint now) const {
    if (answers_first_sending(request, now)) return false;
    // A sum whose answer was lost is there when it is requested again. One that takes longer was
    // not there yet.
    return order == AnswerOrder::kAsSent || now - request.since < min_rto;
}

Duration LossDetector::State::gap_delay() const {
    // A guess below the round trip would call every request lost, none would be sampled, and the
    // guess would stay.
    if (!rtt.has_sample()) return rtt.timeout();
    const Duration in_order = std::max(rtt.smoothed(), rtt.latest()) * 9 / 8 + 2 * rtt.variation();
    // The most that RFC 8985 (section 6.2, step 4) allows for reordering. Once packets are lost,
    // waiting for it costs more than needless repetitions.
    const bool reordered = order != AnswerOrder::kAsSent && !history->lossy;
    return reordered ? in_order + rtt.smoothed() : in_order;
}

Duration LossDetector::State::probe_delay() const {
    return rtt.smoothed() / 4 + 2 * rtt.variation();
}

TimePoint LossDetector::State::gap_deadline(const Request& request) const {
    if (request.gap_losses > kMaxGapLosses || order == AnswerOrder::kLocal) return kNever;
    const bool was_held = request.interest_number < request.send_number;
    const LatestAnswered& latest = was_held ? latest_answered : latest_interests;
    const TimePoint overdue = request.since + gap_delay();
    if (latest.passed(request.send_number)) return overdue;
    // The answers may have been late together, the probe's as well: then they follow it.
    if (request.send_number < answered_probe) return std::max(overdue, last_answer + probe_delay());
    return kNever;
}

TimePoint LossDetector::State::timeout_deadline(const Request& request) const {
    // While answers arrive, a queue drains and the gap rule finds losses (RFC 6298, rule 5.3). A
    // request whose retransmission was lost has a timer of its own.
    if (order == AnswerOrder::kLocal) return kNever;
    const Duration timeout = std::min(rtt.timeout(request.level), refresh_interval);
    if (request.level > 0) return request.since + timeout;
    const TimePoint deadline = std::max({request.since, last_answer, last_timeout}) + timeout;
    if (order == AnswerOrder::kAsSent || history->lossy) return deadline;
    // A sum waits for other sums, some of which arrive here: rather late than lost. Sums in
    // sequence are at most a full queue apart.
    return std::max(deadline, history->last_sum + min_rto);
}

TimePoint LossDetector::State::refresh_deadline(const Request& request) const {
    if (request.level == kLevels - 1) return request.since + refresh_interval;
    const Duration delay = std::max(min_rto, rtt.smoothed()) * (std::int64_t{1} << request.level);
    const bool waits_for_sums = order == AnswerOrder::kWhenReady && !history->lossy;
    const TimePoint since =
        waits_for_sums ? std::max(request.since, history->last_sum) : request.since;
    return std::min(since + delay, request.since + refresh_interval);
}

void LossDetector::State::report(std::uint32_t place, LossCause cause,
                                 std::vector<LostRequest>& into) {
    Request& request = requests.at(place);
    requests.park(place);
    request.sample = false;
    if (cause == LossCause::kGap) ++request.gap_losses;
    if (cause == LossCause::kTimeout) ++request.timeouts;
    into.push_back({request.key, cause, request.timeouts});
}

LossDetector::LossDetector(Duration min_rto, Duration max_rto, Duration refresh_interval,
                           AwaitedBytes* awaited, AnswerOrder order)
    : state_(std::make_unique<State>(min_rto, max_rto, refresh_interval, awaited, order)) {}
LossDetector::~LossDetector() = default;
LossDetector::LossDetector(LossDetector&&) noexcept = default;
LossDetector& LossDetector::operator=(LossDetector&&) noexcept = default;

void LossDetector::on_sent(RequestKey key, PublicationTag publication, TimePoint now,
                           std::uint32_t answer_bytes) {
    OutstandingRequests& requests = state_->requests;
    std::uint32_t place = requests.find(key);
    if (place == kNone) {
        place = requests.add(key, publication);
    } else {
        // A request parked before its first sending is sampled like any other.
        if (requests.at(place).send_number != 0) requests.at(place).sample = false;
        requests.park(place);
    }
    requests.at(place).answer_bytes = answer_bytes;
    state_->send(place, now);
}

bool LossDetector::on_answered(RequestKey key, TimePoint now) {
    State& state = *state_;
    const std::uint32_t place = state.requests.find(key);
    if (place == kNone) return false;
    const Request& request = state.requests.at(place);
    // A sum of this node that timed out was late: no link can have lost it.
    if (state.order != AnswerOrder::kLocal && request.where == Where::kSent &&
        request.gap_losses + request.timeouts > 0) {
        state.history->on_repeated(state.was_needed(request, now));
    }
    state.sample_rtt(request, now);
    state.last_answer = now;
    if (state.order != AnswerOrder::kAsSent) state.history->last_sum = now;
    // A held request sits in no send order: its answer says when the tensor was published, not that
    // later requests of other publications overtook anything.
    if (request.where == Where::kSent) {
        state.latest_answered.note(request.send_number);
        // The producer had a held Interest before those that were sent meanwhile, and may answer it
        // before them.
        state.latest_interests.note(request.interest_number);
        if (request.timeouts > 0 && !state.answers_first_sending(request, now)) {
            state.answered_probe = std::max(state.answered_probe, request.send_number);
        }
    }
    OutstandingRequests::Publication& publication = state.requests.publication_of(request);
    publication.answered = true;
    state.requests.release_held(publication, now);
    state.requests.remove(place);
    return true;
}

void LossDetector::on_held(RequestKey key, TimePoint now) {
    OutstandingRequests& requests = state_->requests;
    const std::uint32_t place = requests.find(key);
    if (place == kNone) return;
    const Request& request = requests.at(place);
    if (request.where == Where::kHeld || requests.publication_of(request).answered) return;
    requests.park(place);
    requests.hold(place, now);
}

void LossDetector::park(RequestKey key, PublicationTag publication) {
    OutstandingRequests& requests = state_->requests;
    const std::uint32_t place = requests.find(key);
    if (place == kNone) {
        requests.add(key, publication);
    } else {
        requests.park(place);
    }
}

void LossDetector::forget(RequestKey key) {
    const std::uint32_t place = state_->requests.find(key);
    if (place != kNone) state_->requests.remove(place);
}

void LossDetector::forget_back_offs() { state_->rtt.forget_back_offs(); }

bool LossDetector::outstanding(RequestKey key) const { return state_->requests.find(key) != kNone; }

bool LossDetector::parked(RequestKey key) const {
    const std::uint32_t place = state_->requests.find(key);
    return place != kNone && state_->requests.at(place).where == Where::kParked;
}

std::size_t LossDetector::outstanding_count() const { return state_->requests.count(); }

std::size_t LossDetector::held_count() const { return state_->requests.held_count(); }

std::size_t LossDetector::held_count(PublicationTag publication) const {
    const auto* known = state_->requests.publication(publication);
    return known == nullptr ? 0 : known->held_count;
}

bool LossDetector::is_late(PublicationTag publication) const {
    const auto* known = state_->requests.publication(publication);
    return known != nullptr && known->is_late();
}

std::optional<RequestKey> LossDetector::held_request(PublicationTag publication) const {
    const auto* known = state_->requests.publication(publication);
    if (known == nullptr || known->held.head == kNone) return std::nullopt;
    return state_->requests.at(known->held.head).key;
}

std::size_t LossDetector::in_flight_count() const { return state_->requests.in_flight_count(); }

void LossDetector::collect(TimePoint now, std::vector<LostRequest>& into) {
    State& state = *state_;
    const bool first_timeout = state.last_timeout <= state.last_answer;
    std::uint64_t latest_timed_out = 0;
    for (const Queue& queue : state.requests.sent()) {
        while (queue.head != kNone) {
            const Request& oldest = state.requests.at(queue.head);
            if (state.gap_deadline(oldest) <= now) {
                state.report(queue.head, LossCause::kGap, into);
            } else if (state.timeout_deadline(oldest) <= now) {
                latest_timed_out = std::max(latest_timed_out, oldest.send_number);
                const bool probe = first_timeout && oldest.level == 0;
                state.report(queue.head, LossCause::kTimeout, into);
                if (probe) break;
            } else if (state.expiry(oldest) <= now) {
                state.report(queue.head, LossCause::kRefresh, into);
            } else {
                break;
            }
        }
    }
    // After the scan, so that all requests due by the same timeout are handled together.
    if (latest_timed_out > 0) state.last_timeout = now;
    if (latest_timed_out > state.backed_off_at) {
        state.rtt.back_off();
        state.backed_off_at = state.requests.next_send_number();
    }
    for (const Queue& queue : state.requests.held()) {
        while (queue.head != kNone &&
               state.refresh_deadline(state.requests.at(queue.head)) <= now) {
            state.report(queue.head, LossCause::kRefresh, into);
        }
    }
}

TimePoint LossDetector::next_deadline() const {
    const State& state = *state_;
    TimePoint deadline = kNever;
    for (const Queue& queue : state.requests.sent()) {
        if (queue.head == kNone) continue;
        const Request& oldest = state.requests.at(queue.head);
        deadline = std::min({deadline, state.gap_deadline(oldest), state.timeout_deadline(oldest),
                             state.expiry(oldest)});
    }
    for (const Queue& queue : state.requests.held()) {
        if (queue.head == kNone) continue;
        deadline = std::min(deadline, state.refresh_deadline(state.requests.at(queue.head)));
    }
    return deadline;
}

const RttEstimator& LossDetector::rtt() const { return state_->rtt; }

void LossDetector::audit(AuditReport& report) const { state_->requests.audit(report); }

}  // namespace innet
