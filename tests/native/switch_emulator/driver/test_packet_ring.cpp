// The ring between two processes: what is put in comes out, and a hostile end does no harm.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "switch_emulator/driver/packet_ring.hpp"
#include "transport/buffer/packet_ref.hpp"

using namespace innet;
using namespace innet::driver;

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes packet(std::size_t number, std::size_t size) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(number + i);
    return bytes;
}

struct AlignedDeleter {
    void operator()(std::uint8_t* bytes) const {
        ::operator delete[](bytes, std::align_val_t{RingControl::kCacheLineBytes});
    }
};

/// A ring's memory, and ends that come to it.
struct RingUnderTest {
    explicit RingUnderTest(std::size_t size = RingMemory::kMinBytes)
        : bytes(new (std::align_val_t{RingControl::kCacheLineBytes}) std::uint8_t[size]()),
          memory{&control, {bytes.get(), size}} {}

    bool put(const Bytes& whole) {
        const auto all = std::span(whole);
        const std::size_t head = std::min<std::size_t>(whole.size() / 2, 90);
        return producer.push({all.first(head), all.subspan(head)});
    }
    /// The next packet; none: empty.
    Bytes take() {
        const auto front = consumer.front();
        Bytes copy(front.begin(), front.end());
        if (!copy.empty()) consumer.pop();
        return copy;
    }
    std::atomic_ref<std::uint32_t> word(std::size_t offset) {
        return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(&bytes[offset]));
    }

    RingControl control;
    std::unique_ptr<std::uint8_t[], AlignedDeleter> bytes;
    RingMemory memory;
    RingProducer producer{memory};
    RingConsumer consumer{memory};
};

}  // namespace

TEST_CASE("packets of every size pass a ring unchanged and in order, round after round") {
    RingUnderTest test;
    std::size_t put = 0;
    std::size_t taken = 0;
    const auto size_of = [](std::size_t number) { return 1 + number * 997 % kMaxPacketBytes; };
    while (taken < 1000) {
        while (test.put(packet(put, size_of(put)))) ++put;
        REQUIRE(put > taken);  // it is never full of nothing
        // Leaves some of them, so that the end is met in all ways.
        for (std::size_t rest = 1 + (put - taken) * (taken % 4) / 4; rest > 0; --rest) {
            const bool same = test.take() == packet(taken, size_of(taken));
            REQUIRE(same);
            ++taken;
        }
    }
    for (; taken < put; ++taken) REQUIRE(test.take() == packet(taken, size_of(taken)));
    CHECK(test.take().empty());
    CHECK(test.consumer.bad_framing() == 0);
}

TEST_CASE("all sizes from one byte to the largest packet pass") {
    RingUnderTest test;
    for (std::size_t size = 1; size <= kMaxPacketBytes; size += size < 300 ? 1 : 61) {
        REQUIRE(test.put(packet(size, size)));
        const bool same = test.take() == packet(size, size);
        REQUIRE(same);
    }
    REQUIRE(test.put(packet(1, kMaxPacketBytes)));
    CHECK(test.take().size() == kMaxPacketBytes);
}

TEST_CASE("a link with little traffic touches little of its ring") {
    RingUnderTest test(std::size_t{1} << 22);
    for (int i = 0; i < 1000; ++i) {
        REQUIRE(test.put(packet(1, 9000)));
        CHECK(test.take().size() == 9000);
    }
    const auto untouched = std::span(test.bytes.get(), test.memory.bytes.size()).subspan(1 << 20);
    CHECK(std::ranges::all_of(untouched, [](std::uint8_t byte) { return byte == 0; }));
}

TEST_CASE("a waiting producer is notified once, when there is enough room") {
    RingUnderTest test;
    std::size_t put = 0;
    while (test.put(packet(put, 1000))) ++put;
    CHECK_FALSE(test.consumer.take_waiting_producer());  // it does not wait yet
    REQUIRE(test.producer.wait_for_room());
    CHECK_FALSE(test.consumer.take_waiting_producer());
    std::size_t taken = 0;
    while (!test.consumer.take_waiting_producer()) {
        REQUIRE_FALSE(test.take().empty());
        ++taken;
    }
    CHECK(taken > put / 3);
    CHECK(taken < put);
    CHECK_FALSE(test.consumer.take_waiting_producer());
    CHECK(test.put(packet(put, 1000)));
}

TEST_CASE("a producer does not wait for room that is already free") {
    RingUnderTest test;
    while (test.put(packet(0, 1000))) {
    }
    while (!test.take().empty()) {
    }
    CHECK_FALSE(test.producer.wait_for_room());
    CHECK(test.put(packet(0, 1000)));
}

TEST_CASE("a consumer that sleeps is woken up once, and never sleeps beside a packet") {
    RingUnderTest test;
    CHECK_FALSE(test.producer.take_sleeping_consumer());
    REQUIRE(test.consumer.sleep());
    REQUIRE(test.put(packet(0, 10)));
    CHECK(test.producer.take_sleeping_consumer());
    CHECK_FALSE(test.producer.take_sleeping_consumer());
    CHECK_FALSE(test.consumer.sleep());
    CHECK_FALSE(test.take().empty());
    CHECK(test.consumer.sleep());
}

