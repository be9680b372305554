// Packets as Python reads them: each object holds its bytes, which were checked when it was made.

#include "innet/_native/received_packets.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "innet/_native/bindings.hpp"
#include "innet/_native/byte_arguments.hpp"
#include "transport/security/parameters_digest.hpp"
#include "transport/security/sha256.hpp"
#include "transport/wire/data_details.hpp"
#include "transport/wire/interest_signature.hpp"
#include "transport/wire/lp.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

using Fragment = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

template <typename View>
View parse_or_throw(const nb::bytes& packet, const char* kind) {
    auto view = View::parse(view_of(packet));
    if (!view) {
        const std::string message =
            "malformed " + std::string(kind) + " (" + std::to_string(packet.size()) + " bytes)";
        throw nb::value_error(message.c_str());
    }
    return *view;
}

struct ReceivedInterest {
    explicit ReceivedInterest(nb::bytes packet)
        : wire(std::move(packet)),
          view(parse_or_throw<wire::InterestView>(wire, "Interest")),
          signature(wire::InterestSignature::read(view)) {}

    nb::bytes wire;
    wire::InterestView view;
    std::optional<wire::InterestSignature> signature;
};

struct ReceivedLpPacket {
    explicit ReceivedLpPacket(nb::bytes packet)
        : wire(std::move(packet)), view(parse_or_throw<wire::LpView>(wire, "link packet")) {}

    nb::bytes wire;
    wire::LpView view;
};

double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::optional<wire::Name> name_of(wire::NameView view) {
    return view.empty() ? std::nullopt : std::optional<wire::Name>(wire::Name(view));
}

std::optional<nb::bytes> optional_bytes(wire::ByteView view) {
    return view.empty() ? std::nullopt : std::optional<nb::bytes>(bytes_of(view));
}

nb::bytes signed_portion_of(const wire::InterestSignature& signature) {
    std::vector<std::uint8_t> portion;
    for (const wire::ByteView part : signature.signed_parts) {
        portion.insert(portion.end(), part.begin(), part.end());
    }
    return bytes_of(portion);
}

void bind_interest_signature(nb::class_<ReceivedInterest>& received) {
    received
        .def_prop_ro(
            "signature_type",
            [](const ReceivedInterest& self) -> std::optional<std::uint64_t> {
                if (!self.signature) return std::nullopt;
                return static_cast<std::uint64_t>(self.signature->info.type);
            },
            "Number of the signature's type; None when the Interest is not signed.")
        .def_prop_ro("key_name",
                     [](const ReceivedInterest& self) {
                         return self.signature ? name_of(self.signature->info.key_name)
                                               : std::nullopt;
                     })
        .def_prop_ro("signature_nonce",
                     [](const ReceivedInterest& self) {
                         return self.signature ? optional_bytes(self.signature->info.nonce)
                                               : std::nullopt;
                     })
        .def_prop_ro(
            "signature_time_ms",
            [](const ReceivedInterest& self) {
                return self.signature ? self.signature->info.time_ms : std::nullopt;
            },
            "Milliseconds since 1970.")
        .def_prop_ro("signature_sequence",
                     [](const ReceivedInterest& self) {
                         return self.signature ? self.signature->info.sequence : std::nullopt;
                     })
        .def_prop_ro(
            "signed_portion",
            [](const ReceivedInterest& self) {
                return self.signature ? signed_portion_of(*self.signature) : nb::bytes("", 0);
            },
            "The bytes that the signature covers; empty when the Interest is not signed.")
        .def_prop_ro("signature_value", [](const ReceivedInterest& self) {
            return self.signature ? bytes_of(self.signature->value) : nb::bytes("", 0);
        });
}

void bind_received_interest(nb::module_& module) {
    nb::class_<ReceivedInterest> received(module, "ReceivedInterest",
                                          "An Interest; ValueError when it is malformed.");
    received.def(nb::init<nb::bytes>(), nb::arg("wire"))
        .def_ro("wire", &ReceivedInterest::wire)
        .def_prop_ro("name",
                     [](const ReceivedInterest& self) { return wire::Name(self.view.name()); })
        .def_prop_ro("can_be_prefix",
                     [](const ReceivedInterest& self) { return self.view.can_be_prefix(); })
        .def_prop_ro("must_be_fresh",
                     [](const ReceivedInterest& self) { return self.view.must_be_fresh(); })
        .def_prop_ro("nonce", [](const ReceivedInterest& self) { return self.view.nonce(); })
        .def_prop_ro("lifetime_s",
                     [](const ReceivedInterest& self) { return seconds_of(self.view.lifetime()); })
        .def_prop_ro("hop_limit",
                     [](const ReceivedInterest& self) { return self.view.hop_limit(); })
        .def_prop_ro(
            "forwarding_hint",
            [](const ReceivedInterest& self) { return name_of(self.view.forwarding_hint()); },
            "The first delegation.")
        .def_prop_ro(
            "parameters",
            [](const ReceivedInterest& self) -> std::optional<nb::bytes> {
                if (!self.view.has_parameters()) return std::nullopt;
                return bytes_of(self.view.parameters());
            },
            "ApplicationParameters; None when there are none.")
        .def(
            "parameters_digest_holds",
            [](const ReceivedInterest& self) {
                security::Sha256 sha256;
                return security::parameters_digest_holds(self.view, sha256);
            },
            "Whether the parameters are those that the name says; True without any.");
    bind_interest_signature(received);
}

