#pragma once
// A pcapng file with Ethernet interfaces and times in nanoseconds
// (draft-ietf-opsawg-pcapng: section header, interface description and enhanced packet blocks).
//
// Written here and not by a library in Python: millions of packets pass.

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "transport/time.hpp"

namespace innet::capture {

class PcapngFile {
  public:
    /// Replaces the file at `path`. `good()` tells whether that went well.
    explicit PcapngFile(const std::string& path);

    /// Describes one more interface; they are numbered from 0.
    void add_interface(const std::string& name);
    /// A packet of `original_size` bytes, of which the file gets those in `parts`.
    void add_packet(std::uint32_t interface, Duration when,
                    std::span<const std::span<const std::uint8_t>> parts,
                    std::size_t original_size);
    void flush() { file_.flush(); }
    /// False once something could not be written.
    bool good() const { return file_.good(); }

  private:
    void put(std::uint32_t word);
    void put_option(std::uint16_t code, std::span<const std::uint8_t> value);
    void write_block(std::uint32_t type);

    std::ofstream file_;
    std::vector<std::uint8_t> body_;  ///< of the block under way; keeps its capacity
};

}  // namespace innet::capture
