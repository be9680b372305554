#include "switch_emulator/management/command.hpp"

#include <array>

#include "transport/security/parameters_digest.hpp"
#include "transport/wire/text.hpp"

namespace innet::management {

namespace {

constexpr std::size_t kPrefixComponents = 2;  // localhost or localhop, nfd
constexpr std::size_t kLegacyComponents = 5;

using wire::text_of;

bool is_generic(const wire::Element& component) {
    return component.type == wire::kGenericComponent;
}

/// The value of `component`, which is one element of this type.
std::optional<wire::ByteView> unwrap(const wire::Element& component, std::uint32_t type) {
    if (!is_generic(component)) return std::nullopt;
    const auto element = wire::read_only_element(component.value);
    if (!element || element->type != type) return std::nullopt;
    return element->value;
}

std::optional<Command> read_legacy(const wire::InterestView& interest,
                                   const std::array<wire::Element, kLegacyComponents>& rest) {
    const auto& [parameters, timestamp, nonce, info_component, value_component] = rest;
    const auto time_ms = wire::read_nonnegative(timestamp.value);
    const auto info_value = unwrap(info_component, wire::kSignatureInfo);
    const auto value = unwrap(value_component, wire::kSignatureValue);
    if (!is_generic(parameters) || !is_generic(timestamp) || !time_ms || !is_generic(nonce) ||
        !info_value || !value) {
        return std::nullopt;
    }
    auto info = wire::InterestSignatureInfo::parse(*info_value);
    if (!info) return std::nullopt;
    info->time_ms = time_ms;
    info->nonce = nonce.value;
    return Command{parameters.value,
                   wire::InterestSignature{
                       *info, *value, {interest.name().parent().value(), wire::ByteView()}}};
}

}  // namespace

std::optional<Address> Address::read(wire::NameView name) {
    wire::Reader reader(name.value());
    std::array<wire::Element, kPrefixComponents + 2> components;
    for (wire::Element& component : components) {
        const auto next = reader.next();
        if (!next || !is_generic(*next)) return std::nullopt;
        component = *next;
    }
    return Address{text_of(components[0].value) == "localhop", text_of(components[2].value),
                   text_of(components[3].value), wire::NameView::trusted(reader.rest())};
}

std::optional<Command> read_command(const wire::InterestView& interest, const Address& address,
                                    security::Sha256& sha256) {
    if (!security::parameters_digest_holds(interest, sha256)) return std::nullopt;
    std::array<wire::Element, kLegacyComponents> rest;
    std::size_t count = 0;
    for (wire::Reader reader(address.rest.value()); !reader.empty(); ++count) {
        const auto component = reader.next();
        if (!component || count == rest.size()) return std::nullopt;
        rest[count] = *component;
    }
    const bool has_digest = count > 0 && rest[count - 1].type == wire::kParametersSha256Digest;
    if (has_digest && count <= 2) {
        const auto signature = wire::InterestSignature::read(interest);
        if (count == 1) return Command{interest.parameters(), signature};
        if (is_generic(rest[0])) return Command{rest[0].value, signature};
    }
    if (count == 1 && is_generic(rest[0])) return Command{rest[0].value, std::nullopt};
    if (count == kLegacyComponents) return read_legacy(interest, rest);
    return std::nullopt;
}

}  // namespace innet::management
