#include "transport/fetch/cubic.hpp"

#include <algorithm>
#include <cmath>

namespace innet {

namespace {

constexpr double kC = 0.4;                                         ///< RFC 9438, section 4.1
constexpr double kBeta = 0.7;                                      ///< RFC 9438, section 4.6
constexpr double kRenoGain = 3.0 * (1.0 - kBeta) / (1.0 + kBeta);  ///< alpha_cubic, section 4.3

/// Below this, one late segment would leave a link idle: requests, sums and answers overlap.
constexpr double kMinWindow = 4;

/// Own segments that may wait, however long they take (TCP Vegas' beta: Brakmo and Peterson, 1995).
/// On slow links the target is shorter than a few segments are, and a window at its minimum leaves
/// them idle at times, for an Interest waits behind Data.
constexpr double kQueuedSegments = 8;

/// A path that loses more than this is taken as congested. Random loss of 1 % on each of the few
/// links between a requester and the node that answers stays well below.
constexpr double kCongestedLossRate = 0.1;
constexpr double kLossGain = 1.0 / 128;

/// Samples that make the smallest of a round trip under way meaningful (RFC 9406, N_RTT_SAMPLE).
constexpr std::uint32_t kRoundSamples = 8;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Cubic::Cubic(const CubicOptions& options)
    : options_(options),
      window_(std::max(kMinWindow, static_cast<double>(options.initial_window))),
      slow_start_threshold_(std::max(kMinWindow, static_cast<double>(options.max_window))) {}

std::uint32_t Cubic::window() const { return static_cast<std::uint32_t>(window_); }

void Cubic::observe(TimePoint now, const RttEstimator& rtt) {
    if (rtt.samples() == samples_seen_) return;
    samples_seen_ = rtt.samples();
    if (now >= round_end_) {
        if (round_samples_ > 0) previous_round_minimum_ = round_minimum_;
        round_minimum_ = Duration::max();
        round_samples_ = 0;
        round_end_ = now + rtt.smoothed();
    }
    round_minimum_ = std::min(round_minimum_, rtt.latest());
    ++round_samples_;
}

Duration Cubic::standing_rtt() const {
    return round_samples_ >= kRoundSamples ? round_minimum_ : previous_round_minimum_;
}

bool Cubic::delayed(const RttEstimator& rtt) const {
    if (!rtt.has_sample()) return false;
    const Duration queue_delay = standing_rtt() - rtt.minimum();
    return queue_delay > options_.target_queue_delay &&
           window_ * seconds(queue_delay) > kQueuedSegments * seconds(standing_rtt());
}

double Cubic::drained_share(const RttEstimator& rtt) const {
    const Duration wanted = rtt.minimum() + options_.target_queue_delay / 2;
    return std::max(kBeta, seconds(wanted) / seconds(standing_rtt()));
}

void Cubic::on_answer(TimePoint now, const RttEstimator& rtt, bool marked, bool window_limited) {
    observe(now, rtt);
    loss_rate_ -= loss_rate_ * kLossGain;
    if (marked || delayed(rtt)) {
        shrink(now, rtt, marked ? kBeta : drained_share(rtt));
        return;
    }
    // Before the first sample (the first window's requests may all have been held), nothing would
    // limit the growth.
    if (window_limited && rtt.has_sample()) {
        grow(now, rtt);
    } else {
        epoch_start_ = kNever;
    }
}

void Cubic::on_loss(TimePoint now, const RttEstimator& rtt) {
    // Before the first sample a timeout is a guess, and on a long path a wrong one.
    if (!rtt.has_sample()) return;
    loss_rate_ += (1 - loss_rate_) * kLossGain;
    if (delayed(rtt) || loss_rate_ > kCongestedLossRate) shrink(now, rtt, kBeta);
}

void Cubic::on_refusal(TimePoint now, const RttEstimator& rtt) { shrink(now, rtt, kBeta); }

void Cubic::grow(TimePoint now, const RttEstimator& rtt) {
    const double limit = std::max(kMinWindow, static_cast<double>(options_.max_window));
    if (in_slow_start()) {
        window_ = std::min(window_ + 1, limit);
        return;
    }
    if (epoch_start_ == kNever) start_epoch(now);
    const double rtt_s = rtt.has_sample() ? seconds(rtt.smoothed()) : 0;
    const double from_inflection_s = seconds(now - epoch_start_) + rtt_s - inflection_s_;
    const double cubic =
        kC * from_inflection_s * from_inflection_s * from_inflection_s + window_before_decrease_;
    reno_estimate_ += (reno_estimate_ < window_before_decrease_ ? kRenoGain : 1.0) / window_;
    // RFC 9438, sections 4.2 to 4.5: at most half a window per round trip, and never slower than
    // Reno, which rules where round trips are short.
    const double target = std::clamp(cubic, window_, 1.5 * window_);
    window_ =
        std::max(window_ + (target - window_) / window_, std::min(reno_estimate_, window_ + 1));
    window_ = std::min(window_, limit);
}

void Cubic::start_epoch(TimePoint now) {
    epoch_start_ = now;
    epoch_window_ = window_;
    reno_estimate_ = window_;
    window_before_decrease_ = std::max(window_before_decrease_, window_);
    inflection_s_ = std::cbrt((window_before_decrease_ - epoch_window_) / kC);
}

void Cubic::shrink(TimePoint now, const RttEstimator& rtt, double share) {
    const Duration round_trip = rtt.has_sample() ? rtt.smoothed() : rtt.timeout();
    if (decreased_ && now - last_decrease_ < round_trip) return;
    decreased_ = true;
    last_decrease_ = now;
    loss_rate_ = 0;
    epoch_start_ = kNever;
    // Fast convergence (RFC 9438, section 4.7): a flow that shrinks again before it regained its
    // window leaves room for others.
    window_before_decrease_ =
        window_ < window_before_decrease_ ? window_ * (1 + kBeta) / 2 : window_;
    window_ = std::max(kMinWindow, window_ * share);
    slow_start_threshold_ = window_;
}

}  // namespace innet
