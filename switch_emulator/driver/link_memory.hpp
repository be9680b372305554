#pragma once
// The memory that the two ends of a link share: a ring of packets for each direction.

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "switch_emulator/driver/file_descriptor.hpp"
#include "switch_emulator/driver/packet_ring.hpp"

namespace innet::driver {

/// One end's mapping of a memfd that another process created: all zero, of `kHeaderBytes` and twice
/// the size of a ring, and sealed, so that no process can shrink it.
class LinkMemory {
  public:
    static constexpr std::size_t kHeaderBytes = 4096;
    static constexpr unsigned kEnds = 2;

    /// Maps `fd` as end 0 or 1, and takes that end over from its owner. On failure returns nothing
    /// and sets `error`.
    static std::optional<LinkMemory> open(const FileDescriptor& fd, unsigned end,
                                          std::string& error);
    LinkMemory(LinkMemory&& other) noexcept;
    LinkMemory& operator=(LinkMemory&&) = delete;
    ~LinkMemory();

    RingMemory to_peer() const { return ring(end_); }
    RingMemory from_peer() const { return ring(kEnds - 1 - end_); }
    /// False once another process (a later one of the same node) has taken this end over.
    bool owned() const;

  private:
    struct Header {
        std::array<RingControl, kEnds> rings;                  ///< by the end that puts in
        std::array<std::atomic<std::uint32_t>, kEnds> owners;  ///< counts takeovers of an end
    };
    static_assert(sizeof(Header) <= kHeaderBytes);

    LinkMemory(std::span<std::uint8_t> mapped, unsigned end);
    Header& header() const { return *reinterpret_cast<Header*>(mapped_.data()); }
    RingMemory ring(unsigned producer) const;

    std::span<std::uint8_t> mapped_;
    unsigned end_;
    std::uint32_t owner_;
};

}  // namespace innet::driver
