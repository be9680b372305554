#pragma once
// CUBIC (RFC 9438) with a bound on the delay it causes, counted in segments.
//
// Marks and queueing delay are congestion; a loss alone is not. The queues of a path show
// themselves by delay or by marks before they overflow, and a window halved for every lost packet
// could not carry an aggregated fetch, whose one answer depends on dozens of packets. What remains
// of a loss signal is its rate: a path that drops more than a tenth is taken as congested (a
// drop-tail queue too short to show up as delay).

#include "transport/fetch/congestion_control.hpp"

namespace innet {

struct CubicOptions {
    std::uint32_t initial_window = 16;  ///< segments
    std::uint32_t max_window = 512;     ///< segments
    /// A standing queue longer than this ends slow start and shrinks the window.
    Duration target_queue_delay = std::chrono::milliseconds(5);
};

class Cubic final : public CongestionControl {
  public:
    explicit Cubic(const CubicOptions& options);

    std::uint32_t window() const override;
    void on_answer(TimePoint now, const RttEstimator& rtt, bool marked,
                   bool window_limited) override;
    void on_loss(TimePoint now, const RttEstimator& rtt) override;
    void on_refusal(TimePoint now, const RttEstimator& rtt) override;

    bool in_slow_start() const { return window_ < slow_start_threshold_; }

  private:
    /// Adds a new RTT sample, if there is one, to the current round trip.
    void observe(TimePoint now, const RttEstimator& rtt);
    Duration standing_rtt() const;
    bool delayed(const RttEstimator& rtt) const;
    /// The share of the window that shrinks the queue to half its target.
    double drained_share(const RttEstimator& rtt) const;
    void grow(TimePoint now, const RttEstimator& rtt);
    void start_epoch(TimePoint now);
    /// Multiplicative decrease to `share` of the window, at most once per round trip.
    void shrink(TimePoint now, const RttEstimator& rtt, double share);

    CubicOptions options_;
    double window_;
    double slow_start_threshold_;
    double window_before_decrease_ = 0;  ///< W_max
    double reno_estimate_ = 0;           ///< W_est
    double epoch_window_ = 0;            ///< window at the epoch's start
    double inflection_s_ = 0;            ///< K: seconds from the epoch's start to W_max
    double loss_rate_ = 0;               ///< moving average over some 128 requests
    TimePoint epoch_start_ = kNever;     ///< kNever: no epoch is running
    TimePoint last_decrease_{};
    bool decreased_ = false;

    std::uint64_t samples_seen_ = 0;
    TimePoint round_end_{};
    std::uint32_t round_samples_ = 0;
    Duration round_minimum_ = Duration::max();
    Duration previous_round_minimum_{0};
};

}  // namespace innet