void bind_received_data(nb::module_& module) {
    nb::class_<ReceivedData>(module, "ReceivedData",
                             "A Data packet; ValueError when it is malformed.")
        .def(nb::init<nb::bytes>(), nb::arg("wire"))
        .def_ro("wire", &ReceivedData::wire)
        .def_prop_ro("name", [](const ReceivedData& self) { return wire::Name(self.view.name()); })
        .def_prop_ro("content_type",
                     [](const ReceivedData& self) {
                         return static_cast<std::uint64_t>(self.view.content_type());
                     })
        .def_prop_ro("freshness_s",
                     [](const ReceivedData& self) { return seconds_of(self.view.freshness()); })
        .def_prop_ro(
            "final_segment", [](const ReceivedData& self) { return self.view.final_segment(); },
            "Number in FinalBlockId, when that is a segment.")
        .def_prop_ro(
            "final_component",
            [](const ReceivedData& self) {
                return optional_bytes(wire::DataDetails::of(self.view).final_component);
            },
            "FinalBlockId: a name component with its type and length.")
        .def_prop_ro("content",
                     [](const ReceivedData& self) { return bytes_of(self.view.content()); })
        .def_prop_ro("signature_type",
                     [](const ReceivedData& self) {
                         return static_cast<std::uint64_t>(self.view.signature_type());
                     })
        .def_prop_ro("key_name",
                     [](const ReceivedData& self) { return name_of(self.view.key_name()); })
        .def_prop_ro(
            "key_digest",
            [](const ReceivedData& self) {
                return optional_bytes(wire::DataDetails::of(self.view).key_digest);
            },
            "KeyLocator's digest, when it has one in place of a name.")
        .def_prop_ro(
            "signature_info",
            [](const ReceivedData& self) {
                return bytes_of(wire::DataDetails::of(self.view).signature_info);
            },
            "Value of SignatureInfo, with what this class does not name.")
        .def_prop_ro(
            "validity_period",
            [](const ReceivedData& self) {
                return optional_bytes(wire::DataDetails::of(self.view).validity_period);
            },
            "Value of a certificate's ValidityPeriod.")
        .def_prop_ro(
            "signed_portion",
            [](const ReceivedData& self) { return bytes_of(self.view.signed_portion()); },
            "The bytes that the signature covers.")
        .def_prop_ro("signature_value",
                     [](const ReceivedData& self) { return bytes_of(self.view.signature_value()); })
        .def(
            "implicit_digest",
            [](const ReceivedData& self) {
                security::Sha256 sha256;
                return bytes_of(sha256.digest(self.view.whole()));
            },
            "SHA-256 of the whole packet, which its full name ends with.");
}

void bind_received_lp_packet(nb::module_& module) {
    nb::class_<ReceivedLpPacket>(module, "ReceivedLpPacket",
                                 "What came from a link: a bare Interest or Data, or an LpPacket "
                                 "around one; ValueError when it is malformed.")
        .def(nb::init<nb::bytes>(), nb::arg("wire"))
        .def_prop_ro(
            "payload", [](const ReceivedLpPacket& self) { return bytes_of(self.view.payload()); },
            "The Interest or Data (a piece of it when there is a fragment); empty when idle.")
        .def_prop_ro("pit_token",
                     [](const ReceivedLpPacket& self) { return bytes_of(self.view.pit_token()); })
        .def_prop_ro(
            "nack_reason",
            [](const ReceivedLpPacket& self) -> std::optional<unsigned> {
                const auto reason = self.view.nack();
                if (!reason) return std::nullopt;
                return static_cast<unsigned>(*reason);
            },
            "NackReason's number, 0 when it gives none; None when this is no Nack.")
        .def_prop_ro("congestion_mark",
                     [](const ReceivedLpPacket& self) { return self.view.congestion_mark(); })
        .def_prop_ro(
            "held", [](const ReceivedLpPacket& self) { return self.view.held(); },
            "True for innet's notice that an Interest waits for its producer.")
        .def_prop_ro(
            "fragment",
            [](const ReceivedLpPacket& self) -> std::optional<Fragment> {
                const auto fragment = self.view.fragment();
                if (!fragment) return std::nullopt;
                return Fragment(fragment->sequence, fragment->index, fragment->count);
            },
            "Sequence, index and count of a piece; None for a whole packet.");
}

}  // namespace

ReceivedData::ReceivedData(nb::bytes packet)
    : wire(std::move(packet)), view(parse_or_throw<wire::DataView>(wire, "Data")) {}

void bind_received_packets(nb::module_& module) {
    bind_received_interest(module);
    bind_received_data(module);
    bind_received_lp_packet(module);
}

}  // namespace innet::bindings
