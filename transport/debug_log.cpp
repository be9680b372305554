#include "transport/debug_log.hpp"

#ifdef INNET_DEBUG_LOG

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

namespace innet::debug_log {

namespace {

constexpr std::array<std::string_view, 4> kNames{"forwarding", "reduction", "fetch", "management"};
constexpr std::uint32_t kAll = (1U << kNames.size()) - 1;

std::uint32_t bit_of(std::string_view name) {
    if (name == "all") return kAll;
    for (std::size_t place = 0; place < kNames.size(); ++place) {
        if (kNames[place] == name) return 1U << place;
    }
    throw std::invalid_argument("INNET_LOG: no category '" + std::string(name) +
                                "'; there are forwarding, reduction, fetch, management and all");
}

std::uint32_t bits_of(std::string_view categories) {
    std::uint32_t bits = 0;
    while (!categories.empty()) {
        const std::size_t comma = categories.find(',');
        bits |= bit_of(categories.substr(0, comma));
        categories.remove_prefix(comma == std::string_view::npos ? categories.size() : comma + 1);
    }
    return bits;
}

std::uint32_t bits_of_environment() {
    const char* categories = std::getenv("INNET_LOG");
    return categories == nullptr ? 0 : bits_of(categories);
}

std::atomic<std::uint32_t>& enabled() {
    static std::atomic<std::uint32_t> bits{bits_of_environment()};
    return bits;
}

void write_to_standard_error(std::string_view line) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

std::atomic<void (*)(std::string_view)> current_sink{&write_to_standard_error};
thread_local wire::NameView current_node;

}  // namespace

bool is_enabled(Category category) {
    return (enabled().load(std::memory_order_relaxed) & (1U << static_cast<unsigned>(category))) !=
           0;
}

void enable(std::string_view categories) { enabled() = bits_of(categories); }

void set_sink(void (*sink)(std::string_view line)) {
    current_sink = sink == nullptr ? &write_to_standard_error : sink;
}

void write(Category category, const std::ostringstream& message) {
    std::string line(kNames[static_cast<std::size_t>(category)]);
    if (!current_node.empty()) line += " " + current_node.to_uri();
    current_sink.load()(line + ": " + message.str());
}

NodeScope::NodeScope(wire::NameView node) : outer_(std::exchange(current_node, node)) {}

NodeScope::~NodeScope() { current_node = outer_; }

}  // namespace innet::debug_log

#endif
