#pragma once
// A pcapng file with Ethernet interfaces and times in nanoseconds
// (draft-ietf-opsawg-pcapng: section header, interface description and enhanced packet blocks).
//
// Written here and not by a library in Python: millions of packets pass.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/time.hpp"

namespace innet::capture {

class PcapngFile {
  public:
    /// Writes to an open descriptor, and closes it at the end.
    explicit PcapngFile(int descriptor);

    /// Describes one more interface; they are numbered from 0.
    void add_interface(const std::string& name);
    /// A packet of `original_size` bytes, of which the file gets those in `parts`.
    void add_packet(std::uint32_t interface, Duration when,
                    std::span<const std::span<const std::uint8_t>> parts,
                    std::size_t original_size);
    void flush();
    /// False once something could not be written.
    bool good() const { return file_ != nullptr && std::ferror(file_.get()) == 0; }

  private:
    void put(std::uint32_t word);
    void put_option(std::uint16_t code, std::span<const std::uint8_t> value);
    void write_block(std::uint32_t type);

    struct Close {
        void operator()(std::FILE* file) const { std::fclose(file); }
    };
    std::unique_ptr<std::FILE, Close> file_;
    std::vector<std::uint8_t> body_;  ///< of the block under way; keeps its capacity
};

}  // namespace innet::capture
