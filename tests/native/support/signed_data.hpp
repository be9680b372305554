#pragma once
// Signed Data packets for tests.

#include <doctest/doctest.h>

#include <algorithm>
#include <span>

#include "tests/native/support/elements.hpp"
#include "transport/security/keyring.hpp"
#include "transport/wire/data.hpp"

namespace innet::test {

/// A Data packet with this name and content, signed by `signer`.
inline Bytes signed_data(security::Signer& signer, const wire::Name& name, const Bytes& content,
                         wire::ContentType content_type = wire::ContentType::kBlob) {
    wire::DataFields fields;
    fields.name = name.view();
    fields.content_type = content_type;
    fields.signature_type = signer.type();
    fields.key_name = signer.key_name();
    Bytes packet(wire::encoded_data_size(fields, content.size(), signer.signature_size()));
    const auto layout = wire::encode_data(fields, content.size(), signer.signature_size(), packet);
    REQUIRE(layout.size == packet.size());
    const std::span<std::uint8_t> bytes(packet);
    std::ranges::copy(content, bytes.subspan(layout.content_offset).begin());
    REQUIRE(signer.sign(bytes.subspan(layout.signed_offset, layout.signed_size),
                        bytes.subspan(layout.signature_offset, layout.signature_size)));
    return packet;
}

}  // namespace innet::test
