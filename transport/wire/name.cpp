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

std::uint64_t load64(const std::uint8_t* bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, sizeof word);
    return word;
}

/// The first `size` (0 to 8) bytes as one number, without reading past them. Loads may overlap:
/// equal bytes still give equal numbers, and no byte is left out.
std::uint64_t load_up_to_8(const std::uint8_t* bytes, std::size_t size) {
    if (size == 8) return load64(bytes);
    if (size >= 4) {
        std::uint32_t first = 0;
        std::uint32_t last = 0;
        std::memcpy(&first, bytes, sizeof first);
        std::memcpy(&last, bytes + size - sizeof last, sizeof last);
        return static_cast<std::uint64_t>(first) << 32 | last;
    }
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < size; ++i) number = number << 8 | bytes[i];
    return number;
}

/// Of the process, not of each node: names and their hashes pass between all of its tables.
constinit NameHashKey hash_key;

/// Both halves of a 64 by 64 bit product, folded: one multiplication mixes 128 bits.
std::uint64_t fold_multiply(std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

void set_name_hash_key(const NameHashKey& key) {
    // An even factor would lose bits.
    hash_key = {key.start, key.first_factor | 1U, key.second_factor | 1U};
}

NameHash empty_name_hash() { return hash_key.start; }

NameHash extend_hash(NameHash prefix, ByteView component) {
    const std::uint64_t first_factor = hash_key.first_factor;
    const std::uint8_t* bytes = component.data();
    std::size_t left = component.size();
    NameHash hash = prefix;
    for (; left > 8; bytes += 8, left -= 8)
        hash = fold_multiply(hash ^ load64(bytes), first_factor);
    hash = fold_multiply(hash ^ load_up_to_8(bytes, left), first_factor);
    // Once more, or the hashes of consecutive segments would crowd in some buckets of a table.
    return fold_multiply(hash, hash_key.second_factor);
}

std::optional<CheckedName> check_name(ByteView value) {
    unsigned parameters_digests = 0;
    for (Reader reader(value); !reader.empty();) {
        const auto component = reader.next();
        if (!component || !is_valid_component(component->type, component->value.size())) {
            return std::nullopt;
        }
        parameters_digests += component->type == kParametersSha256Digest ? 1 : 0;
    }
    if (parameters_digests > 1) return std::nullopt;
    return CheckedName{NameView::trusted(value), parameters_digests == 1};
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

NameHash NameView::hash() const {
    NameHash hash = empty_name_hash();
    Reader reader(value_);
    while (const auto component = reader.next()) hash = extend_hash(hash, component->whole);
    return hash;
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
