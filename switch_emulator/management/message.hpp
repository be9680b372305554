#pragma once
// Building messages of the management protocol: elements whose sizes are not known in advance.

#include <cstdint>
#include <string_view>
#include <vector>

#include "transport/wire/name.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::management {

using Bytes = std::vector<std::uint8_t>;

/// TLV-TYPE numbers of NFD's management protocol. Some of them mean one thing in a command and
/// another in a dataset: those of the datasets stand where they are written.
enum Type : std::uint32_t {
    kControlResponse = 0x65,
    kStatusCode = 0x66,
    kStatusText = 0x67,
    kControlParameters = 0x68,
    kFaceId = 0x69,
    kCost = 0x6a,
    kStrategy = 0x6b,
    kFlags = 0x6c,
    kExpirationPeriod = 0x6d,
    kOrigin = 0x6f,
    kMask = 0x70,
    kUri = 0x72,
    kLocalUri = 0x81,
    kCapacity = 0x83,
    kCount = 0x84,
    kFacePersistency = 0x85,
    kBaseCongestionMarkingInterval = 0x87,
    kDefaultCongestionThreshold = 0x88,
    kMtu = 0x89,
};

/// Appends elements to bytes that grow.
class Message {
  public:
    void element(std::uint32_t type, wire::ByteView value);
    void number(std::uint32_t type, std::uint64_t value);
    void text(std::uint32_t type, std::string_view value);
    void name(wire::NameView name) { element(wire::kName, name.value()); }
    /// An element around those of `inner`.
    void nested(std::uint32_t type, const Message& inner) { element(type, inner.bytes_); }

    const Bytes& bytes() const { return bytes_; }
    Bytes take() { return std::move(bytes_); }

  private:
    Bytes bytes_;
};

}  // namespace innet::management
