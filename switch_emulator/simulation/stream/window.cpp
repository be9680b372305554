#include "switch_emulator/simulation/stream/window.hpp"

#include <algorithm>
#include <cmath>

namespace innet::simulation::stream {
namespace {

constexpr double kCubicDecrease = 0.7;
constexpr double kRenoDecrease = 0.5;
constexpr double kCubicScale = 0.4;  // C, in segments a cubic second

}  // namespace

Window::Window(WindowGrowth growth, std::uint32_t segment_bytes, std::uint64_t most_bytes)
    : growth_(growth),
      segment_bytes_(segment_bytes),
      most_bytes_(std::max(static_cast<double>(most_bytes), 2.0 * segment_bytes)),
      bytes_(kInitialSegments * segment_bytes),
      threshold_(most_bytes_) {
    bytes_ = std::min(bytes_, most_bytes_);
}

void Window::on_acknowledged(std::uint64_t bytes, TimePoint now, Duration rtt) {
    if (in_slow_start()) {
        // Appropriate byte counting (RFC 3465), with the limit that delayed acknowledgements need.
        bytes_ += std::min(static_cast<double>(bytes), 2 * segment_bytes_);
    } else if (growth_ == WindowGrowth::kReno) {
        bytes_ += segment_bytes_ * static_cast<double>(bytes) / bytes_;
    } else {
        grow_cubic(bytes, now, rtt);
    }
    bytes_ = std::min(bytes_, most_bytes_);
}

void Window::grow_cubic(std::uint64_t bytes, TimePoint now, Duration rtt) {
    if (epoch_ == kNever) {
        epoch_ = now;
        epoch_bytes_ = bytes_;
        reno_bytes_ = bytes_;
        const double below = std::max(0.0, before_decrease_ - bytes_) / segment_bytes_;
        inflection_s_ = std::cbrt(below / kCubicScale);
    }
    const double peak = std::max(before_decrease_, epoch_bytes_);
    const double time_s = std::chrono::duration<double>(now - epoch_ + rtt).count();
    const double from_peak_s = time_s - inflection_s_;
    const double target =
        std::clamp(peak + kCubicScale * from_peak_s * from_peak_s * from_peak_s * segment_bytes_,
                   bytes_, 1.5 * bytes_);
    const double share = static_cast<double>(bytes) / bytes_;
    reno_bytes_ += 3 * (1 - kCubicDecrease) / (1 + kCubicDecrease) * segment_bytes_ * share;
    bytes_ = std::max(bytes_ + (target - bytes_) * share, reno_bytes_);
}

void Window::decrease() {
    epoch_ = kNever;
    const bool cubic = growth_ == WindowGrowth::kCubic;
    // Fast convergence: a flow with a loss below its last peak leaves room for others.
    before_decrease_ =
        cubic && bytes_ < before_decrease_ ? bytes_ * (1 + kCubicDecrease) / 2 : bytes_;
    threshold_ = std::max(bytes_ * (cubic ? kCubicDecrease : kRenoDecrease), 2 * segment_bytes_);
}

void Window::on_loss() {
    decrease();
    bytes_ = threshold_;
}

void Window::on_timeout() {
    decrease();
    bytes_ = segment_bytes_;
}

void Window::on_idle() {
    bytes_ = std::min(bytes_, kInitialSegments * segment_bytes_);
    epoch_ = kNever;
}

}  // namespace innet::simulation::stream
