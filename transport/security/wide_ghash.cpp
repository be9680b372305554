#include "transport/security/wide_ghash.hpp"

#include <algorithm>
#include <cstdlib>

#if defined(__x86_64__) && defined(__GNUC__)
// GCC 12 takes registers that intrinsics leave undefined on purpose for mistakes (its bug 105593).
#pragma GCC diagnostic push
#ifndef __clang__  // which has no such mistakes, nor the second warning
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

// RFC 8452, appendix A: GHASH is POLYVAL over byte-reversed blocks, with the subkey multiplied by
// x. POLYVAL's numbers lie in registers as the CPU multiplies them. Its product is a * b * x^-128,
// whose reduction takes two carry-less multiplications. Many blocks share one reduction: with n
// blocks, the first is multiplied by the subkey's nth power and the last by its first (Gueron and
// Kounavis, "Intel carry-less multiplication instruction and its usage for computing the GCM mode",
// 2014, "aggregated reduction").

// Functions for CPUs with the instructions that `supported` asks for; the rest of the program runs
// anywhere.
#define INNET_WIDE __attribute__((target("avx512f,avx512bw,avx512vl,pclmul,vpclmulqdq")))
#define INNET_WIDE_INLINE INNET_WIDE __attribute__((always_inline)) inline

namespace innet::security {

namespace {

/// The 256-bit product of two numbers of 128 bits, whose middle is still to be added to both
/// halves; in each lane one.
struct WideProducts {
    __m512i low;
    __m512i middle;
    __m512i high;
};

INNET_WIDE_INLINE __m128i load_block(const std::uint8_t* bytes) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

INNET_WIDE_INLINE __m128i byte_reversed(__m128i block) {
    return _mm_shuffle_epi8(block,
                            _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

INNET_WIDE_INLINE __m512i byte_reversed_lanes(__m512i blocks) {
    const __m128i order = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_shuffle_epi8(blocks, _mm512_broadcast_i32x4(order));
}

INNET_WIDE_INLINE void add_products(WideProducts& sum, __m512i a, __m512i b) {
    constexpr int kXorOfThree = 0x96;
    sum.low = _mm512_xor_si512(sum.low, _mm512_clmulepi64_epi128(a, b, 0x00));
    sum.high = _mm512_xor_si512(sum.high, _mm512_clmulepi64_epi128(a, b, 0x11));
    sum.middle = _mm512_ternarylogic_epi64(sum.middle, _mm512_clmulepi64_epi128(a, b, 0x01),
                                           _mm512_clmulepi64_epi128(a, b, 0x10), kXorOfThree);
}

INNET_WIDE_INLINE __m128i sum_of_lanes(__m512i lanes) {
    const __m256i halves =
        _mm256_xor_si256(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64(lanes, 1));
    return _mm_xor_si128(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
}

/// The sum of all lanes' products, times x^-128, modulo POLYVAL's x^128 + x^127 + x^126 + x^121
/// + 1.
INNET_WIDE_INLINE __m128i reduced(const WideProducts& products) {
    const __m128i middle = sum_of_lanes(products.middle);
    __m128i low = _mm_xor_si128(sum_of_lanes(products.low), _mm_slli_si128(middle, 8));
    const __m128i high = _mm_xor_si128(sum_of_lanes(products.high), _mm_srli_si128(middle, 8));
    const __m128i polynomial = _mm_set_epi64x(0, static_cast<long long>(0xc200000000000000ULL));
    for (int half = 0; half < 2; ++half) {
        const __m128i multiple = _mm_clmulepi64_si128(low, polynomial, 0x00);
        low = _mm_xor_si128(_mm_shuffle_epi32(low, 0x4e), multiple);
    }
    return _mm_xor_si128(low, high);
}

/// POLYVAL's state after `size` more bytes; `powers` begins with the power for the first of them.
/// The rest of the last block counts as zeros.
INNET_WIDE_INLINE __m128i absorb(__m128i state, const std::uint8_t* bytes, std::size_t size,
                                 const std::uint8_t* powers) {
    // The state depends on the previous batch: it has a product of its own, so that the other
    // products do not wait for it.
    WideProducts sum{};
    const __m512i of_state = _mm512_zextsi128_si512(state);
    add_products(sum, of_state, _mm512_zextsi128_si512(load_block(powers)));
    WideProducts rest{};
    for (; size >= sizeof(__m512i); size -= sizeof(__m512i)) {
        add_products(rest, byte_reversed_lanes(_mm512_loadu_si512(bytes)),
                     _mm512_loadu_si512(powers));
        bytes += sizeof(__m512i);
        powers += sizeof(__m512i);
    }
    if (size != 0) {
        const __mmask64 there = (__mmask64{1} << size) - 1;
        add_products(rest, byte_reversed_lanes(_mm512_maskz_loadu_epi8(there, bytes)),
                     _mm512_loadu_si512(powers));
    }
    sum.low = _mm512_xor_si512(sum.low, rest.low);
    sum.middle = _mm512_xor_si512(sum.middle, rest.middle);
    sum.high = _mm512_xor_si512(sum.high, rest.high);
    return reduced(sum);
}

/// `number` times x, modulo POLYVAL's polynomial.
INNET_WIDE_INLINE __m128i times_x(__m128i number) {
    const __m128i carries = _mm_srli_epi64(number, 63);
    const __m128i shifted = _mm_or_si128(_mm_slli_epi64(number, 1), _mm_slli_si128(carries, 8));
    const __m128i overflow = _mm_sub_epi64(_mm_setzero_si128(), _mm_srli_si128(carries, 8));
    const __m128i polynomial = _mm_set_epi64x(static_cast<long long>(0xc200000000000000ULL), 1);
    return _mm_xor_si128(shifted, _mm_and_si128(_mm_broadcastq_epi64(overflow), polynomial));
}

}  // namespace

bool WideGhash::supported() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("pclmul") &&
           __builtin_cpu_supports("vpclmulqdq");
}

// Constructors do not take the target attribute.
WideGhash::WideGhash(const GhashBlock& subkey) { raise_to_powers(subkey); }

INNET_WIDE void WideGhash::raise_to_powers(const GhashBlock& subkey) {
    const __m128i first = times_x(byte_reversed(load_block(subkey.data())));
    __m128i power = first;
    for (std::size_t place = kPowers; place-- > 0;) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(&powers_[place * kGhashBlockSize]), power);
        WideProducts product{};
        add_products(product, _mm512_zextsi128_si512(power), _mm512_zextsi128_si512(first));
        power = reduced(product);
    }
}

INNET_WIDE GhashBlock WideGhash::hash(wire::ByteView message) const {
    constexpr std::size_t kBatch = kPowers * kGhashBlockSize;
    const std::uint8_t* bytes = message.data();
    std::size_t left = message.size();
    __m128i state = _mm_setzero_si128();
    while (left != 0) {
        const std::size_t size = std::min(left, kBatch);
        const std::size_t blocks = (size + kGhashBlockSize - 1) / kGhashBlockSize;
        state = absorb(state, bytes, size, &powers_[(kPowers - blocks) * kGhashBlockSize]);
        bytes += size;
        left -= size;
    }
    // Lengths in bits: of the associated data in the first half of the block, of nothing in the
    // other.
    const __m128i lengths = _mm_set_epi64x(static_cast<long long>(message.size()) * 8, 0);
    WideProducts last{};
    add_products(last, _mm512_zextsi128_si512(_mm_xor_si128(state, lengths)),
                 _mm512_zextsi128_si512(load_block(&powers_[(kPowers - 1) * kGhashBlockSize])));
    GhashBlock hash;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(hash.data()), byte_reversed(reduced(last)));
    return hash;
}

}  // namespace innet::security

#else

namespace innet::security {

bool WideGhash::supported() { return false; }
WideGhash::WideGhash(const GhashBlock&) { std::abort(); }
GhashBlock WideGhash::hash(wire::ByteView) const { std::abort(); }

}  // namespace innet::security

#endif
