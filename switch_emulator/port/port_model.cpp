#include "switch_emulator/port/port_model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "switch_emulator/port/congestion_marker.hpp"

namespace innet::port {
namespace {

constexpr std::size_t kFirstCapacity = 4;

std::size_t wire_bytes(const OutgoingPacket& packet) { return packet.size() + kFramingBytes; }

}  // namespace

PortModel::PortModel(const PortOptions& options) : options_(options), random_(options.seed) {}

void PortModel::enqueue(OutgoingPacket&& packet, TimePoint now) {
    ++counters_.enqueued;
    drain_queue(now);
    // A packet that finds the queue empty is sent even if the queue could not hold it.
    const std::uint64_t depth_with_it = counters_.depth_bytes + wire_bytes(packet);
    if (counters_.depth_bytes > 0 && depth_with_it > options_.queue_bytes) {
        ++counters_.dropped_queue;
        return;
    }
    if (options_.mark_bytes && counters_.depth_bytes > *options_.mark_bytes) {
        counters_.marked += mark_data(packet) ? 1 : 0;
    }
    const std::size_t size = wire_bytes(packet);  // the mark may have made it larger
    // The link's schedule does not depend on the driver: a late call loses no capacity.
    busy_until_ = std::max(now - burst_time(), busy_until_) + serialisation(size);
    const TimePoint serialised = std::max(now, busy_until_);
    counters_.depth_bytes += size;
    counters_.max_depth_bytes = std::max(counters_.max_depth_bytes, counters_.depth_bytes);
    push({std::move(packet), serialised, serialised + options_.delay,
          random_.happens(options_.loss)});
}

void PortModel::take_ready(TimePoint now, std::vector<OutgoingPacket>& into) {
    drain_queue(now);
    while (count_ > 0 && at(0).arrives <= now) {
        InFlight& entry = at(0);
        if (entry.lost) {
            ++counters_.dropped_loss;
        } else {
            ++counters_.sent;
            counters_.bytes += wire_bytes(entry.packet);
            into.push_back(std::move(entry.packet));
        }
        entry = InFlight{};
        head_ = (head_ + 1) & (ring_.size() - 1);
        --count_;
        --serialised_count_;
    }
}

TimePoint PortModel::next_deadline() const { return count_ == 0 ? kNever : at(0).arrives; }

Duration PortModel::time_to_depth(std::size_t bytes, TimePoint now) {
    drain_queue(now);
    if (counters_.depth_bytes <= bytes || !options_.rate_bps) {
        return Duration::zero();
    }
    const auto excess = static_cast<double>(counters_.depth_bytes - bytes);
    return Duration(static_cast<Duration::rep>(std::ceil(excess * 8e9 / *options_.rate_bps)));
}

std::size_t PortModel::clear() {
    const std::size_t cleared = count_;
    for (; count_ > 0; --count_) {
        at(count_ - 1) = InFlight{};
    }
    serialised_count_ = 0;
    counters_.depth_bytes = 0;
    busy_until_ = TimePoint{};
    unpaid_ns_ = 0;
    return cleared;
}

void PortModel::push(InFlight&& entry) {
    if (count_ == ring_.size()) {
        std::vector<InFlight> larger(std::max(kFirstCapacity, ring_.size() * 2));
        for (std::size_t i = 0; i < count_; ++i) {
            larger[i] = std::move(at(i));
        }
        ring_ = std::move(larger);
        head_ = 0;
    }
    at(count_) = std::move(entry);
    ++count_;
}

void PortModel::drain_queue(TimePoint now) {
    while (serialised_count_ < count_ && at(serialised_count_).serialised <= now) {
        counters_.depth_bytes -= wire_bytes(at(serialised_count_).packet);
        ++serialised_count_;
    }
}

Duration PortModel::serialisation(std::size_t bytes) {
    if (!options_.rate_bps) {
        return Duration::zero();
    }
    // The fraction is carried over: at 10 Gbit/s a nanosecond is 1 % of a small packet.
    const double exact_ns = static_cast<double>(bytes) * 8e9 / *options_.rate_bps + unpaid_ns_;
    const Duration whole(static_cast<Duration::rep>(exact_ns));
    unpaid_ns_ = exact_ns - static_cast<double>(whole.count());
    return whole;
}

Duration PortModel::burst_time() const {
    if (!options_.rate_bps) {
        return Duration::zero();
    }
    const double burst_ns = static_cast<double>(options_.burst_bytes) * 8e9 / *options_.rate_bps;
    return Duration(static_cast<Duration::rep>(burst_ns));
}

}  // namespace innet::port
