#pragma once
// Packets for tests: from hex, and element by element, malformed ones included.

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "transport/wire/tlv.hpp"

namespace innet::test {

using Bytes = std::vector<std::uint8_t>;

/// Bytes of `hex`, in which blanks are skipped.
inline Bytes from_hex(std::string_view hex) {
    Bytes bytes;
    int high = -1;
    for (const char digit : hex) {
        if (digit == ' ' || digit == '\n') continue;
        const int value = digit <= '9' ? digit - '0' : digit - 'a' + 10;
        if (high < 0) {
            high = value;
        } else {
            bytes.push_back(static_cast<std::uint8_t>(high << 4 | value));
            high = -1;
        }
    }
    return bytes;
}

inline Bytes text(std::string_view characters) { return {characters.begin(), characters.end()}; }

inline Bytes join(std::initializer_list<Bytes> parts) {
    Bytes all;
    for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
}

/// An element of `type` around `parts`.
inline Bytes tlv(std::uint32_t type, std::initializer_list<Bytes> parts = {}) {
    const Bytes value = join(parts);
    Bytes whole(wire::element_size(type, value.size()));
    wire::Writer writer{std::span(whole)};
    writer.element(type, value);
    return whole;
}

/// `/a`.
inline Bytes short_name() { return tlv(wire::kName, {tlv(wire::kGenericComponent, {text("a")})}); }

}  // namespace innet::test
