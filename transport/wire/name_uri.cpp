// NDN URI scheme (NDN Packet Format v0.3, section 2.1; naming conventions rev 3).

#include "transport/wire/name_uri.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "transport/wire/name.hpp"

namespace innet::wire {

namespace {

/// A component's header is a byte longer than its slash: room for so many components.
constexpr std::size_t kSpareBytes = 16;

struct NumberConvention {
    std::string_view prefix;
    std::uint32_t type;
};

constexpr std::array<NumberConvention, 5> kNumberConventions = {{
    {"seg=", kSegmentComponent},
    {"off=", kByteOffsetComponent},
    {"v=", kVersionComponent},
    {"t=", kTimestampComponent},
    {"seq=", kSequenceNumComponent},
}};

struct DigestConvention {
    std::string_view prefix;
    std::uint32_t type;
};

constexpr std::array<DigestConvention, 2> kDigestConventions = {{
    {"sha256digest=", kImplicitSha256Digest},
    {"params-sha256=", kParametersSha256Digest},
}};

constexpr std::size_t kDigestSize = 32;
constexpr const char* kWrongDigest = "expected 64 hexadecimal digits of a SHA-256 digest";

bool is_unreserved(std::uint8_t byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_' || byte == '~';
}

void append_hex(std::string& uri, std::uint8_t byte, std::string_view digits) {
    uri += digits[byte >> 4];
    uri += digits[byte & 15];
}

/// Percent-encoded, with three periods more where a component consists of periods only.
void append_escaped(std::string& uri, ByteView value) {
    if (std::ranges::all_of(value, [](std::uint8_t byte) { return byte == '.'; })) uri += "...";
    if (std::ranges::all_of(value, is_unreserved)) {
        uri.append(value.begin(), value.end());
        return;
    }
    for (const std::uint8_t byte : value) {
        if (is_unreserved(byte)) {
            uri += static_cast<char>(byte);
        } else {
            uri += '%';
            append_hex(uri, byte, "0123456789ABCDEF");
        }
    }
}

/// True when written by a convention. A number in a longer form than needed keeps its bytes
/// instead.
bool append_by_convention(std::string& uri, const Element& component) {
    for (const auto& [prefix, type] : kNumberConventions) {
        if (component.type != type) continue;
        const auto number = read_nonnegative(component.value);
        if (!number || nonnegative_size(*number) != component.value.size()) return false;
        uri += prefix;
        uri += std::to_string(*number);
        return true;
    }
    for (const auto& [prefix, type] : kDigestConventions) {
        if (component.type != type) continue;
        uri += prefix;
        for (const std::uint8_t byte : component.value) append_hex(uri, byte, "0123456789abcdef");
        return true;
    }
    return false;
}

std::optional<std::uint64_t> parse_decimal(std::string_view text) {
    std::uint64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    const bool leading_zero = text.size() > 1 && text.front() == '0';
    if (error != std::errc{} || stop != end || leading_zero) return std::nullopt;
    return number;
}

std::optional<std::uint8_t> parse_hex_byte(std::string_view digits) {
    std::uint8_t byte = 0;
    if (digits.size() != 2) return std::nullopt;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + 2, byte, 16);
    if (error != std::errc{} || stop != digits.data() + 2) return std::nullopt;
    return byte;
}

std::optional<std::vector<std::uint8_t>> parse_hex(std::string_view text) {
    if (text.size() % 2 != 0) return std::nullopt;
    std::vector<std::uint8_t> bytes;
    for (std::size_t i = 0; i < text.size(); i += 2) {
        const auto byte = parse_hex_byte(text.substr(i, 2));
        if (!byte) return std::nullopt;
        bytes.push_back(*byte);
    }
    return bytes;
}

std::optional<std::vector<std::uint8_t>> unescape(std::string_view text) {
    if (text.find_first_not_of('.') == std::string_view::npos) {
        if (text.size() < 3) return std::nullopt;  // nothing at all, "." and ".." name no component
        return std::vector<std::uint8_t>(text.size() - 3, '.');
    }
    if (text.find('%') == std::string_view::npos)
        return std::vector<std::uint8_t>(text.begin(), text.end());
    std::vector<std::uint8_t> bytes;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            bytes.push_back(static_cast<std::uint8_t>(text[i]));
            continue;
        }
        const auto byte = parse_hex_byte(text.substr(i + 1, 2));
        if (!byte) return std::nullopt;
        bytes.push_back(*byte);
        i += 2;
    }
    return bytes;
}

