#include "transport/wire/tlv.hpp"

namespace innet::wire {

namespace {

std::uint64_t load_big_endian(const std::uint8_t* bytes, std::size_t size) {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < size; ++i) number = number << 8 | bytes[i];
    return number;
}

void store_big_endian(std::span<std::uint8_t> place, std::uint64_t number) {
    for (std::size_t i = place.size(); i-- > 0; number >>= 8) {
        place[i] = static_cast<std::uint8_t>(number);
    }
}

}  // namespace

std::optional<std::uint64_t> read_var_number(ByteView& bytes) {
    if (bytes.empty()) return std::nullopt;
    if (bytes[0] < 253) {
        const std::uint8_t number = bytes[0];
        bytes = bytes.subspan(1);
        return number;
    }
    const std::size_t size = bytes[0] == 253 ? 2 : bytes[0] == 254 ? 4 : 8;
    if (bytes.size() < 1 + size) return std::nullopt;
    const std::uint64_t number = load_big_endian(bytes.data() + 1, size);
    if (var_number_size(number) != 1 + size) return std::nullopt;
    bytes = bytes.subspan(1 + size);
    return number;
}

std::optional<Element> Reader::next_long() {
    // A short type and a length of two bytes: packets, and contents of more than 252 bytes.
    if (rest_.size() >= 4 && rest_[0] != 0 && rest_[0] < 253 && rest_[1] == 253) {
        const std::size_t length = load_big_endian(rest_.data() + 2, 2);
        if (length < 253 || length > rest_.size() - 4) return std::nullopt;
        const Element element{rest_[0], rest_.subspan(4, length), rest_.first(4 + length)};
        rest_ = rest_.subspan(4 + length);
        return element;
    }
    ByteView rest = rest_;
    const auto type = read_var_number(rest);
    const auto length = type ? read_var_number(rest) : std::nullopt;
    if (!length || *type == 0 || *type > 0xffff'ffffU || *length > rest.size()) return std::nullopt;
    const auto value_size = static_cast<std::size_t>(*length);
    const std::size_t whole_size = rest_.size() - rest.size() + value_size;
    const Element element{static_cast<std::uint32_t>(*type), rest.first(value_size),
                          rest_.first(whole_size)};
    rest_ = rest_.subspan(whole_size);
    return element;
}

std::optional<Element> read_only_element(ByteView bytes) {
    Reader reader(bytes);
    const auto element = reader.next();
    return reader.empty() ? element : std::nullopt;
}

std::optional<std::uint64_t> read_nonnegative(ByteView value) {
    const std::size_t size = value.size();
    if (size != 1 && size != 2 && size != 4 && size != 8) return std::nullopt;
    return load_big_endian(value.data(), size);
}

std::span<std::uint8_t> Writer::reserve(std::size_t length) {
    if (!ok_ || length > buffer_.size() - size_) {
        ok_ = false;
        return {};
    }
    const auto place = buffer_.subspan(size_, length);
    size_ += length;
    return place;
}

void Writer::bytes(ByteView bytes) {
    const auto place = reserve(bytes.size());
    if (!place.empty()) std::memcpy(place.data(), bytes.data(), place.size());
}

void Writer::var_number(std::uint64_t number) {
    const auto place = reserve(var_number_size(number));
    if (place.empty()) return;
    if (place.size() == 1) {
        place[0] = static_cast<std::uint8_t>(number);
        return;
    }
    place[0] = place.size() == 3 ? 253 : place.size() == 5 ? 254 : 255;
    store_big_endian(place.subspan(1), number);
}

void Writer::header(std::uint32_t type, std::size_t length) {
    var_number(type);
    var_number(length);
}

void Writer::element(std::uint32_t type, ByteView value) {
    header(type, value.size());
    bytes(value);
}

void Writer::nonnegative_element(std::uint32_t type, std::uint64_t number) {
    const std::size_t size = nonnegative_size(number);
    header(type, size);
    store_big_endian(reserve(size), number);
}

}  // namespace innet::wire
