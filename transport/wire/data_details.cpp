#include "transport/wire/data_details.hpp"

namespace innet::wire {

namespace {

/// Value of the first element of `type` in `elements`; empty when there is none.
ByteView value_of(std::uint32_t type, ByteView elements) {
    Reader reader(elements);
    while (const auto element = reader.next()) {
        if (element->type == type) return element->value;
    }
    return {};
}

}  // namespace

DataDetails DataDetails::of(const DataView& data) {
    DataDetails details;
    details.final_component = value_of(kFinalBlockId, value_of(kMetaInfo, data.signed_portion()));
    details.signature_info = value_of(kSignatureInfo, data.signed_portion());
    details.key_digest = value_of(kKeyDigest, value_of(kKeyLocator, details.signature_info));
    details.validity_period = value_of(kValidityPeriod, details.signature_info);
    return details;
}

}  // namespace innet::wire
