#include "transport/fetch/flow.hpp"

#include <algorithm>
#include <utility>

namespace innet {

namespace {
constexpr Duration kProbeInterval = std::chrono::seconds(1);
}  // namespace

Flow::Flow(wire::Name hint, LossDetector detector, std::unique_ptr<CongestionControl> control)
    : hint_(std::move(hint)), detector_(std::move(detector)), control_(std::move(control)) {}

bool Flow::on_answered(RequestKey key, bool marked, TimePoint now) {
    const std::size_t outstanding = detector_.in_flight_count() + detector_.held_count();
    if (!detector_.on_answered(key, now)) return false;
    // Half a window in flight counts as limited: sending in bursts leaves the window half empty at
    // times.
    control_->on_answer(now, detector_.rtt(), marked, 2 * outstanding >= control_->window());
    note_sign_of_life();
    return true;
}

void Flow::on_held(RequestKey key, TimePoint now) {
    detector_.on_held(key, now);
    note_sign_of_life();
}

void Flow::on_refused(bool for_want_of_room, TimePoint now) {
    if (for_want_of_room) control_->on_refusal(now, detector_.rtt());
    note_sign_of_life();
}

void Flow::collect(TimePoint now, std::vector<LostRequest>& into) {
    const std::size_t before = into.size();
    detector_.collect(now, into);
    for (std::size_t i = before; i < into.size(); ++i) {
        if (into[i].cause != LossCause::kRefresh) control_->on_loss(now, detector_.rtt());
    }
}

std::optional<RequestKey> Flow::first_ready() {
    // What was answered, sent or forgotten meanwhile is no longer parked.
    while (ready_begin_ < ready_.size() && !detector_.parked(ready_[ready_begin_])) ++ready_begin_;
    if (ready_begin_ < ready_.size()) return ready_[ready_begin_];
    ready_.clear();
    ready_begin_ = 0;
    return std::nullopt;
}

void Flow::delay(RequestKey key, TimePoint due) {
    delayed_.push_back({due, key});
    next_wake_ = std::min(next_wake_, due);
}

void Flow::wake_delayed(TimePoint now) {
    if (now < next_wake_) return;
    next_wake_ = kNever;
    std::erase_if(delayed_, [&](const Delayed& delayed) {
        if (delayed.due <= now) {
            ready_.push_back(delayed.key);
            return true;
        }
        next_wake_ = std::min(next_wake_, delayed.due);
        return false;
    });
}

void Flow::suspect(TimePoint now) {
    if (suspect_) return;
    suspect_ = true;
    next_probe_ = now + kProbeInterval;
}

void Flow::on_probe_sent(TimePoint now) {
    next_probe_ = now + kProbeInterval;
    detector_.forget_back_offs();
    note_sign_of_life();
}

TimePoint Flow::next_deadline() const { return std::min(detector_.next_deadline(), next_wake_); }

}  // namespace innet
