#include "switch_emulator/capture/pcapng_file.hpp"

#include <array>

namespace innet::capture {
namespace {

constexpr std::uint32_t kSectionHeader = 0x0A0D0D0A;
constexpr std::uint32_t kInterfaceDescription = 1;
constexpr std::uint32_t kEnhancedPacket = 6;
constexpr std::uint32_t kByteOrderMagic = 0x1A2B3C4D;
constexpr std::uint32_t kVersion = 1;  // major 1, minor 0
constexpr std::uint32_t kUnknownSize = 0xffffffff;
constexpr std::uint32_t kEthernet = 1;
constexpr std::uint16_t kEndOfOptions = 0;
constexpr std::uint16_t kInterfaceName = 2;
constexpr std::uint16_t kTimeResolution = 9;
constexpr std::uint8_t kNanoseconds = 9;  // the negative power of ten

void append(std::vector<std::uint8_t>& to, std::uint64_t number, std::size_t size) {
    for (std::size_t byte = 0; byte < size; ++byte) {
        to.push_back(static_cast<std::uint8_t>(number >> (8 * byte)));
    }
}

void pad(std::vector<std::uint8_t>& bytes) { bytes.resize((bytes.size() + 3) / 4 * 4, 0); }

}  // namespace

PcapngFile::PcapngFile(int descriptor) : file_(::fdopen(descriptor, "wb")) {
    put(kByteOrderMagic);
    put(kVersion);
    put(kUnknownSize);  // of the section, in two words
    put(kUnknownSize);
    write_block(kSectionHeader);
}

void PcapngFile::add_interface(const std::string& name) {
    put(kEthernet);
    put(0);  // packets are not cut
    put_option(kInterfaceName, {reinterpret_cast<const std::uint8_t*>(name.data()), name.size()});
    put_option(kTimeResolution, std::array{kNanoseconds});
    put_option(kEndOfOptions, {});
    write_block(kInterfaceDescription);
}

void PcapngFile::add_packet(std::uint32_t interface, Duration when,
                            std::span<const std::span<const std::uint8_t>> parts,
                            std::size_t original_size) {
    std::size_t size = 0;
    for (const auto part : parts) {
        size += part.size();
    }
    const auto time_ns = static_cast<std::uint64_t>(when.count());
    put(interface);
    put(static_cast<std::uint32_t>(time_ns >> 32U));
    put(static_cast<std::uint32_t>(time_ns));
    put(static_cast<std::uint32_t>(size));
    put(static_cast<std::uint32_t>(original_size));
    for (const auto part : parts) {
        body_.insert(body_.end(), part.begin(), part.end());
    }
    pad(body_);
    write_block(kEnhancedPacket);
}

void PcapngFile::flush() {
    if (file_) std::fflush(file_.get());
}

void PcapngFile::put(std::uint32_t word) { append(body_, word, 4); }

void PcapngFile::put_option(std::uint16_t code, std::span<const std::uint8_t> value) {
    append(body_, code, 2);
    append(body_, value.size(), 2);
    body_.insert(body_.end(), value.begin(), value.end());
    pad(body_);
}

void PcapngFile::write_block(std::uint32_t type) {
    std::vector<std::uint8_t>& body = body_;
    const std::uint64_t size = body.size() + 12;  // with the type, and the size at both ends
    std::array<char, 8> head{};
    for (std::size_t byte = 0; byte < 4; ++byte) {
        head[byte] = static_cast<char>(type >> (8 * byte));
        head[4 + byte] = static_cast<char>(size >> (8 * byte));
    }
    append(body, size, 4);
    if (file_) {
        std::fwrite(head.data(), 1, head.size(), file_.get());
        std::fwrite(body.data(), 1, body.size(), file_.get());
    }
    body.clear();
}

}  // namespace innet::capture
