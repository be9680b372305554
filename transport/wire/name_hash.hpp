#pragma once
// Keyed hash of names and their prefixes: SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast
// short-input PRF", 2012) of a name's bytes.

#include <bit>
#include <cstdint>
#include <cstring>

#include "transport/wire/tlv.hpp"

namespace innet::wire {

/// Hash of a name or of one of its prefixes. It means nothing outside this process.
using NameHash = std::uint64_t;

/// A peer that knows the key can choose names that share a bucket of every table.
struct NameHashKey {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
};

/// Replaces the key of the process, which is a fixed one until then. No table may hold hashes under
/// the old key: a program calls it first, with random numbers.
void set_name_hash_key(const NameHashKey& key);

/// The four words of SipHash, for callers that split a message into words themselves. Trivial, so
/// that arrays of them cost nothing before they are used.
struct SipWords {
    static constexpr std::size_t kSize = 8;

    static constexpr SipWords under(const NameHashKey& key) {
        return {key.first ^ 0x736f6d6570736575ULL, key.second ^ 0x646f72616e646f6dULL,
                key.first ^ 0x6c7967656e657261ULL, key.second ^ 0x7465646279746573ULL};
    }

    static std::uint64_t load(const std::uint8_t* bytes) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes, sizeof word);
        return word;
    }

    /// The first `size` (0 to 7) bytes as a little-endian number. Overlapping loads agree where
    /// they overlap, because each is shifted to its place.
    static std::uint64_t load(const std::uint8_t* bytes, std::size_t size) {
        if (size >= 4) {
            std::uint32_t first = 0;
            std::uint32_t last = 0;
            std::memcpy(&first, bytes, sizeof first);
            std::memcpy(&last, bytes + size - sizeof last, sizeof last);
            return first | std::uint64_t{last} << (8 * (size - sizeof last));
        }
        if (size == 0) return 0;
        return bytes[0] | std::uint64_t{bytes[size / 2]} << (8 * (size / 2)) |
               std::uint64_t{bytes[size - 1]} << (8 * (size - 1));
    }

    void compress(std::uint64_t word) {
        v3 ^= word;
        round();
        v0 ^= word;
    }

    /// Hash of a message of `size` bytes, of which `tail` are the last `size % 8`.
    NameHash finished(std::uint64_t tail, std::size_t size) const {
        SipWords last = *this;
        last.compress(tail | std::uint64_t{size} << 56);
        last.v2 ^= 0xff;
        last.round();
        last.round();
        last.round();
        return last.v0 ^ last.v1 ^ last.v2 ^ last.v3;
    }

    void round() {
        v0 += v1;
        v2 += v3;
        v1 = std::rotl(v1, 13) ^ v0;
        v3 = std::rotl(v3, 16) ^ v2;
        v0 = std::rotl(v0, 32);
        v2 += v1;
        v0 += v3;
        v1 = std::rotl(v1, 17) ^ v2;
        v3 = std::rotl(v3, 21) ^ v0;
        v2 = std::rotl(v2, 32);
    }

    std::uint64_t v0;
    std::uint64_t v1;
    std::uint64_t v2;
    std::uint64_t v3;
};

/// The start of every hash under the key of the process.
SipWords sip_start();

/// A hash under way: may be copied after a prefix, and continued with different components.
class NameHasher {
  public:
    /// Appends whole components, given with their types and lengths. The encoding separates
    /// components, so different names are different messages.
    void add(ByteView components) {
        const std::uint8_t* bytes = components.data();
        std::size_t left = components.size();
        const std::size_t filled = size_ % SipWords::kSize;
        size_ += left;
        if (filled + left < SipWords::kSize) {
            tail_ |= SipWords::load(bytes, left) << (8 * filled);
            return;
        }
        if (filled != 0) {
            const std::size_t taken = SipWords::kSize - filled;
            words_.compress(tail_ | SipWords::load(bytes, taken) << (8 * filled));
            bytes += taken;
            left -= taken;
        }
        for (; left >= SipWords::kSize; bytes += SipWords::kSize, left -= SipWords::kSize) {
            words_.compress(SipWords::load(bytes));
        }
        tail_ = SipWords::load(bytes, left);
    }

    /// Hash of the components added so far. More may be added afterwards.
    NameHash hash() const { return words_.finished(tail_, size_); }

  private:
    SipWords words_ = sip_start();
    std::uint64_t tail_ = 0;  ///< bytes since the last whole word
    std::size_t size_ = 0;    ///< bytes added
};

/// Hash of the name or prefix with these bytes.
inline NameHash hash_name(ByteView components) {
    NameHasher hasher;
    hasher.add(components);
    return hasher.hash();
}

}  // namespace innet::wire