TEST_CASE("new ends of a ring continue where the earlier ones stopped") {
    RingUnderTest test;
    for (std::size_t i = 0; i < 3; ++i) REQUIRE(test.put(packet(i, 500)));
    CHECK(test.take() == packet(0, 500));
    test.producer = RingProducer(test.memory);
    test.consumer = RingConsumer(test.memory);
    REQUIRE(test.put(packet(3, 500)));
    for (std::size_t i = 1; i < 4; ++i) CHECK(test.take() == packet(i, 500));
    CHECK(test.take().empty());
}

TEST_CASE("an impossible length discards the ring's contents, and later packets pass") {
    for (const std::uint32_t length :
         {std::uint32_t{0}, std::uint32_t{2000}, static_cast<std::uint32_t>(kMaxPacketBytes) + 1,
          0x7fff'ffffU, 0xffff'fffeU, 0xffff'ffffU}) {
        CAPTURE(length);
        RingUnderTest test;
        REQUIRE(test.put(packet(0, 500)));
        REQUIRE(test.put(packet(1, 500)));
        test.word(0).store(length);
        CHECK(test.take().empty());
        CHECK(test.consumer.bad_framing() == 1);
        REQUIRE(test.put(packet(2, 500)));
        CHECK(test.take() == packet(2, 500));
    }
}

TEST_CASE("a peer's invalid ring position does no harm") {
    std::mt19937 generator(7);
    const auto random = [&] { return static_cast<std::uint32_t>(generator()); };
    RingUnderTest test;
    constexpr std::uint32_t kPlaces = RingMemory::kMinBytes / 64;
    const auto lie = [&](std::atomic<std::uint32_t>& place) {
        std::uint32_t offset = random();
        if (offset % 4 != 0) offset = offset % kPlaces * 64;  // possible
        place.store(offset);
    };
    std::size_t taken = 0;
    const Bytes largest = packet(0, kMaxPacketBytes);
    for (int i = 0; i < 5000; ++i) {
        lie(test.control.read);
        const auto sent = std::span(largest).first(1 + random() % kMaxPacketBytes);
        if (!test.producer.push({sent})) test.producer.wait_for_room();
        if (i % 2 == 0) lie(test.control.written);
        if (i % 3 == 0) test.word(random() % kPlaces * 64).store(random());
        for (int k = 0; k < 4; ++k) taken += test.take().empty() ? 0 : 1;
        test.consumer.take_waiting_producer();
        if (i % 100 == 0) test.consumer = RingConsumer(test.memory);
        if (i % 150 == 0) test.producer = RingProducer(test.memory);
    }
    CHECK(taken > 0);
    // Who then keeps to the rules is understood again.
    test.producer = RingProducer(test.memory);
    test.consumer = RingConsumer(test.memory);
    while (!test.take().empty()) {
    }
    test.take();  // what could not be cut is gone
    REQUIRE(test.put(packet(9, 700)));
    Bytes last;
    for (Bytes next = test.take(); !next.empty(); next = test.take()) last = next;
    CHECK(last == packet(9, 700));
}

TEST_CASE("two threads move packets through a ring and learn what the other waits for") {
    constexpr std::size_t kPackets = 100'000;
    RingUnderTest test;
    std::atomic<std::uint64_t> wake_ups = 0;  // of the consumer
    std::atomic<std::uint64_t> rooms = 0;     // told to the producer
    const auto size_of = [](std::size_t number) {
        return number % 1000 == 0 ? kMaxPacketBytes : 8 + number * 31 % 1000;
    };
    std::thread producing([&] {
        std::uint64_t rooms_seen = 0;
        for (std::size_t i = 0; i < kPackets; ++i) {
            Bytes bytes(size_of(i), static_cast<std::uint8_t>(i));
            std::memcpy(bytes.data(), &i, sizeof i);
            while (!test.put(bytes)) {
                if (!test.producer.wait_for_room()) continue;
                rooms.wait(rooms_seen);
                rooms_seen = rooms.load();
            }
            if (test.producer.take_sleeping_consumer()) {
                ++wake_ups;
                wake_ups.notify_one();
            }
        }
    });
    std::size_t wrong = 0;
    std::uint64_t wake_ups_seen = 0;
    for (std::size_t i = 0; i < kPackets;) {
        const Bytes bytes = test.take();
        if (test.consumer.take_waiting_producer()) {
            ++rooms;
            rooms.notify_one();
        }
        if (bytes.empty()) {
            if (!test.consumer.sleep()) continue;
            wake_ups.wait(wake_ups_seen);
            wake_ups_seen = wake_ups.load();
            test.consumer.wake();
            continue;
        }
        std::size_t number = 0;
        std::memcpy(&number, bytes.data(), sizeof number);
        const auto fill = static_cast<std::uint8_t>(i);
        const bool same = number == i && bytes.size() == size_of(i) &&
                          std::all_of(bytes.begin() + sizeof number, bytes.end(),
                                      [&](std::uint8_t byte) { return byte == fill; });
        wrong += same ? 0 : 1;
        ++i;
    }
    producing.join();
    CHECK(wrong == 0);
    CHECK(test.consumer.bad_framing() == 0);
}
