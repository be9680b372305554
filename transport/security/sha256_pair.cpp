#include "transport/security/sha256_pair.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

// Functions for CPUs with the instructions that `can_digest_pairs` asks for; the rest of the
// program runs anywhere.
#define INNET_SHA __attribute__((target("sha,sse4.1,ssse3")))
#define INNET_SHA_INLINE INNET_SHA __attribute__((always_inline)) inline

namespace innet::security {

namespace {

constexpr std::size_t kBlockSize = 64;
constexpr std::size_t kLengthSize = 8;
constexpr std::uint8_t kEndMark = 0x80;
constexpr std::size_t kRounds = 64;
constexpr std::size_t kRoundsAtOnce = 4;

/// FIPS 180-4, section 4.2.2: of the cube roots of the first 64 primes.
alignas(16) constexpr std::array<std::uint32_t, kRounds> kConstants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// The state between two blocks as the instructions have it: A, B, E, F and C, D, G, H, the last in
/// the lowest place. Section 5.3.3 has its first value.
struct State {
    __m128i abef = _mm_set_epi32(0x6a09e667, static_cast<int>(0xbb67ae85), 0x510e527f,
                                 static_cast<int>(0x9b05688c));
    __m128i cdgh = _mm_set_epi32(0x3c6ef372, static_cast<int>(0xa54ff53a), 0x1f83d9ab, 0x5be0cd19);
};

/// A message's blocks, with its padding (section 5.1.1), where they lie if they do in one piece.
class Blocks {
  public:
    explicit Blocks(std::span<const wire::ByteView> parts) : parts_(parts) { refill(); }
    Blocks(const Blocks&) = delete;  // `run_` may be its own
    Blocks& operator=(const Blocks&) = delete;

    /// How many blocks lie at `data()`; 0 at the message's end.
    std::size_t count() const { return run_.size() / kBlockSize; }
    const std::uint8_t* data() const { return run_.data(); }

    void skip(std::size_t blocks) {
        run_ = run_.subspan(blocks * kBlockSize);
        if (run_.empty() && !padded_) refill();
    }

  private:
    void refill() {
        while (!parts_.empty() && offset_ == parts_.front().size()) next_part();
        if (!parts_.empty() && parts_.front().size() - offset_ >= kBlockSize) {
            const std::size_t whole = (parts_.front().size() - offset_) / kBlockSize * kBlockSize;
            run_ = parts_.front().subspan(offset_, whole);
            offset_ += whole;
            length_ += whole;
            return;
        }
        gather();
    }

    /// A block of several parts, or the end.
    void gather() {
        std::size_t filled = 0;
        while (filled < kBlockSize && !parts_.empty()) {
            const std::size_t size = std::min(kBlockSize - filled, parts_.front().size() - offset_);
            std::ranges::copy(parts_.front().subspan(offset_, size), gathered_.begin() + filled);
            filled += size;
            offset_ += size;
            if (offset_ == parts_.front().size()) next_part();
        }
        length_ += filled;
        run_ = std::span(gathered_).first(filled == kBlockSize ? kBlockSize : pad(filled));
    }

    std::size_t pad(std::size_t filled) {
        padded_ = true;
        const std::size_t end =
            filled + 1 + kLengthSize <= kBlockSize ? kBlockSize : 2 * kBlockSize;
        std::ranges::fill(std::span(gathered_).subspan(filled, end - filled), std::uint8_t{0});
        gathered_[filled] = kEndMark;
        for (std::size_t i = 0; i < kLengthSize; ++i) {
            gathered_[end - 1 - i] = static_cast<std::uint8_t>(8 * length_ >> 8 * i);
        }
        return end;
    }

    void next_part() {
        parts_ = parts_.subspan(1);
        offset_ = 0;
    }

    std::span<const wire::ByteView> parts_;
    std::size_t offset_ = 0;  ///< in the first of them
    std::uint64_t length_ = 0;
    wire::ByteView run_;
    std::array<std::uint8_t, 2 * kBlockSize> gathered_{};
    bool padded_ = false;
};

INNET_SHA_INLINE __m128i load_words(const std::uint8_t* bytes) {
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    return _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)), big_endian);
}

