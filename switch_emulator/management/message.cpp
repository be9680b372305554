#include "switch_emulator/management/message.hpp"

namespace innet::management {

void Message::element(std::uint32_t type, wire::ByteView value) {
    const std::size_t start = bytes_.size();
    bytes_.resize(start + wire::element_size(type, value.size()));
    wire::Writer writer{std::span(bytes_).subspan(start)};
    writer.element(type, value);
}

void Message::number(std::uint32_t type, std::uint64_t value) {
    const std::size_t start = bytes_.size();
    bytes_.resize(start + wire::element_size(type, wire::nonnegative_size(value)));
    wire::Writer writer{std::span(bytes_).subspan(start)};
    writer.nonnegative_element(type, value);
}

void Message::text(std::uint32_t type, std::string_view value) {
    element(type, {reinterpret_cast<const std::uint8_t*>(value.data()), value.size()});
}

}  // namespace innet::management
