#pragma once
// The randomness of modelled links and of nonces: the same on every machine, whatever its compiler
// and library.

#include <cstdint>

namespace innet::port {

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014).
class RandomBits {
  public:
    explicit RandomBits(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        state_ += 0x9e3779b97f4a7c15ULL;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31U);
    }
    /// Uniform in [0, 1), in steps of 2^-53.
    double fraction() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }
    /// Uniform in [0, bound); `bound` above 0 and below 2^53.
    std::uint64_t below(std::uint64_t bound) {
        return static_cast<std::uint64_t>(fraction() * static_cast<double>(bound));
    }
    /// Draws nothing for what never happens.
    bool happens(double probability) { return probability > 0.0 && fraction() < probability; }

  private:
    std::uint64_t state_;
};

}  // namespace innet::port
