#include "transport/wire/interest_signature.hpp"

#include "transport/wire/key_locator.hpp"

namespace innet::wire {

namespace {

/// Reads one element after SignatureType. False when it is malformed, or unknown and critical.
bool read_info_element(const Element& element, InterestSignatureInfo& info) {
    switch (element.type) {
        case kKeyLocator:
            return read_key_locator(element.value, info.key_name);
        case kSignatureNonce:
            info.nonce = element.value;
            return !element.value.empty();
        case kSignatureTime:
            info.time_ms = read_nonnegative(element.value);
            return info.time_ms.has_value();
        case kSignatureSeqNum:
            info.sequence = read_nonnegative(element.value);
            return info.sequence.has_value();
        default:
            return !is_critical(element.type);
    }
}

}  // namespace

std::optional<InterestSignatureInfo> InterestSignatureInfo::parse(ByteView value) {
    Reader reader(value);
    const auto type_element = reader.next();
    if (!type_element || type_element->type != kSignatureType) return std::nullopt;
    const auto number = read_nonnegative(type_element->value);
    if (!number) return std::nullopt;
    InterestSignatureInfo info;
    info.type = static_cast<SignatureType>(*number);
    std::uint32_t last_type = kSignatureType;
    while (!reader.empty()) {
        const auto element = reader.next();
        if (!element) return std::nullopt;
        if (element->type <= last_type) {  // repeated or out of order
            if (is_critical(element->type)) return std::nullopt;
            continue;
        }
        if (!read_info_element(*element, info)) return std::nullopt;
        last_type = element->type;
    }
    return info;
}

std::optional<InterestSignature> InterestSignature::read(const InterestView& interest) {
    if (interest.name().last_component().type != kParametersSha256Digest) return std::nullopt;
    const ByteView portion = interest.parameters_portion();
    std::optional<InterestSignatureInfo> info;
    // The first element is ApplicationParameters: the name's digest would not be there without.
    for (Reader reader(portion); !reader.empty();) {
        const std::size_t signed_size = portion.size() - reader.rest().size();
        const auto element = reader.next();
        if (!element) return std::nullopt;
        if (element->type == kInterestSignatureInfo && !info) {
            info = InterestSignatureInfo::parse(element->value);
            if (!info) return std::nullopt;
        } else if (element->type == kInterestSignatureValue && info) {
            return InterestSignature{
                *info,
                element->value,
                {interest.name().parent().value(), portion.first(signed_size)}};
        }
    }
    return std::nullopt;
}

}  // namespace innet::wire
