#include "transport/wire/interest_parameters.hpp"

namespace innet::wire {

namespace {

std::size_t number_size(std::uint32_t type, std::uint64_t number) {
    return element_size(type, nonnegative_size(number));
}

std::size_t key_locator_size(const InterestSignatureInfo& info) {
    return info.key_name.empty() ? 0 : element_size(kName, info.key_name.value().size());
}

std::size_t size_of(const InterestSignatureInfo& info) {
    std::size_t size = number_size(kSignatureType, static_cast<std::uint64_t>(info.type));
    if (!info.key_name.empty()) size += element_size(kKeyLocator, key_locator_size(info));
    if (!info.nonce.empty()) size += element_size(kSignatureNonce, info.nonce.size());
    if (info.time_ms) size += number_size(kSignatureTime, *info.time_ms);
    if (info.sequence) size += number_size(kSignatureSeqNum, *info.sequence);
    return size;
}

void write(Writer& writer, const InterestSignatureInfo& info) {
    writer.header(kInterestSignatureInfo, size_of(info));
    writer.nonnegative_element(kSignatureType, static_cast<std::uint64_t>(info.type));
    if (!info.key_name.empty()) {
        writer.header(kKeyLocator, key_locator_size(info));
        writer.element(kName, info.key_name.value());
    }
    if (!info.nonce.empty()) writer.element(kSignatureNonce, info.nonce);
    if (info.time_ms) writer.nonnegative_element(kSignatureTime, *info.time_ms);
    if (info.sequence) writer.nonnegative_element(kSignatureSeqNum, *info.sequence);
}

}  // namespace

std::vector<std::uint8_t> encode_parameters(ByteView parameters,
                                            const std::optional<InterestSignatureInfo>& info) {
    std::vector<std::uint8_t> portion(
        element_size(kApplicationParameters, parameters.size()) +
        (info ? element_size(kInterestSignatureInfo, size_of(*info)) : 0));
    Writer writer(portion);
    writer.element(kApplicationParameters, parameters);
    if (info) write(writer, *info);
    return portion;
}

}  // namespace innet::wire
