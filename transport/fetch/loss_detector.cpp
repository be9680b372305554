#include "transport/fetch/loss_detector.hpp"

#include <algorithm>
#include <array>

#include "transport/fetch/request_index.hpp"

namespace innet {

namespace {

constexpr std::uint32_t kNone = RequestIndex::kNone;

/// Answers to later requests that make an earlier one lost (RFC 9002, kPacketThreshold).
constexpr std::size_t kGapThreshold = 3;

/// Gap losses of one request before only its timer may repeat it: when others are answered and this
/// one never is, its answer does not exist yet, and asking again once per RTT would only add load.
constexpr std::uint32_t kMaxGapLosses = 3;

/// Needless repetitions in a row after which answers are taken for late again, not for lost.
constexpr std::uint32_t kNeedlessUntilLossless = 8;

/// Requests are kept in one queue per number of back-offs, or of refreshes when held: within a
/// queue, deadlines are in send order.
constexpr std::size_t kLevels = 8;

/// Where a request waits.
enum class Where : std::uint8_t {
    kSent,    ///< in `sent[level]`
    kHeld,    ///< in `held[level]`, and in its publication's list
    kParked,  ///< reported lost, or not sent yet; without timers
};

struct Link {
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
};

struct Request {
    RequestKey key = 0;
    std::uint64_t send_number = 0;
    /// When its Interest left. Below `send_number` of one that was held and is in flight again.
    std::uint64_t interest_number = 0;
    TimePoint since{};  ///< sent, or held
    TimePoint
        first_sent{};  ///< kNever once held: its answer's time then says nothing of the network
    Link link;         ///< in `sent[level]` or `held[level]`
    Link sibling;      ///< among the held requests of its publication
    std::uint32_t publication = kNone;
    std::uint32_t timeouts = 0;
    std::uint32_t gap_losses = 0;
    std::uint32_t answer_bytes = 0;
    Where where = Where::kParked;
    std::uint8_t level = 0;
    bool sample = true;  ///< Karn's rule: sent once, never held
};

/// Doubly linked list threaded through the request slab.
struct Queue {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;

    void push_back(std::vector<Request>& slab, Link Request::* link, std::uint32_t at) {
        slab[at].*link = {tail, kNone};
        (tail == kNone ? head : (slab[tail].*link).next) = at;
        tail = at;
    }

    void remove(std::vector<Request>& slab, Link Request::* link, std::uint32_t at) {
        const Link old = slab[at].*link;
        (old.previous == kNone ? head : (slab[old.previous].*link).next) = old.next;
        (old.next == kNone ? tail : (slab[old.next].*link).previous) = old.previous;
    }
};

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

struct Publication {
    PublicationTag tag = 0;
    Queue held;
    std::uint32_t requests = 0;  ///< outstanding ones; the last removes the record
    std::uint32_t held_count = 0;
    std::uint32_t probe = kNone;  ///< the request of it that is refreshed early
    std::uint8_t probes = 0;
    bool answered = false;

    bool is_late() const { return probes > 0 && !answered; }
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
          history(awaited->history == nullptr ? &own_history : awaited->history) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        for (std::size_t level = 0; level < kLevels; ++level) {
            while (sent[level].head != kNone) unlink(sent[level].head);
            while (held[level].head != kNone) unlink(held[level].head);
        }
    }

    AnswerOrder order;
    Duration min_rto;
    RttEstimator rtt;
    Duration refresh_interval;
    AwaitedBytes own_awaited;
    AwaitedBytes* awaited;
    AnswerHistory own_history;
    AnswerHistory* history;

    std::vector<Request> requests;
    std::vector<std::uint32_t> free_requests;
    RequestIndex index;
    std::vector<Publication> publications;
    std::vector<std::uint32_t> free_publications;
    RequestIndex publication_index;

    std::array<Queue, kLevels> sent;
    std::array<Queue, kLevels> held;
    std::size_t held_count = 0;
    std::size_t in_flight_count = 0;

    std::uint64_t next_send_number = 1;
    LatestAnswered latest_answered;   ///< send numbers
    LatestAnswered latest_interests;  ///< interest numbers
    /// Send number of the latest repetition after a timeout that was answered.
    std::uint64_t answered_probe = 0;
    TimePoint last_answer{};
    TimePoint last_timeout{};
    /// Send number at the last back-off: only the timeout of a later request justifies another.
    std::uint64_t backed_off_at = 0;

    Request& at(std::uint32_t place) { return requests[place]; }
    const Request& at(std::uint32_t place) const { return requests[place]; }

