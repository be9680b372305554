#include "transport/buffer/streaming_copy.hpp"

#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace innet {

namespace {

void copy_plainly(std::span<const std::uint8_t> from, std::span<std::uint8_t> into) {
    if (!from.empty()) std::memcpy(into.data(), from.data(), from.size());
}

}  // namespace

#ifdef __SSE2__

namespace {

constexpr std::size_t kLineBytes = 64;

}  // namespace

void copy_streaming(std::span<const std::uint8_t> from, std::span<std::uint8_t> into) {
    if (from.size() < kLineBytes) return copy_plainly(from, into);
    const std::size_t begin = -reinterpret_cast<std::uintptr_t>(into.data()) % kLineBytes;
    const std::size_t end = begin + (from.size() - begin) / kLineBytes * kLineBytes;
    copy_plainly(from.first(begin), into);
    for (std::size_t at = begin; at < end; at += kLineBytes) {
        const auto* source = reinterpret_cast<const __m128i*>(&from[at]);
        auto* target = reinterpret_cast<__m128i*>(&into[at]);
        const __m128i a = _mm_loadu_si128(source);
        const __m128i b = _mm_loadu_si128(source + 1);
        const __m128i c = _mm_loadu_si128(source + 2);
        const __m128i d = _mm_loadu_si128(source + 3);
        _mm_stream_si128(target, a);
        _mm_stream_si128(target + 1, b);
        _mm_stream_si128(target + 2, c);
        _mm_stream_si128(target + 3, d);
    }
    _mm_sfence();
    copy_plainly(from.subspan(end), into.subspan(end));
}

#else

void copy_streaming(std::span<const std::uint8_t> from, std::span<std::uint8_t> into) {
    copy_plainly(from, into);
}

#endif

}  // namespace innet
