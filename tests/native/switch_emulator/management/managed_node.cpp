#include "managed_node.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "transport/security/sha256.hpp"

namespace innet::testing {

namespace {

using test::Bytes;
using test::from_hex;
using test::join;
using test::tlv;

Bytes bytes_of(wire::ByteView view) { return {view.begin(), view.end()}; }

}  // namespace

Bytes number(std::uint32_t type, std::uint64_t value) {
    Bytes element(wire::element_size(type, wire::nonnegative_size(value)));
    wire::Writer writer{std::span(element)};
    writer.nonnegative_element(type, value);
    return element;
}

namespace {

Bytes digest_of(const Bytes& message) {
    const auto digest = security::Sha256().digest(message);
    return {digest.begin(), digest.end()};
}

Response read_response(wire::ByteView content) {
    const auto whole = wire::read_only_element(content);
    REQUIRE(whole);
    REQUIRE(whole->type == management::kControlResponse);
    wire::Reader reader(whole->value);
    const auto code = reader.next();
    const auto status = reader.next();
    const auto body = management::ControlParameters::parse(reader.rest());
    REQUIRE(code);
    REQUIRE(status);
    REQUIRE(body);  // in errors, too
    return {wire::read_nonnegative(code->value).value(), text(status->value), *body};
}

}  // namespace

Bytes digest_signed_interest(const wire::Name& prefix, const Bytes& parameters,
                             std::uint64_t time_ms, std::uint64_t nonce) {
    const Bytes info =
        tlv(wire::kInterestSignatureInfo,
            {number(wire::kSignatureType, 0), tlv(wire::kSignatureNonce, {number(1, nonce)}),
             number(wire::kSignatureTime, time_ms)});
    const Bytes name = bytes_of(prefix.view().value());
    const Bytes first = join({tlv(wire::kApplicationParameters, {parameters}), info});
    const Bytes value = tlv(wire::kInterestSignatureValue, {digest_of(join({name, first}))});
    const Bytes portion = join({first, value});
    const Bytes digest = tlv(wire::kParametersSha256Digest, {digest_of(portion)});
    return tlv(wire::kInterest, {tlv(wire::kName, {name, digest}), tlv(wire::kCanBePrefix),
                                 tlv(wire::kMustBeFresh), portion});
}

management::ControlParameters named(std::string_view uri) {
    management::ControlParameters parameters;
    parameters.name = name(uri);
    return parameters;
}

management::ManagementOptions ManagedNode::default_options() {
    management::ManagementOptions options;
    options.wall_time_at_zero_ms = kWallTimeMs - 3'600'000;  // the engine's clock says one hour
    options.started_ms = kWallTimeMs - 1000;
    return options;
}

ManagedNode::ManagedNode(const management::ManagementOptions& options)
    : management(node.node, node.pool, options) {
    for (FaceId face = 0; face <= kFarFace; ++face) {
        node.node.add_face({.foreign = true,
                            .scope = face == kFarFace ? FaceScope::kNonLocal : FaceScope::kLocal,
                            .admitted_by_file = face != kFarFace});
    }
    node.node.set_management(&management);
    management.set_face_factory(&factory);
}

void ManagedNode::receive(FaceId face, const Bytes& packet) {
    node.receive(face, node.pool.copy_of(packet));
}

Response ManagedNode::response(FaceId face) {
    const auto sent = node.sent(face);
    REQUIRE(sent.size() == 1);
    REQUIRE(sent[0].kind == Sent::Kind::kData);
    return read_response(bytes(sent[0].content));
}

Response ManagedNode::command(FaceId face, const Bytes& packet) {
    receive(face, packet);
    return response(face);
}

Bytes ManagedNode::signed_command(std::string_view verb,
                                  const management::ControlParameters& parameters) {
    management::Message message;
    parameters.write_to(message);
    wire::Name prefix = name("/localhost/nfd/" + std::string(verb));
    prefix.append(message.bytes());
    const auto since_start =
        std::chrono::duration_cast<std::chrono::milliseconds>(node.now.time_since_epoch()).count();
    const auto now_ms = kWallTimeMs - 3'600'000 + static_cast<std::uint64_t>(since_start);
    signature_time_ms_ = std::max(signature_time_ms_ + 1, now_ms);
    return digest_signed_interest(prefix, {}, signature_time_ms_, signature_time_ms_);
}

Response ManagedNode::command(FaceId face, std::string_view verb,
                              const management::ControlParameters& parameters) {
    return command(face, signed_command(verb, parameters));
}

Bytes ManagedNode::dataset(FaceId face, std::string_view uri) {
    node.receive_interest(face, uri, 1, {.can_be_prefix = true, .must_be_fresh = true});
    auto sent = node.sent(face);
    REQUIRE(sent.size() == 1);
    REQUIRE(sent[0].kind == Sent::Kind::kData);
    const std::string versioned = sent[0].name.substr(0, sent[0].name.rfind('/'));
    Bytes content;
    for (std::uint32_t segment = 0;; ++segment) {
        const std::string segment_name = versioned + "/seg=" + std::to_string(segment);
        node.receive_interest(face, segment_name, 2 + segment);
        sent = node.sent(face);
        REQUIRE(sent.size() == 1);
        if (sent[0].kind == Sent::Kind::kNack) return content;
        REQUIRE(sent[0].name == segment_name);
        content.insert(content.end(), sent[0].content.begin(), sent[0].content.end());
    }
}

std::vector<std::string> ManagedNode::routes() {
    std::vector<std::string> shown;
    for (const auto& route : node.node.routes()) {
        shown.push_back(route.prefix.view().to_uri() + ">" + std::to_string(route.face) + "/" +
                        std::to_string(route.cost));
    }
    return shown;
}

}  // namespace innet::testing