/// Section 6.2.2 for `count` blocks of each of `Lanes` messages.
template <std::size_t Lanes>
INNET_SHA void compress(std::array<State*, Lanes> states,
                        std::array<const std::uint8_t*, Lanes> data, std::size_t count) {
    constexpr std::size_t kWords = 4;  // registers with the last 16 words of the schedule
    std::array<State, Lanes> now;
    for (std::size_t lane = 0; lane < Lanes; ++lane) now[lane] = *states[lane];
    for (; count > 0; --count) {
        const std::array<State, Lanes> before = now;
        __m128i words[Lanes][kWords];
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            for (std::size_t i = 0; i < kWords; ++i) {
                words[lane][i] = load_words(data[lane] + 16 * i);
            }
            data[lane] += kBlockSize;
        }
#pragma GCC unroll 16
        for (std::size_t step = 0; step < kRounds / kRoundsAtOnce; ++step) {
            const __m128i constants =
                _mm_load_si128(reinterpret_cast<const __m128i*>(&kConstants[kRoundsAtOnce * step]));
#pragma GCC unroll 2
            for (std::size_t lane = 0; lane < Lanes; ++lane) {
                auto& [abef, cdgh] = now[lane];
                auto& schedule = words[lane];
                __m128i& current = schedule[step % kWords];
                const __m128i sum = _mm_add_epi32(current, constants);
                cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
                abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
                if (step + kWords >= kRounds / kRoundsAtOnce) continue;
                const __m128i last = schedule[(step + 3) % kWords];
                const __m128i seventh = _mm_alignr_epi8(last, schedule[(step + 2) % kWords], 4);
                const __m128i begun = _mm_sha256msg1_epu32(current, schedule[(step + 1) % kWords]);
                current = _mm_sha256msg2_epu32(_mm_add_epi32(begun, seventh), last);
            }
        }
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            now[lane].abef = _mm_add_epi32(now[lane].abef, before[lane].abef);
            now[lane].cdgh = _mm_add_epi32(now[lane].cdgh, before[lane].cdgh);
        }
    }
    for (std::size_t lane = 0; lane < Lanes; ++lane) *states[lane] = now[lane];
}

INNET_SHA Sha256Digest digest_of(const State& state) {
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const __m128i feba = _mm_shuffle_epi32(state.abef, 0x1b);
    const __m128i dchg = _mm_shuffle_epi32(state.cdgh, 0xb1);
    Sha256Digest digest;
    auto* const halves = reinterpret_cast<__m128i*>(digest.data());
    _mm_storeu_si128(halves, _mm_shuffle_epi8(_mm_blend_epi16(feba, dchg, 0xf0), big_endian));
    _mm_storeu_si128(halves + 1, _mm_shuffle_epi8(_mm_alignr_epi8(dchg, feba, 8), big_endian));
    return digest;
}

void finish(State& state, Blocks& blocks) {
    for (std::size_t count = blocks.count(); count > 0; count = blocks.count()) {
        compress<1>({&state}, {blocks.data()}, count);
        blocks.skip(count);
    }
}

}  // namespace

bool can_digest_pairs() {
    static const bool can = [] {
        constexpr unsigned kExtendedFeatures = 7;
        unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
        return __get_cpuid_count(kExtendedFeatures, 0, &eax, &ebx, &ecx, &edx) == 1 &&
               (ebx & bit_SHA) != 0 && __builtin_cpu_supports("sse4.1") &&
               __builtin_cpu_supports("ssse3");
    }();
    return can;
}

std::array<Sha256Digest, 2> digest_pair(std::span<const wire::ByteView> first,
                                        std::span<const wire::ByteView> second) {
    std::array<Blocks, 2> blocks{Blocks(first), Blocks(second)};
    std::array<State, 2> states;
    while (const std::size_t both = std::min(blocks[0].count(), blocks[1].count())) {
        compress<2>({&states[0], &states[1]}, {blocks[0].data(), blocks[1].data()}, both);
        for (Blocks& message : blocks) message.skip(both);
    }
    for (std::size_t i = 0; i < states.size(); ++i) finish(states[i], blocks[i]);
    return {digest_of(states[0]), digest_of(states[1])};
}

}  // namespace innet::security

#else

namespace innet::security {

bool can_digest_pairs() { return false; }

std::array<Sha256Digest, 2> digest_pair(std::span<const wire::ByteView>,
                                        std::span<const wire::ByteView>) {
    std::abort();
}

}  // namespace innet::security

#endif
