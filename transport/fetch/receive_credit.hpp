#pragma once
// How many bytes of answers a host may wait for at once, over all its flows.
//
// The most is known from the topology: what fills the path, and the part of the queue that causes
// no mark. Flows of others share the queue, so marks shrink what is granted, in proportion to how
// many answers carry one (DCTCP: RFC 8257, section 3.3), and answers without one restore it.
//
// Held requests are answered when their producers are ready, all at once where ranks wait for the
// same one. So they take from the credit, but leave a quarter to others; and while half of it is
// taken, no more is requested of a publication that is known to be late.
//
// A credit with a rate is granted whole, but after silence only as fast as the host's link carries
// answers. Requests of a whole credit that leave together return as one burst of answers. The
// requests that these cause wait behind the answers of others in every queue, so the burst never
// spreads, and each link is idle between two of them. Beyond what fills the path, more requests
// only lengthen queues, which sums of other nodes wait in: while such sums are awaited, too, the
// credit grows slowly from the first answer on, and to half: finished sums are fetched with a
// credit of their own, and come through the same queue.
//
// Where nobody knows the links' rate, `most_bytes` is the part of a queue alone, and what fills the
// path is measured.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

#include "transport/fetch/loss_detector.hpp"
#include "transport/fetch/path_meter.hpp"

namespace innet {

struct CreditOptions {
    std::uint64_t most_bytes = 0;   ///< 0: no limit
    double rate_bps = 0;            ///< after silence, it grows at this rate; 0: half is there
    std::uint64_t first_bytes = 0;  ///< granted at once after silence
    bool measures_path = false;     ///< what fills the path is added to `most_bytes`
};

class ReceiveCredit {
  public:
    /// `history`, if given, must outlive the detectors.
    explicit ReceiveCredit(const CreditOptions& options, AnswerHistory* history = nullptr)
        : options_(options),
          granted_bytes_(static_cast<double>(options.most_bytes) / (grows() ? 1 : 2)) {
        awaited_.history = history;
    }

    bool limited() const { return options_.most_bytes > 0; }
    /// Whether one more may be requested.
    bool has_room(TimePoint now) const {
        return !limited() || (in_flight() < most_in_flight() && room_at() <= now);
    }
    /// Whether one more may be requested of a publication that is late.
    bool has_room_for_late() const {
        return !limited() || 2 * static_cast<double>(awaited_.in_flight + awaited_.held) < most();
    }
    /// When credit is free again, if no answer arrives before; kNever: not without an answer.
    TimePoint room_at() const {
        if (limited() && in_flight() >= most_in_flight()) return kNever;
        const double beyond_first = in_flight() - static_cast<double>(options_.first_bytes);
        if (!grows() || awaited_.in_flight == 0 || beyond_first < 0) return TimePoint{};
        const double beyond_path = std::clamp(in_flight() - path_bytes_, 0.0, beyond_first);
        const double grown_bytes = beyond_first + (kSlowGrowth - 1) * beyond_path;
        return busy_since_ +
               Duration(static_cast<Duration::rep>(grown_bytes * 8e9 / options_.rate_bps));
    }
    /// Before a request that counts leaves.
    void on_request(TimePoint now) {
        if (awaited_.in_flight > 0) return;
        meter_.on_first_request(now);
        busy_since_ = now;
        path_bytes_ = kNotKnown;
    }
    /// Before an answer that counts is taken, while this node awaits sums of other nodes.
    void on_answer_beside_sums(std::size_t size_bytes, TimePoint now) {
        if (!grows() || path_bytes_ != kNotKnown) return;
        const auto waited_ns = static_cast<double>((now - busy_since_).count());
        // The next request takes the place of this one.
        path_bytes_ = waited_ns * options_.rate_bps / 8e9 - static_cast<double>(size_bytes);
    }
    /// Of all detectors that take from this credit, which has to outlive them.
    AwaitedBytes& awaited() { return awaited_; }
    const AwaitedBytes& awaited() const { return awaited_; }

    /// The most that may be awaited at once.
    double most() const { return static_cast<double>(options_.most_bytes) + meter_.path_bytes(); }

    /// `shortest_rtt` of its flow is `Duration::max()` before the first sample.
    void on_answer(std::size_t size_bytes, bool marked, Duration shortest_rtt, TimePoint now) {
        if (!limited()) return;
        const auto answer = static_cast<double>(size_bytes);
        if (options_.measures_path) {
            const double before = most();
            meter_.on_answer(size_bytes, shortest_rtt, now);
            granted_bytes_ *= most() / before;
        }
        grant(marked ? -answer / 2 : answer * most() / (kRoundsToRegain * granted_bytes_));
    }
    /// A request is repeated. Where no queue sets marks, a lost answer counts as a marked one.
    void on_loss(std::size_t size_bytes) {
        if (limited() && options_.measures_path) grant(-static_cast<double>(size_bytes) / 2);
    }

  private:
    /// Round trips without marks until the whole credit is granted again.
    static constexpr double kRoundsToRegain = 16;
    static constexpr double kLeastShare = 8;
    static constexpr double kLeastOfOthers = 4;
    /// How many times slower the credit grows beyond what fills the path, beside sums.
    static constexpr double kSlowGrowth = 10;
    static constexpr double kShareBesideSums = 2;
    static constexpr double kNotKnown = std::numeric_limits<double>::infinity();

    void grant(double more_bytes) {
        granted_bytes_ = std::clamp(granted_bytes_ + more_bytes, most() / kLeastShare, most());
    }
    bool grows() const { return options_.rate_bps > 0; }
    double most_in_flight() const {
        const double left_to_others = most() / kLeastOfOthers;
        const double beside_held = granted_bytes_ - static_cast<double>(awaited_.held);
        const double most = granted_bytes_ / (path_bytes_ == kNotKnown ? 1 : kShareBesideSums);
        return std::min(most, std::max(beside_held, left_to_others));
    }
    double in_flight() const { return static_cast<double>(awaited_.in_flight); }

    CreditOptions options_;
    double granted_bytes_;
    TimePoint busy_since_{};         ///< something has been in flight all the time
    double path_bytes_ = kNotKnown;  ///< in flight when the first answer since then came
    AwaitedBytes awaited_;
    PathMeter meter_;
};

}  // namespace innet
