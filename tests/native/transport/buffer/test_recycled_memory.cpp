// Memory of objects that was given back, and is used again.

#include <doctest/doctest.h>

#include <vector>

#include "transport/buffer/recycled_memory.hpp"

using namespace innet;

namespace {

/// The pool is the process's: sizes of our own keep others out.
constexpr std::size_t kSize = 777'777;

}  // namespace

TEST_CASE("a released buffer is reused for about the same size only") {
    RecycledMemory& memory = RecycledMemory::shared();
    RecycledMemory::Piece piece = memory.take(kSize);
    std::uint8_t* const place = piece.get();
    const std::size_t idle_bytes = memory.idle_bytes();
    piece.reset();
    CHECK(memory.idle_bytes() >= idle_bytes + kSize);
    CHECK(memory.take(kSize / 2).get() != place);
    CHECK(memory.take(kSize - 1).get() == place);
}

TEST_CASE("the free list of buffers is bounded, and other sizes evict") {
    RecycledMemory& memory = RecycledMemory::shared();
    for (const std::size_t size : {kSize, 3 * kSize}) {
        std::vector<RecycledMemory::Piece> pieces;
        for (std::size_t bytes = 0; bytes < 2 * RecycledMemory::kMaxIdleBytes; bytes += size) {
            pieces.push_back(memory.take(size));
        }
        pieces.clear();
        const std::size_t idle_bytes = memory.idle_bytes();
        CHECK(idle_bytes <= RecycledMemory::kMaxIdleBytes);
        CHECK(idle_bytes >= RecycledMemory::kMaxIdleBytes - 2 * size);
        const RecycledMemory::Piece again = memory.take(size);
        CHECK(memory.idle_bytes() <= idle_bytes - size);
    }
}

TEST_CASE("an empty buffer can be allocated, one beyond the memory cannot") {
    CHECK(RecycledMemory::shared().take(0) != nullptr);
    CHECK(RecycledMemory::shared().take(~std::size_t{0}) == nullptr);
    CHECK(RecycledMemory::shared().take(~std::size_t{0} / 2) == nullptr);
}

TEST_CASE("a small buffer takes little more than its bytes") {
    RecycledMemory& memory = RecycledMemory::shared();
    for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{1025}}) {
        RecycledMemory::Piece piece = memory.take(size);
        const std::size_t idle_bytes = memory.idle_bytes();
        piece.reset();
        CHECK(memory.idle_bytes() - idle_bytes < size + 64);
    }
}
