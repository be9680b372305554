#include "switch_emulator/driver/link_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

namespace innet::driver {

namespace {

/// Without these, an access behind the end of what is left would end the process.
constexpr int kNeededSeals = F_SEAL_SHRINK | F_SEAL_SEAL;

std::string failure(const char* call) {
    return std::string(call) + " of the link's memory: " + std::strerror(errno);
}

/// The size of the file, if it can be a link's memory; else 0, with `error` saying why.
std::size_t size_of(int fd, std::string& error) {
    struct stat found{};
    const int seals = ::fcntl(fd, F_GET_SEALS);
    if (seals < 0 || ::fstat(fd, &found) != 0) {
        error = failure("examination");
        return 0;
    }
    const auto size = static_cast<std::size_t>(found.st_size);
    const std::size_t ring = (size - LinkMemory::kHeaderBytes) / LinkMemory::kEnds;
    const bool is_size_possible = size > LinkMemory::kHeaderBytes && std::has_single_bit(ring) &&
                                  ring >= RingMemory::kMinBytes && ring <= RingMemory::kMaxBytes &&
                                  size == LinkMemory::kHeaderBytes + LinkMemory::kEnds * ring;
    if ((seals & kNeededSeals) != kNeededSeals || !is_size_possible) {
        error = "a descriptor that is no link's memory";
        return 0;
    }
    return size;
}

}  // namespace

std::optional<LinkMemory> LinkMemory::open(const FileDescriptor& fd, unsigned end,
                                           std::string& error) {
    if (end >= kEnds) {
        error = "a link has ends 0 and 1";
        return std::nullopt;
    }
    const std::size_t size = size_of(fd.get(), error);
    if (size == 0) return std::nullopt;
    void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (mapped == MAP_FAILED) {
        error = failure("mapping");
        return std::nullopt;
    }
    return LinkMemory({static_cast<std::uint8_t*>(mapped), size}, end);
}

LinkMemory::LinkMemory(std::span<std::uint8_t> mapped, unsigned end)
    : mapped_(mapped), end_(end), owner_(header().owners[end].fetch_add(1) + 1) {}

LinkMemory::LinkMemory(LinkMemory&& other) noexcept
    : mapped_(std::exchange(other.mapped_, {})), end_(other.end_), owner_(other.owner_) {}

LinkMemory::~LinkMemory() {
    if (!mapped_.empty()) ::munmap(mapped_.data(), mapped_.size());
}

bool LinkMemory::owned() const {
    return header().owners[end_].load(std::memory_order_relaxed) == owner_;
}

RingMemory LinkMemory::ring(unsigned producer) const {
    const auto rings = mapped_.subspan(kHeaderBytes);
    const std::size_t bytes = rings.size() / kEnds;
    return {&header().rings[producer], rings.subspan(producer * bytes, bytes)};
}

}  // namespace innet::driver
