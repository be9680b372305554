#pragma once
// The sending end of a simulated byte stream: TCP's loss recovery (RFC 6675 and RFC 8985 in
// outline, with one SACK block in each acknowledgement; RFC 6298) and its windows, without a
// connection's beginning and end. Sans-IO.

#include <cstdint>
#include <deque>
#include <optional>

#include "switch_emulator/simulation/stream/stream_packet.hpp"
#include "switch_emulator/simulation/stream/window.hpp"
#include "transport/fetch/rtt_estimator.hpp"

namespace innet::simulation::stream {

struct SenderOptions {
    std::uint32_t segment_bytes = 1460;  ///< payload of a full segment
    WindowGrowth growth = WindowGrowth::kCubic;
    std::uint64_t max_window_bytes = 6 << 20;           ///< the receiver's window: Linux's tcp_rmem
    Duration min_rto = std::chrono::milliseconds(200);  ///< Linux's; RFC 6298 says one second
    Duration max_rto = std::chrono::seconds(60);
    /// What a machine takes, at random up to this, from an acknowledgement to what follows from it.
    Duration max_processing{0};
    std::uint64_t seed = 0;  ///< of that randomness
};

struct SenderCounters {
    std::uint64_t segments = 0;         ///< sent, repeated ones included
    std::uint64_t retransmissions = 0;  ///< of segments taken for lost
    std::uint64_t timeouts = 0;
};

class Sender {
  public:
    explicit Sender(const SenderOptions& options);

    /// `bytes` more are to be sent.
    void write(std::uint64_t bytes, TimePoint now);
    std::uint64_t written() const { return end_; }
    std::uint64_t acknowledged() const { return first_; }

    /// The next range to put on the wire, if the window allows one; it counts as sent.
    std::optional<Range> take_segment(TimePoint now);
    void on_acknowledgement(const Acknowledgement& acknowledgement, TimePoint now);
    void on_timer(TimePoint now);
    TimePoint next_deadline() const { return deadline_; }

    double window_bytes() const { return window_.bytes(); }
    const SenderCounters& counters() const { return counters_; }

  private:
    enum class State : std::uint8_t { kInFlight, kArrived, kLost };
    struct Segment {
        Range range;
        TimePoint sent;
        State state = State::kInFlight;
        bool repeated = false;
    };

    void advance(std::uint64_t next, TimePoint now);
    void mark_arrived(const Range& range, TimePoint now);
    void note_arrival(const Segment& segment, TimePoint now);
    void detect_losses();
    bool is_lost(const Segment& segment) const;
    void set_state(Segment& segment, State state);
    std::optional<Range> repeat_lost(TimePoint now);
    void restart_timer(TimePoint now);

    SenderOptions options_;
    Window window_;
    RttEstimator rtt_;
    SenderCounters counters_;
    std::deque<Segment> segments_;  ///< sent and not acknowledged, in order
    std::uint64_t first_ = 0;       ///< not acknowledged yet
    std::uint64_t next_ = 0;        ///< not sent yet
    std::uint64_t end_ = 0;         ///< not written yet
    std::uint64_t in_flight_ = 0;   ///< bytes taken to be in the network
    std::uint64_t highest_arrived_ = 0;
    std::uint64_t recovery_end_ = 0;  ///< losses below it belong to one event
    std::size_t lost_ = 0;            ///< segments to be sent again
    bool window_limited_ = false;
    TimePoint newest_arrived_{};  ///< when the latest sent of those that arrived was sent
    TimePoint last_sent_{};
    TimePoint deadline_ = kNever;
};

}  // namespace innet::simulation::stream
