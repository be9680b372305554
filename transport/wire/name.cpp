#include "transport/wire/name.hpp"

#include <algorithm>

namespace innet::wire {

namespace {

constexpr std::size_t kDigestSize = 32;
constexpr std::uint32_t kMaxComponentType = 0xffff;

bool is_digest(std::uint32_t type) {
    return type == kImplicitSha256Digest || type == kParametersSha256Digest;
}

bool is_valid_component(std::uint32_t type, std::size_t length) {
    return type >= 1 && type <= kMaxComponentType && (!is_digest(type) || length == kDigestSize);
}

}  // namespace

std::optional<CheckedName> check_name(ByteView value) {
    unsigned parameters_digests = 0;
    bool has_implicit_digest = false;
    for (Reader reader(value); !reader.empty();) {
        const auto component = reader.next();
        if (!component || !is_valid_component(component->type, component->value.size())) {
            return std::nullopt;
        }
        parameters_digests += component->type == kParametersSha256Digest ? 1 : 0;
        has_implicit_digest |= component->type == kImplicitSha256Digest;
    }
    if (parameters_digests > 1) return std::nullopt;
    return CheckedName{NameView::trusted(value), parameters_digests == 1, has_implicit_digest};
}

std::optional<NameView> NameView::parse(ByteView value) {
    const auto checked = check_name(value);
    return checked ? std::optional(checked->name) : std::nullopt;
}

std::size_t NameView::size() const {
    std::size_t components = 0;
    for (Reader reader(value_); reader.next();) ++components;
    return components;
}

Element NameView::component(std::size_t index) const {
    Reader reader(value_);
    for (; index > 0; --index) reader.next();
    return reader.next().value_or(Element{});
}

Element NameView::last_component() const {
    Element last;
    Reader reader(value_);
    while (const auto component = reader.next()) last = *component;
    return last;
}

NameView NameView::prefix(std::size_t components) const {
    Reader reader(value_);
    for (; components > 0 && reader.next(); --components) {
    }
    return NameView(value_.first(value_.size() - reader.rest().size()));
}

NameView NameView::parent() const {
    std::size_t last_start = 0;
    for (Reader reader(value_); !reader.empty();) {
        last_start = value_.size() - reader.rest().size();
        if (!reader.next()) break;
    }
    return NameView(value_.first(last_start));
}

bool NameView::is_prefix_of(NameView other) const {
    // Elements delimit themselves, so a prefix in bytes ends where a component ends.
    return value_.size() <= other.value_.size() &&
           std::equal(value_.begin(), value_.end(), other.value_.begin());
}

bool NameView::operator==(NameView other) const {
    return value_.size() == other.value_.size() && is_prefix_of(other);
}

std::strong_ordering Name::operator<=>(const Name& other) const {
    // VAR-NUMBERs order as their encodings do, so comparing bytes compares type, length and value.
    const std::size_t common = std::min(value_.size(), other.value_.size());
    const int order = common == 0 ? 0 : std::memcmp(value_.data(), other.value_.data(), common);
    return order != 0 ? order <=> 0 : value_.size() <=> other.value_.size();
}

Name& Name::append(std::string_view text) {
    return append(ByteView(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

Name& Name::append(std::uint32_t type, ByteView value) {
    const std::size_t start = value_.size();
    value_.resize(start + element_size(type, value.size()));
    Writer writer{std::span(value_).subspan(start)};
    writer.element(type, value);
    return *this;
}

Name& Name::append_number(std::uint32_t type, std::uint64_t number) {
    const std::size_t start = value_.size();
    value_.resize(start + element_size(type, nonnegative_size(number)));
    Writer writer{std::span(value_).subspan(start)};
    writer.nonnegative_element(type, number);
    return *this;
}

}  // namespace innet::wire
