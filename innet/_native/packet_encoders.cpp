// Packet encoders for Python, which signs by itself: it receives the bytes to sign and appends the
// signature element.

#include <nanobind/stl/optional.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "innet/_native/bindings.hpp"
#include "innet/_native/byte_arguments.hpp"
#include "transport/security/sha256.hpp"
#include "transport/wire/data.hpp"
#include "transport/wire/interest.hpp"
#include "transport/wire/interest_parameters.hpp"
#include "transport/wire/lp.hpp"
#include "transport/wire/milliseconds.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

wire::NameView name_view_of(const std::optional<wire::Name>& name) {
    return name ? name->view() : wire::NameView();
}

nb::bytes encode_parameters(const nb::bytes& parameters,
                            std::optional<std::uint64_t> signature_type,
                            const std::optional<wire::Name>& key_name, const nb::bytes& nonce,
                            std::optional<std::uint64_t> time_ms,
                            std::optional<std::uint64_t> sequence) {
    std::optional<wire::InterestSignatureInfo> info;
    if (signature_type) {
        info =
            wire::InterestSignatureInfo{static_cast<wire::SignatureType>(*signature_type),
                                        name_view_of(key_name), view_of(nonce), time_ms, sequence};
    }
    return bytes_of(wire::encode_parameters(view_of(parameters), info));
}

nb::bytes encode_interest(wire::Name name, std::uint32_t nonce, bool can_be_prefix,
                          bool must_be_fresh, std::uint64_t lifetime_ms,
                          std::optional<std::uint8_t> hop_limit,
                          const std::optional<wire::Name>& forwarding_hint,
                          const nb::bytes& parameters_portion) {
    if (parameters_portion.size() > 0) {
        security::Sha256 sha256;
        name.append(wire::kParametersSha256Digest, sha256.digest(view_of(parameters_portion)));
    }
    wire::InterestFields fields;
    fields.name = name.view();
    fields.forwarding_hint = name_view_of(forwarding_hint);
    fields.nonce = nonce;
    fields.lifetime = wire::duration_of_ms(lifetime_ms);
    fields.can_be_prefix = can_be_prefix;
    fields.must_be_fresh = must_be_fresh;
    fields.hop_limit = hop_limit;
    fields.parameters_portion = view_of(parameters_portion);
    constexpr std::size_t kOtherElements = 64;  // more than all the fixed ones take
    std::vector<std::uint8_t> buffer(kOtherElements + fields.name.value().size() +
                                     fields.forwarding_hint.value().size() +
                                     parameters_portion.size());
    const std::size_t size = wire::encode_interest(fields, buffer);
    if (size == 0) throw nb::value_error("an Interest needs a name");
    return bytes_of(std::span(buffer).first(size));
}

nb::bytes encode_signed_portion(const wire::Name& name, const nb::bytes& content,
                                std::uint64_t content_type, std::uint64_t freshness_ms,
                                const nb::bytes& final_component, std::uint64_t signature_type,
                                const std::optional<wire::Name>& key_name,
                                const nb::bytes& signature_extension) {
    const auto checked = wire::check_name(name.view().value());
    if (!checked || checked->has_implicit_digest) {
        throw nb::value_error((name.view().to_uri() +
                               " cannot name a Data packet: leave out the implicit digest, which "
                               "receivers compute")
                                  .c_str());
    }
    wire::DataFields fields;
    fields.name = name.view();
    fields.content_type = static_cast<wire::ContentType>(content_type);
    fields.freshness = wire::duration_of_ms(freshness_ms);
    fields.final_component = view_of(final_component);
    fields.signature_type = static_cast<wire::SignatureType>(signature_type);
    fields.key_name = name_view_of(key_name);
    fields.signature_extension = view_of(signature_extension);
    std::vector<std::uint8_t> buffer(wire::encoded_data_size(fields, content.size(), 0));
    const auto layout = wire::encode_data(fields, content.size(), 0, buffer);
    const auto bytes = view_of(content);
    std::copy(bytes.begin(), bytes.end(),
              std::span(buffer).subspan(layout.content_offset, content.size()).begin());
    return bytes_of(std::span(buffer).subspan(layout.signed_offset, layout.signed_size));
}

nb::bytes encode_data(const nb::bytes& signed_portion, const nb::bytes& signature_value) {
    const std::size_t size =
        signed_portion.size() + wire::element_size(wire::kSignatureValue, signature_value.size());
    std::vector<std::uint8_t> buffer(wire::element_size(wire::kData, size));
    wire::Writer writer(buffer);
    writer.header(wire::kData, size);
    writer.bytes(view_of(signed_portion));
    writer.element(wire::kSignatureValue, view_of(signature_value));
    return bytes_of(buffer);
}

nb::bytes encode_lp_packet(const nb::bytes& payload, const nb::bytes& pit_token,
                           std::optional<std::uint8_t> nack_reason, std::uint64_t congestion_mark) {
    wire::LpFields fields;
    fields.pit_token = view_of(pit_token);
    fields.congestion_mark = congestion_mark;
    if (nack_reason) fields.nack = static_cast<wire::NackReason>(*nack_reason);
    constexpr std::size_t kHeader = 96;  // more than all the fields above take
    std::vector<std::uint8_t> buffer(kHeader + payload.size());
    const std::size_t size = wire::encode_lp_header(fields, payload.size(), buffer);
    if (size == 0) throw nb::value_error("a PIT token has at most 32 bytes");
    const auto bytes = view_of(payload);
    std::copy(bytes.begin(), bytes.end(), std::span(buffer).subspan(size).begin());
    return bytes_of(std::span(buffer).first(size + payload.size()));
}

}  // namespace

void bind_packet_encoders(nb::module_& module) {
    module.def("encode_parameters", &encode_parameters, nb::arg("parameters"),
               nb::arg("signature_type") = nb::none(), nb::arg("key_name") = nb::none(),
               nb::arg("nonce") = nb::bytes("", 0), nb::arg("time_ms") = nb::none(),
               nb::arg("sequence") = nb::none(),
               "ApplicationParameters and, with a signature type, InterestSignatureInfo.");
    module.def("encode_interest", &encode_interest, nb::arg("name"), nb::arg("nonce"),
               nb::arg("can_be_prefix") = false, nb::arg("must_be_fresh") = false,
               nb::arg("lifetime_ms") = 4000, nb::arg("hop_limit") = nb::none(),
               nb::arg("forwarding_hint") = nb::none(),
               nb::arg("parameters_portion") = nb::bytes("", 0),
               "An Interest; the digest of its parameters' portion is appended to its name.");
    module.def("encode_signed_portion", &encode_signed_portion, nb::arg("name"), nb::arg("content"),
               nb::arg("content_type") = 0, nb::arg("freshness_ms") = 0,
               nb::arg("final_component") = nb::bytes("", 0), nb::arg("signature_type") = 0,
               nb::arg("key_name") = nb::none(), nb::arg("signature_extension") = nb::bytes("", 0),
               "What the signature of a Data packet covers.");
    module.def("encode_data", &encode_data, nb::arg("signed_portion"), nb::arg("signature_value"),
               "A Data packet of its signed portion and its signature.");
    module.def("encode_lp_packet", &encode_lp_packet, nb::arg("payload"),
               nb::arg("pit_token") = nb::bytes("", 0), nb::arg("nack_reason") = nb::none(),
               nb::arg("congestion_mark") = 0, "An LpPacket around an Interest or a Data.");
}

}  // namespace innet::bindings
