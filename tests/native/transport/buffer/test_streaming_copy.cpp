// Copies past the caches.

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "transport/buffer/streaming_copy.hpp"

using namespace innet;

namespace {

constexpr std::uint8_t kUntouched = 0xA5;
constexpr std::size_t kMargin = 128;

}  // namespace

TEST_CASE("a streaming copy writes its bytes at any alignment, and no others") {
    for (const std::size_t size : {0U, 1U, 63U, 64U, 65U, 127U, 128U, 191U, 4096U, 8971U, 65536U}) {
        std::vector<std::uint8_t> source(size + kMargin);
        std::iota(source.begin(), source.end(), std::uint8_t{1});
        for (const std::size_t offset : {0U, 1U, 7U, 16U, 63U}) {
            CAPTURE(size);
            CAPTURE(offset);
            const std::span from = std::span(source).subspan(offset, size);
            std::vector<std::uint8_t> target(size + 2 * kMargin, kUntouched);
            copy_streaming(from, std::span(target).subspan(kMargin - offset));
            const auto begin = target.begin() + static_cast<std::ptrdiff_t>(kMargin - offset);
            const auto end = begin + static_cast<std::ptrdiff_t>(size);
            const auto untouched = [](std::uint8_t byte) { return byte == kUntouched; };
            CHECK(std::equal(from.begin(), from.end(), begin));
            CHECK(std::all_of(target.begin(), begin, untouched));
            CHECK(std::all_of(end, target.end(), untouched));
        }
    }
}
