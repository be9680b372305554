#include "switch_emulator/simulation/stream/sender.hpp"

#include <algorithm>

namespace innet::simulation::stream {
namespace {

/// Segments that must have arrived behind one that is missing.
constexpr std::uint64_t kReorderingSegments = 3;

}  // namespace

Sender::Sender(const SenderOptions& options)
    : options_(options),
      window_(options.growth, options.segment_bytes, options.max_window_bytes),
      rtt_(options.min_rto, options.max_rto) {}

void Sender::write(std::uint64_t bytes, TimePoint now) {
    if (segments_.empty() && counters_.segments > 0 && now - last_sent_ > rtt_.timeout()) {
        window_.on_idle();
    }
    end_ += bytes;
}

std::optional<Range> Sender::take_segment(TimePoint now) {
    const std::uint64_t wanted =
        lost_ > 0 ? options_.segment_bytes
                  : std::min<std::uint64_t>(options_.segment_bytes, end_ - next_);
    if (wanted == 0) {
        return std::nullopt;
    }
    // One segment may always be under way, whatever the window.
    if (in_flight_ > 0 && static_cast<double>(in_flight_ + wanted) > window_.bytes()) {
        window_limited_ = true;
        return std::nullopt;
    }
    std::optional<Range> range = repeat_lost(now);
    if (!range) {
        range = Range{next_, next_ + wanted};
        segments_.push_back({*range, now});
        in_flight_ += wanted;
        next_ += wanted;
    }
    ++counters_.segments;
    last_sent_ = now;
    if (deadline_ == kNever) {
        restart_timer(now);
    }
    return range;
}

std::optional<Range> Sender::repeat_lost(TimePoint now) {
    if (lost_ == 0) {
        return std::nullopt;
    }
    const auto lost = std::ranges::find(segments_, State::kLost, &Segment::state);
    set_state(*lost, State::kInFlight);
    lost->sent = now;
    lost->repeated = true;
    ++counters_.retransmissions;
    return lost->range;
}

void Sender::on_acknowledgement(const Acknowledgement& acknowledgement, TimePoint now) {
    const std::uint64_t next = unwrap(acknowledgement.next, first_);
    if (next > next_ || next + (1ULL << 31U) < first_) {
        return;  // of something that was never sent
    }
    if (acknowledgement.sack_begin != acknowledgement.sack_end) {
        mark_arrived(
            {unwrap(acknowledgement.sack_begin, first_), unwrap(acknowledgement.sack_end, first_)},
            now);
    }
    if (next > first_) {
        advance(next, now);
    }
    detect_losses();
}

void Sender::advance(std::uint64_t next, TimePoint now) {
    const std::uint64_t bytes = next - first_;
    while (!segments_.empty() && segments_.front().range.end <= next) {
        Segment& segment = segments_.front();
        if (!segment.repeated && segment.state == State::kInFlight) {
            rtt_.sample(now - segment.sent);
        }
        note_arrival(segment, now);
        set_state(segment, State::kArrived);
        segments_.pop_front();
    }
    first_ = next;
    rtt_.forget_back_offs();
    const bool recovering = next < recovery_end_;
    if (window_limited_ && (!recovering || window_.in_slow_start())) {
        window_.on_acknowledged(bytes, now, rtt_.smoothed());
    }
    window_limited_ = false;
    restart_timer(now);
}

void Sender::mark_arrived(const Range& range, TimePoint now) {
    const auto first = std::ranges::lower_bound(segments_, range.begin, {},
                                                [](const Segment& s) { return s.range.begin; });
    for (auto segment = first; segment != segments_.end() && segment->range.end <= range.end;
         ++segment) {
        note_arrival(*segment, now);
        set_state(*segment, State::kArrived);
    }
    highest_arrived_ = std::max(highest_arrived_, std::min(range.end, next_));
}

void Sender::note_arrival(const Segment& segment, TimePoint now) {
    // Of a repeated one, the answer may be to what was sent before.
    const bool ambiguous = segment.repeated && now - segment.sent < rtt_.minimum();
    if (segment.state != State::kArrived && !ambiguous) {
        newest_arrived_ = std::max(newest_arrived_, segment.sent);
    }
}

bool Sender::is_lost(const Segment& segment) const {
    if (segment.state != State::kInFlight) {
        return false;
    }
    const std::uint64_t behind = kReorderingSegments * options_.segment_bytes;
    const bool overtaken = !segment.repeated && segment.range.end + behind <= highest_arrived_;
    // What was sent later has arrived, by more than packets may change their order (RACK).
    const Duration reordering = rtt_.has_sample() ? rtt_.minimum() / 4 : Duration::zero();
    return overtaken || segment.sent + reordering < newest_arrived_;
}

void Sender::detect_losses() {
    if (highest_arrived_ <= first_ && first_ >= recovery_end_) {
        return;  // nothing has arrived beyond a gap, and nothing was repeated
    }
    for (Segment& segment : segments_) {
        if (!is_lost(segment)) {
            continue;
        }
        set_state(segment, State::kLost);
        if (segment.range.begin >= recovery_end_) {
            recovery_end_ = next_;
            window_.on_loss();
        }
    }
}

void Sender::on_timer(TimePoint now) {
    if (deadline_ > now) {
        return;
    }
    ++counters_.timeouts;
    for (Segment& segment : segments_) {
        if (segment.state == State::kInFlight) {
            set_state(segment, State::kLost);
        }
        segment.repeated = true;  // Karn: none of them gives a sample
    }
    if (rtt_.back_offs() == 0) {
        window_.on_timeout();
    }
    rtt_.back_off();
    recovery_end_ = next_;
    restart_timer(now);
}

void Sender::set_state(Segment& segment, State state) {
    if (segment.state == state || segment.state == State::kArrived) {
        return;
    }
    const std::uint64_t size = segment.range.end - segment.range.begin;
    if (segment.state == State::kInFlight) {
        in_flight_ -= size;
    } else {
        --lost_;
    }
    if (state == State::kInFlight) {
        in_flight_ += size;
    } else if (state == State::kLost) {
        ++lost_;
    }
    segment.state = state;
}

void Sender::restart_timer(TimePoint now) {
    deadline_ = segments_.empty() ? kNever : now + rtt_.timeout();
}

}  // namespace innet::simulation::stream