    std::uint32_t add(RequestKey key, PublicationTag tag);
    std::uint32_t publication_of(PublicationTag tag);
    void remove(std::uint32_t place);
    void unlink(std::uint32_t place);
    void link_as_sent(std::uint32_t place, TimePoint now);
    void release_held(Publication& publication, TimePoint now);

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

std::uint32_t LossDetector::State::publication_of(PublicationTag tag) {
    std::uint32_t place = publication_index.find(tag);
    if (place != kNone) return place;
    if (free_publications.empty()) {
        place = static_cast<std::uint32_t>(publications.size());
        publications.emplace_back();
    } else {
        place = free_publications.back();
        free_publications.pop_back();
    }
    publications[place] = Publication{};
    publications[place].tag = tag;
    publication_index.insert(tag, place);
    return place;
}

std::uint32_t LossDetector::State::add(RequestKey key, PublicationTag tag) {
    std::uint32_t place = kNone;
    if (free_requests.empty()) {
        place = static_cast<std::uint32_t>(requests.size());
        requests.emplace_back();
    } else {
        place = free_requests.back();
        free_requests.pop_back();
    }
    const std::uint32_t publication = publication_of(tag);
    ++publications[publication].requests;
    requests[place] = Request{};
    at(place).key = key;
    at(place).publication = publication;
    index.insert(key, place);
    return place;
}

void LossDetector::State::remove(std::uint32_t place) {
    unlink(place);
    Publication& publication = publications[at(place).publication];
    if (publication.probe == place) publication.probe = kNone;
    if (--publication.requests == 0) {
        publication_index.erase(publication.tag);
        free_publications.push_back(at(place).publication);
    }
    index.erase(at(place).key);
    free_requests.push_back(place);
}

void LossDetector::State::unlink(std::uint32_t place) {
    Request& request = at(place);
    if (request.where == Where::kSent) {
        sent[request.level].remove(requests, &Request::link, place);
        --in_flight_count;
        if (request.level == 0) awaited->in_flight -= request.answer_bytes;
    }
    if (request.where == Where::kHeld) {
        Publication& publication = publications[request.publication];
        held[request.level].remove(requests, &Request::link, place);
        publication.held.remove(requests, &Request::sibling, place);
        --publication.held_count;
        --held_count;
        awaited->held -= request.answer_bytes;
    }
    request.where = Where::kParked;
}

void LossDetector::State::link_as_sent(std::uint32_t place, TimePoint now) {
    Request& request = at(place);
    const std::uint32_t excess_gaps =
        request.gap_losses > kMaxGapLosses ? request.gap_losses - kMaxGapLosses : 0;
    request.level = static_cast<std::uint8_t>(
        std::min<std::size_t>(std::max(request.timeouts, excess_gaps), kLevels - 1));
    request.send_number = request.interest_number = next_send_number++;
    request.since = now;
    if (request.first_sent == TimePoint{}) request.first_sent = now;
    request.where = Where::kSent;
    sent[request.level].push_back(requests, &Request::link, place);
    ++in_flight_count;
    if (request.level == 0) awaited->in_flight += request.answer_bytes;
}

void LossDetector::State::release_held(Publication& publication, TimePoint now) {
    while (publication.held.head != kNone) {
        const std::uint32_t place = publication.held.head;
        unlink(place);
        const std::uint64_t interest_number = at(place).interest_number;
        link_as_sent(place, now);
        at(place).interest_number = interest_number;
    }
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
    Request& request = at(place);
    unlink(place);
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
    State& state = *state_;
    std::uint32_t place = state.index.find(key);
    if (place == kNone) {
        place = state.add(key, publication);
    } else {
        // A request parked before its first sending is sampled like any other.
        if (state.at(place).send_number != 0) state.at(place).sample = false;
        state.unlink(place);
    }
    state.at(place).answer_bytes = answer_bytes;
    state.link_as_sent(place, now);
}

bool LossDetector::on_answered(RequestKey key, TimePoint now) {
    State& state = *state_;
    const std::uint32_t place = state.index.find(key);
    if (place == kNone) return false;
    const Request& request = state.at(place);
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
    Publication& publication = state.publications[request.publication];
    publication.answered = true;
    state.release_held(publication, now);
    state.remove(place);
    return true;
}

void LossDetector::on_held(RequestKey key, TimePoint now) {
    State& state = *state_;
    const std::uint32_t place = state.index.find(key);
    if (place == kNone) return;
    Request& request = state.at(place);
    Publication& publication = state.publications[request.publication];
    if (request.where == Where::kHeld || publication.answered) return;
    state.unlink(place);
    request.where = Where::kHeld;
    request.since = now;
    request.timeouts = 0;
    request.gap_losses = 0;
    request.sample = false;
    request.first_sent = kNever;
    request.level = kLevels - 1;
    if (publication.probe == kNone) publication.probe = place;
    if (publication.probe == place) {
        request.level = publication.probes;
        if (publication.probes < kLevels - 1) ++publication.probes;
    }
    state.held[request.level].push_back(state.requests, &Request::link, place);
    publication.held.push_back(state.requests, &Request::sibling, place);
    ++publication.held_count;
    ++state.held_count;
    state.awaited->held += request.answer_bytes;
}

void LossDetector::park(RequestKey key, PublicationTag publication) {
    const std::uint32_t place = state_->index.find(key);
    if (place == kNone) {
        state_->add(key, publication);
    } else {
        state_->unlink(place);
    }
}

void LossDetector::forget(RequestKey key) {
    const std::uint32_t place = state_->index.find(key);
    if (place != kNone) state_->remove(place);
}

void LossDetector::forget_back_offs() { state_->rtt.forget_back_offs(); }

bool LossDetector::outstanding(RequestKey key) const { return state_->index.find(key) != kNone; }

bool LossDetector::parked(RequestKey key) const {
    const std::uint32_t place = state_->index.find(key);
    return place != kNone && state_->at(place).where == Where::kParked;
}

std::size_t LossDetector::outstanding_count() const { return state_->index.size(); }

std::size_t LossDetector::held_count() const { return state_->held_count; }

std::size_t LossDetector::held_count(PublicationTag publication) const {
    const std::uint32_t place = state_->publication_index.find(publication);
    return place == kNone ? 0 : state_->publications[place].held_count;
}

bool LossDetector::is_late(PublicationTag publication) const {
    const std::uint32_t place = state_->publication_index.find(publication);
    if (place == kNone) return false;
    return state_->publications[place].is_late();
}

std::optional<RequestKey> LossDetector::held_request(PublicationTag publication) const {
    const std::uint32_t place = state_->publication_index.find(publication);
    if (place == kNone) return std::nullopt;
    const std::uint32_t held = state_->publications[place].held.head;
    return held == kNone ? std::nullopt : std::optional(state_->at(held).key);
}

std::size_t LossDetector::in_flight_count() const { return state_->in_flight_count; }

void LossDetector::collect(TimePoint now, std::vector<LostRequest>& into) {
    State& state = *state_;
    const bool first_timeout = state.last_timeout <= state.last_answer;
    std::uint64_t latest_timed_out = 0;
    for (Queue& queue : state.sent) {
        while (queue.head != kNone) {
            const Request& oldest = state.at(queue.head);
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
        state.backed_off_at = state.next_send_number;
    }
    for (Queue& queue : state.held) {
        while (queue.head != kNone && state.refresh_deadline(state.at(queue.head)) <= now) {
            state.report(queue.head, LossCause::kRefresh, into);
        }
    }
}

TimePoint LossDetector::next_deadline() const {
    const State& state = *state_;
    TimePoint deadline = kNever;
    for (const Queue& queue : state.sent) {
        if (queue.head == kNone) continue;
        const Request& oldest = state.at(queue.head);
        deadline = std::min({deadline, state.gap_deadline(oldest), state.timeout_deadline(oldest),
                             state.expiry(oldest)});
    }
    for (const Queue& queue : state.held) {
        if (queue.head == kNone) continue;
        deadline = std::min(deadline, state.refresh_deadline(state.at(queue.head)));
    }
    return deadline;
}

const RttEstimator& LossDetector::rtt() const { return state_->rtt; }

void LossDetector::audit(AuditReport& report) const {
    const State& state = *state_;
    const auto length = [&state](const Queue& queue, Where where) {
        std::size_t count = 0;
        for (std::uint32_t at = queue.head; at != kNone; at = state.at(at).link.next) {
            count += state.at(at).where == where ? 1 : 0;
        }
        return count;
    };
    std::size_t in_flight = 0;
    std::size_t held = 0;
    for (const Queue& queue : state.sent) in_flight += length(queue, Where::kSent);
    for (const Queue& queue : state.held) held += length(queue, Where::kHeld);
    report.expect_equal(state.in_flight_count, in_flight, "requests in flight");
    report.expect_equal(state.held_count, held, "held requests");
    report.expect_equal(state.requests.size() - state.free_requests.size(), state.index.size(),
                        "requests in the index");
    std::size_t of_publications = 0;
    std::size_t held_of_publications = 0;
    for (const Publication& publication : state.publications) {
        of_publications += publication.requests;
        held_of_publications += publication.held_count;
    }
    report.expect_equal(of_publications, state.index.size(), "requests of publications");
    report.expect_equal(held_of_publications, state.held_count, "held requests of publications");
}

}  // namespace innet
