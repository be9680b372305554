#include "switch_emulator/driver/packet_ring.hpp"

#include <algorithm>
#include <cstring>

#include "transport/buffer/packet_ref.hpp"

namespace innet::driver {

namespace {

/// Records begin at cache lines, so that the ends do not write to each other's.
constexpr std::uint32_t kAlignment = RingControl::kCacheLineBytes;
constexpr std::uint32_t kLengthBytes = sizeof(std::uint32_t);
/// Stands for a length: the next record is at the beginning.
constexpr std::uint32_t kGoOnAtBeginning = ~std::uint32_t{0};
/// Of an empty ring, this much is used before it begins anew.
constexpr std::uint32_t kBeginAnewAfterBytes = 512 * 1024;

constexpr std::uint32_t record_bytes(std::size_t packet_bytes) {
    return static_cast<std::uint32_t>((kLengthBytes + packet_bytes + kAlignment - 1) / kAlignment *
                                      kAlignment);
}
static_assert(RingMemory::kMinBytes > 3 * record_bytes(kMaxPacketBytes));

/// Records end before this offset: the wrap mark always has room.
std::uint32_t end_of(const RingMemory& ring) {
    return static_cast<std::uint32_t>(ring.bytes.size()) - kAlignment;
}

/// What the other end says, if it can be.
std::optional<std::uint32_t> checked(const RingMemory& ring, std::uint32_t offset) {
    if (offset > end_of(ring) || offset % kAlignment != 0) return std::nullopt;
    return offset;
}

std::atomic_ref<std::uint32_t> length_field(const RingMemory& ring, std::uint32_t offset) {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(&ring.bytes[offset]));
}

}  // namespace

// Reading and writing of `written`, and of the flag that the consumer sleeps, is sequentially
// consistent: of a producer that puts in and then looks at the flag, and a consumer that sets it
// and then looks for packets, one at least sees what the other did. So it is with room.

RingProducer::RingProducer(RingMemory ring)
    : ring_(ring), written_(checked(ring, ring.control->written.load()).value_or(0)) {
    ring_.control->written.store(written_);
    ring_.control->producer_waits.store(0);
}

bool RingProducer::push(std::initializer_list<std::span<const std::uint8_t>> parts) {
    std::size_t packet_bytes = 0;
    for (const auto& part : parts) packet_bytes += part.size();
    const std::uint32_t needed = record_bytes(packet_bytes);
    const auto place = place_for(needed);
    if (!place) {
        refused_record_bytes_ = needed;
        return false;
    }
    if (*place != written_) {
        length_field(ring_, written_).store(kGoOnAtBeginning, std::memory_order_relaxed);
    }
    length_field(ring_, *place)
        .store(static_cast<std::uint32_t>(packet_bytes), std::memory_order_relaxed);
    std::uint8_t* into = &ring_.bytes[*place + kLengthBytes];
    for (const auto& part : parts) {
        if (part.empty()) continue;
        // Not std::ranges::copy, which compilers make a loop of 16 bytes a turn.
        std::memcpy(into, part.data(), part.size());
        into += part.size();
    }
    written_ = *place + needed;
    ring_.control->written.store(written_);
    return true;
}

std::optional<std::uint32_t> RingProducer::place_for(std::uint32_t needed) const {
    const auto read = checked(ring_, ring_.control->read.load());
    if (!read) return std::nullopt;
    // Behind all others, if there is room; never as far as `read`, which would look empty.
    const bool has_wrapped = written_ < *read;
    const bool begins_anew = written_ == *read && written_ >= kBeginAnewAfterBytes;
    if (!begins_anew && written_ + needed <= (has_wrapped ? *read - 1 : end_of(ring_))) {
        return written_;
    }
    if (!has_wrapped && needed < *read) return 0;
    return std::nullopt;
}

bool RingProducer::take_sleeping_consumer() {
    std::atomic<std::uint32_t>& sleeps = ring_.control->consumer_sleeps;
    return sleeps.load() != 0 && sleeps.exchange(0) != 0;
}

bool RingProducer::wait_for_room() {
    ring_.control->producer_waits.store(1);
    if (!place_for(refused_record_bytes_)) return true;
    ring_.control->producer_waits.store(0);
    return false;
}

RingConsumer::RingConsumer(RingMemory ring)
    : ring_(ring), read_(checked(ring, ring.control->read.load()).value_or(0)) {
    move_to(read_);
    wake();
}

std::span<const std::uint8_t> RingConsumer::front() {
    const auto written = this->written(std::memory_order_acquire);
    if (!written || *written == read_) return {};
    std::uint32_t length = length_at(read_);
    if (length == kGoOnAtBeginning && *written < read_) {
        move_to(0);
        if (*written == 0) return {};
        length = length_at(0);
    }
    const std::uint32_t end = *written < read_ ? end_of(ring_) : *written;
    if (length == 0 || length > kMaxPacketBytes || record_bytes(length) > end - read_) {
        ++bad_framing_;
        move_to(*written);
        return {};
    }
    front_record_bytes_ = record_bytes(length);
    return ring_.bytes.subspan(read_ + kLengthBytes, length);
}

void RingConsumer::pop() { move_to(read_ + front_record_bytes_); }

bool RingConsumer::take_waiting_producer() {
    std::atomic<std::uint32_t>& waits = ring_.control->producer_waits;
    ring_.control->read.store(read_);
    if (waits.load() == 0) return false;
    // Not before there is room for a good deal: each time costs a system call or two.
    const std::uint32_t written = this->written(std::memory_order_relaxed).value_or(read_);
    const auto size = static_cast<std::uint32_t>(ring_.bytes.size());
    const std::uint32_t waiting = (written - read_) & (size - 1);
    return waiting <= size / 2 && waits.exchange(0) != 0;
}

bool RingConsumer::sleep() {
    ring_.control->consumer_sleeps.store(1);
    if (written(std::memory_order_seq_cst).value_or(read_) == read_) return true;
    wake();
    return false;
}

std::optional<std::uint32_t> RingConsumer::written(std::memory_order order) const {
    return checked(ring_, ring_.control->written.load(order));
}

std::uint32_t RingConsumer::length_at(std::uint32_t offset) const {
    return length_field(ring_, offset).load(std::memory_order_relaxed);
}

void RingConsumer::move_to(std::uint32_t offset) {
    read_ = offset;
    ring_.control->read.store(offset, std::memory_order_release);
}

}  // namespace innet::driver
