#include "switch_under_test.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "transport/security/manifest.hpp"

namespace innet::testing {

namespace {

constexpr std::string_view kSecret = "0123456789abcdef0123456789abcdef";

Sent parse_sent(const OutgoingPacket& packet) {
    std::vector<std::uint8_t> whole(packet.header_bytes().begin(), packet.header_bytes().end());
    whole.insert(whole.end(), packet.payload.bytes().begin(), packet.payload.bytes().end());
    const auto link = wire::LpView::parse(whole);
    REQUIRE(link);
    Sent sent;
    sent.size = packet.size();
    sent.token = text(link->pit_token());
    sent.mark = link->congestion_mark();
    if (const auto data = wire::DataView::parse(link->payload())) {
        sent.kind = Sent::Kind::kData;
        sent.name = data->name().to_uri();
        sent.content = text(data->content());
        sent.is_draft = security::is_draft(*data);
        return sent;
    }
    const auto interest = wire::InterestView::parse(link->payload());
    REQUIRE(interest);
    sent.name = interest->name().to_uri();
    sent.nonce = interest->nonce().value_or(0);
    sent.hop_limit = interest->hop_limit();
    sent.must_be_fresh = interest->must_be_fresh();
    sent.accepts_draft = interest->accepts_draft();
    if (link->nack()) {
        sent.kind = Sent::Kind::kNack;
        sent.reason = *link->nack();
    } else if (link->held()) {
        sent.kind = Sent::Kind::kHold;
        sent.missing = text(link->hold_missing());
    }
    return sent;
}

}  // namespace

forwarding::NodeOptions SwitchUnderTest::default_options() {
    forwarding::NodeOptions options;
    options.own_name = name("/n/s0");
    options.cache_bytes = 1 << 20;
    options.pit_capacity = 1024;
    return options;
}

SwitchUnderTest::SwitchUnderTest(std::size_t faces, forwarding::NodeOptions options,
                                 const FaceOptions& face_options)
    : signer(security::make_hmac_signer(name("/keys/job"), bytes(kSecret))),
      foreign_signer(security::make_hmac_signer(name("/keys/other"), bytes(kSecret))),
      node(std::move(options), pool, keyring, signer.get()) {
    REQUIRE(keyring.add(wire::SignatureType::kHmacSha256, name("/keys/job"), bytes(kSecret)));
    node.set_application(&application);
    for (std::size_t i = 0; i < faces; ++i) node.add_face(face_options);
}

PacketRef SwitchUnderTest::interest(std::string_view uri, std::uint32_t nonce,
                                    const InterestOptions& options) {
    const wire::Name interest_name = name(uri);
    const wire::Name hint = options.hint.empty() ? wire::Name() : name(options.hint);
    PacketRef packet = pool.allocate(1024);
    packet.truncate(wire::encode_interest({.name = interest_name.view(),
                                           .forwarding_hint = hint.view(),
                                           .nonce = nonce,
                                           .lifetime = options.lifetime,
                                           .can_be_prefix = options.can_be_prefix,
                                           .must_be_fresh = options.must_be_fresh,
                                           .hop_limit = options.hop_limit,
                                           .accepts_draft = options.accepts_draft},
                                          packet.writable()));
    REQUIRE(packet.size() > 0);
    if (options.token.empty()) return packet;
    wire::LpFields fields;
    fields.pit_token = bytes(options.token);
    return with_headers(packet, fields);
}

PacketRef SwitchUnderTest::data(std::string_view uri, std::string_view content, Duration freshness,
                                std::optional<wire::TensorErrorCode> error) {
    const wire::Name data_name = name(uri);
    wire::DataFields fields;
    fields.name = data_name.view();
    fields.freshness = freshness;
    fields.tensor_error = error;
    return signed_data(fields, content, *signer);
}

PacketRef SwitchUnderTest::tensor(std::string_view uri, const std::vector<float>& elements) {
    const wire::Name data_name = name(uri);
    wire::DataFields fields;
    fields.name = data_name.view();
    fields.tensor_elements = elements.size();
    const std::string_view content(reinterpret_cast<const char*>(elements.data()),
                                   elements.size() * sizeof(float));
    return signed_data(fields, content, *signer);
}

PacketRef SwitchUnderTest::foreign_data(std::string_view uri, wire::ContentType type) {
    const wire::Name data_name = name(uri);
    wire::DataFields fields;
    fields.name = data_name.view();
    fields.content_type = type;
    return signed_data(fields, "value", *foreign_signer);
}

PacketRef SwitchUnderTest::signed_data(const wire::DataFields& given, std::string_view content,
                                       security::Signer& by) {
    wire::DataFields fields = given;
    fields.signature_type = by.type();
    fields.key_name = by.key_name();
    PacketRef packet = pool.allocate(content.size() + 512);
    const auto buffer = packet.writable();
    const wire::DataLayout layout =
        wire::encode_data(fields, content.size(), by.signature_size(), buffer);
    REQUIRE(layout.size > 0);
    std::ranges::copy(bytes(content),
                      buffer.begin() + static_cast<std::ptrdiff_t>(layout.content_offset));
    packet.truncate(layout.size);
    const auto view = wire::DataView::parse(packet.bytes());
    REQUIRE(view);
    REQUIRE(by.sign(view->signed_portion(),
                    buffer.subspan(layout.signature_offset, layout.signature_size)));
    return packet;
}

PacketRef SwitchUnderTest::with_headers(const PacketRef& packet, const wire::LpFields& fields) {
    PacketRef whole = pool.allocate(packet.size() + 128);
    const std::size_t header = wire::encode_lp_header(fields, packet.size(), whole.writable());
    REQUIRE(header > 0);
    std::ranges::copy(packet.bytes(),
                      whole.writable().begin() + static_cast<std::ptrdiff_t>(header));
    whole.truncate(header + packet.size());
    return whole;
}

PacketRef SwitchUnderTest::nack(std::string_view uri, std::uint32_t nonce, wire::NackReason reason,
                                const InterestOptions& options) {
    wire::LpFields fields;
    fields.nack = reason;
    return with_headers(interest(uri, nonce, options), fields);
}

PacketRef SwitchUnderTest::hold(std::string_view uri, std::uint32_t nonce,
                                std::string_view missing) {
    wire::LpFields fields;
    fields.hold_missing = bytes(missing);
    return with_headers(interest(uri, nonce), fields);
}

void SwitchUnderTest::receive_interest(FaceId face, std::string_view uri, std::uint32_t nonce,
                                       const InterestOptions& options) {
    receive(face, interest(uri, nonce, options));
}

void SwitchUnderTest::wait(Duration duration) {
    now += duration;
    node.on_timer(now);
}

std::vector<Sent> SwitchUnderTest::sent(FaceId face) {
    std::vector<Sent> packets;
    for (const OutgoingPacket& packet : node.outbox().queue(face))
        packets.push_back(parse_sent(packet));
    node.outbox().queue(face).clear();
    return packets;
}

std::size_t SwitchUnderTest::sent_everywhere() {
    std::size_t packets = 0;
    for (std::size_t face = 0; face < node.outbox().faces(); ++face) {
        packets += sent(static_cast<FaceId>(face)).size();
    }
    return packets;
}

}  // namespace innet::testing
