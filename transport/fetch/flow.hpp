#pragma once
// The requests that one node answers: their losses, their window, and which of them wait to be
// sent.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "transport/fetch/congestion_control.hpp"
#include "transport/fetch/loss_detector.hpp"
#include "transport/wire/name.hpp"

namespace innet {

class Flow {
  public:
    Flow(wire::Name hint, LossDetector detector, std::unique_ptr<CongestionControl> control);

    wire::NameView hint() const { return hint_.view(); }
    LossDetector& detector() { return detector_; }
    const LossDetector& detector() const { return detector_; }

    std::uint32_t window() const { return control_->window(); }
    bool has_room() const { return detector_.in_flight_count() < control_->window(); }
    /// Parked requests precede new ones: a refused request must not admit another.
    bool has_room_for_new() const {
        return detector_.outstanding_count() - detector_.held_count() < control_->window();
    }

    /// True when `key` was outstanding; the window learns from it.
    bool on_answered(RequestKey key, bool marked, TimePoint now);
    /// Appends the requests that are lost or due for a refresh; the window learns from losses.
    void collect(TimePoint now, std::vector<LostRequest>& into);
    void on_held(RequestKey key, TimePoint now);
    /// The node refused a request; `for_want_of_room` shrinks the window.
    void on_refused(bool for_want_of_room, TimePoint now);
    /// Timeouts of any requests since the node's last sign of life.
    std::uint32_t silent_rounds() const {
        return detector_.rtt().back_offs() - back_offs_at_sign_of_life_;
    }

    /// A parked request may be sent as soon as the window has room.
    void make_ready(RequestKey key) { ready_.push_back(key); }
    /// The first ready request; it stays ready until it is sent or forgotten.
    std::optional<RequestKey> first_ready();
    /// The first ready request was sent; if it is refused, it waits like any other.
    void on_ready_sent() { ++ready_begin_; }
    /// A parked request is ready from `due` on.
    void delay(RequestKey key, TimePoint due);
    void wake_delayed(TimePoint now);

    /// Marks the node as silent or not reducing: targets that can self-evaluate bypass it, except
    /// for one probe a second.
    void suspect(TimePoint now);
    void trust() { suspect_ = false; }
    bool is_suspect() const { return suspect_; }
    bool probe_due(TimePoint now) const { return now >= next_probe_; }
    void on_probe_sent(TimePoint now);

    TimePoint next_deadline() const;

  private:
    void note_sign_of_life() { back_offs_at_sign_of_life_ = detector_.rtt().back_offs(); }

    struct Delayed {
        TimePoint due;
        RequestKey key;
    };

    wire::Name hint_;
    LossDetector detector_;
    std::unique_ptr<CongestionControl> control_;
    std::vector<RequestKey> ready_;
    std::size_t ready_begin_ = 0;
    std::vector<Delayed> delayed_;
    TimePoint next_wake_ = kNever;
    TimePoint next_probe_{};
    std::uint32_t back_offs_at_sign_of_life_ = 0;
    bool suspect_ = false;
};

}  // namespace innet
