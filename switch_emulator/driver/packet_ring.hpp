#pragma once
// A queue of packets in memory that two processes share: a producer and a consumer, which make no
// system calls while the other end keeps up.
//
// The other end may be hostile, or die at any moment. So each end keeps a private copy of its own
// position and publishes it; it reads the other's position once and checks it; and a consumer that
// finds an invalid record drops all records in the ring, and continues with the next one.
//
// A packet is contiguous: its length, its bytes, and padding. A packet that does not fit before the
// end of the ring is written at the beginning, and a wrap mark takes its place. An empty ring also
// restarts at the beginning after some distance, so a link with little traffic touches few pages.

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>

namespace innet::driver {

/// What both ends of a ring know of each other; all zero at first. Offsets are in bytes. One cache
/// line for what each of them writes.
struct RingControl {
    static constexpr std::size_t kCacheLineBytes = 64;

    alignas(kCacheLineBytes) std::atomic<std::uint32_t> written = 0;  ///< offset of the next packet
    std::atomic<std::uint32_t> producer_waits = 0;                    ///< for room
    alignas(kCacheLineBytes) std::atomic<std::uint32_t> read = 0;     ///< where the next is taken
    std::atomic<std::uint32_t> consumer_sleeps = 0;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "a lock would be one process's own");
static_assert(std::atomic_ref<std::uint32_t>::is_always_lock_free);

/// The memory of a ring of `bytes` bytes: a power of two, so that 32 bits have room for offsets.
struct RingMemory {
    static constexpr std::size_t kMinBytes = std::size_t{1} << 18;
    static constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

    RingControl* control = nullptr;
    std::span<std::uint8_t> bytes;  ///< aligned to a cache line
};

/// Goes on behind what the ring holds already.
class RingProducer {
  public:
    explicit RingProducer(RingMemory ring);

    /// Copies a packet's parts into the ring, of `kMaxPacketBytes` at most together. False when
    /// there is no room.
    bool push(std::initializer_list<std::span<const std::uint8_t>> parts);
    /// Whether the consumer sleeps since the last call, and has to be woken up.
    bool take_sleeping_consumer();
    /// After `push` found no room: requests a wake-up from the consumer. False when there is room
    /// now.
    bool wait_for_room();

  private:
    std::optional<std::uint32_t> place_for(std::uint32_t record_bytes) const;

    RingMemory ring_;
    std::uint32_t written_;
    std::uint32_t refused_record_bytes_ = 0;  ///< what `push` had no room for
};

/// Continues where the previous consumer stopped, like a new reader of an existing socket.
class RingConsumer {
  public:
    explicit RingConsumer(RingMemory ring);

    /// The next packet; none: empty. Its bytes may change at any time: copy them before looking.
    std::span<const std::uint8_t> front();
    /// Takes what `front` gave.
    void pop();
    /// Whether the producer waits for room, and there is enough to tell it.
    bool take_waiting_producer();
    /// Marks the consumer as sleeping for the producer. False when the ring holds a packet already:
    /// the consumer stays awake then.
    bool sleep();
    void wake() { ring_.control->consumer_sleeps.store(0, std::memory_order_relaxed); }
    /// How often what lay in the ring could not be cut into packets.
    std::uint64_t bad_framing() const { return bad_framing_; }

  private:
    std::optional<std::uint32_t> written(std::memory_order order) const;
    std::uint32_t length_at(std::uint32_t offset) const;
    void move_to(std::uint32_t offset);

    RingMemory ring_;
    std::uint32_t read_;
    std::uint32_t front_record_bytes_ = 0;
    std::uint64_t bad_framing_ = 0;
};

}  // namespace innet::driver