/// Null when it was appended, or else what is wrong with it.
const char* append_component(Name& name, std::string_view text) {
    for (const auto& [prefix, type] : kNumberConventions) {
        if (!text.starts_with(prefix)) continue;
        const auto number = parse_decimal(text.substr(prefix.size()));
        if (!number) return "expected a decimal number below 2^64 after the equals sign";
        name.append_number(type, *number);
        return nullptr;
    }
    for (const auto& [prefix, type] : kDigestConventions) {
        if (!text.starts_with(prefix)) continue;
        const auto digest = parse_hex(text.substr(prefix.size()));
        if (!digest || digest->size() != kDigestSize) return kWrongDigest;
        name.append(type, *digest);
        return nullptr;
    }
    std::uint64_t type = kGenericComponent;
    if (const std::size_t equals = text.find('='); equals != std::string_view::npos) {
        const auto number = parse_decimal(text.substr(0, equals));
        if (!number || *number == 0 || *number > 0xffff) {
            return "expected seg, off, v, t, seq, sha256digest, params-sha256 or a type from 1 to "
                   "65535 before the equals sign; write %3D for one within a component";
        }
        type = *number;
        text.remove_prefix(equals + 1);
    }
    if (text.empty()) return "a component is empty; write ... for one without bytes";
    const auto value = unescape(text);
    if (!value && text.front() == '.' && text.size() < 3) {
        return "'.' and '..' are no components; write .... and ..... for one and two periods";
    }
    if (!value) return "a percent sign needs two hexadecimal digits after it; write %25 for one";
    const bool is_digest = type == kImplicitSha256Digest || type == kParametersSha256Digest;
    if (is_digest && value->size() != kDigestSize) return kWrongDigest;
    name.append(static_cast<std::uint32_t>(type), *value);
    return nullptr;
}

/// Null when all components were appended, or else what is wrong.
const char* append_uri(Name& name, std::string_view uri) {
    if (uri.starts_with("ndn:")) uri.remove_prefix(4);
    if (uri.empty() || uri.front() != '/') {
        return "a name begins with a slash, such as /alice/photo";
    }
    if (uri == "/") return nullptr;
    while (!uri.empty()) {
        uri.remove_prefix(1);
        const std::size_t end = std::min(uri.find('/'), uri.size());
        if (const char* wrong = append_component(name, uri.substr(0, end))) return wrong;
        uri.remove_prefix(end);
        if (uri == "/") break;
    }
    if (NameView::parse(name.view().value())) return nullptr;
    return "it has two params-sha256 components, expected one at most";
}

}  // namespace

std::string NameView::to_uri() const {
    if (empty()) return "/";
    std::string uri;
    uri.reserve(value_.size());
    Reader reader(value_);
    while (const auto component = reader.next()) {
        uri += '/';
        if (append_by_convention(uri, *component)) continue;
        if (component->type != kGenericComponent) uri += std::to_string(component->type) + '=';
        append_escaped(uri, component->value);
    }
    return uri;
}

// A slash at the end adds no component, as in ndn-cxx.
std::optional<Name> Name::from_uri(std::string_view uri) {
    Name name;
    name.value_.reserve(uri.size() + kSpareBytes);
    return append_uri(name, uri) == nullptr ? std::optional(std::move(name)) : std::nullopt;
}

const char* uri_error(std::string_view uri) {
    Name name;
    return append_uri(name, uri);
}

}  // namespace innet::wire
