#pragma once
// What must hold of every packet, whoever made it. Reads all that its views offer, so that a
// sanitizer sees each access.

#include <algorithm>
#include <vector>

#include "transport/security/parameters_digest.hpp"
#include "transport/wire/data.hpp"
#include "transport/wire/data_details.hpp"
#include "transport/wire/interest.hpp"
#include "transport/wire/interest_signature.hpp"
#include "transport/wire/lp.hpp"

namespace innet::test {

/// The first property that fails; reads everything on the way.
class PacketProperties {
  public:
    /// Null when all hold of `packet`, which may be any bytes.
    static const char* violated_by(wire::ByteView packet) {
        PacketProperties check;
        if (const auto link = wire::LpView::parse(packet)) check.link(*link);
        if (const auto interest = wire::InterestView::parse(packet)) check.interest(*interest);
        if (const auto data = wire::DataView::parse(packet)) check.data(*data);
        return check.violated_;
    }

  private:
    void require(bool holds, const char* property) {
        if (!holds && violated_ == nullptr) violated_ = property;
    }

    void read(wire::ByteView bytes) {
        for (const std::uint8_t byte : bytes) sum_ = sum_ * 31 + byte;
    }

    void name(wire::NameView name) {
        read(name.value());
        sum_ += name.hash();
        std::size_t components = 0;
        for (wire::Reader reader(name.value()); const auto component = reader.next();) {
            read(component->whole);
            ++components;
        }
        require(components == name.size(), "a name has as many components as it says");
        require(name.parent().is_prefix_of(name), "a name begins with its parent");
        const auto again = wire::Name::from_uri(name.to_uri());
        require(again && again->view() == name, "a name's text leads back to it");
    }

    void link(const wire::LpView& link) {
        read(link.payload());
        read(link.pit_token());
        read(link.hold_missing());
        require(link.pit_token().size() <= wire::kMaxPitTokenSize, "a PIT token is bounded");
        if (link.fragment()) {
            require(link.fragment()->index < link.fragment()->count, "a piece is one of them");
        } else if (link.nack() || link.held()) {
            require(link.payload()[0] == wire::kInterest, "refused and held are Interests");
        }
        link.for_each_ack([&](std::uint64_t number) { sum_ += number; });
        encoded_link(link);
    }

    /// What a node sends on is what it got: the fields survive being written again.
    void encoded_link(const wire::LpView& link) {
        buffer_.resize(2048 + link.hold_missing().size());
        const std::size_t size =
            wire::encode_lp_header(link.fields(), link.payload().size(), buffer_);
        require(size > 0, "link headers can be written again");
        const auto again = wire::LpView::parse_header(wire::ByteView(buffer_).first(size));
        require(again && same(again->pit_token(), link.pit_token()) &&
                    same(again->hold_missing(), link.hold_missing()) &&
                    again->congestion_mark() == link.congestion_mark() &&
                    again->nack() == link.nack() && again->held() == link.held() &&
                    again->hello() == link.hello() && again->tx_sequence() == link.tx_sequence(),
                "link headers are the same when they are written again");
    }

    static bool same(wire::ByteView a, wire::ByteView b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }

    void interest(const wire::InterestView& interest) {
        require(!interest.name().empty(), "an Interest has a name");
        name(interest.name());
        name(interest.forwarding_hint());
        read(interest.parameters());
        read(interest.parameters_portion());
        if (interest.hop_limit()) {
            require(interest.whole()[interest.hop_limit_offset()] == interest.hop_limit(),
                    "a hop limit is where it is said to be");
        }
        if (interest.has_parameters()) {
            security::Sha256 sha256;
            sum_ += security::parameters_digest_holds(interest, sha256) ? 1 : 0;
        }
        if (const auto signature = wire::InterestSignature::read(interest)) {
            name(signature->info.key_name);
            read(signature->info.nonce);
            read(signature->value);
            for (const wire::ByteView part : signature->signed_parts) read(part);
        }
        encoded_interest(interest);
    }

    void encoded_interest(const wire::InterestView& interest) {
        if (interest.has_parameters()) return;  // which the encoder of the engine's own has not
        wire::InterestFields fields;
        fields.name = interest.name();
        fields.forwarding_hint = interest.forwarding_hint();
        fields.nonce = interest.nonce().value_or(0);
        fields.lifetime = interest.lifetime();
        fields.can_be_prefix = interest.can_be_prefix();
        fields.must_be_fresh = interest.must_be_fresh();
        fields.accepts_draft = interest.accepts_draft();
        buffer_.resize(64 + interest.whole().size());
        const std::size_t size = wire::encode_interest(fields, buffer_);
        const auto again = wire::InterestView::parse(wire::ByteView(buffer_).first(size));
        require(again && again->name() == interest.name() &&
                    again->forwarding_hint() == interest.forwarding_hint() &&
                    again->nonce() == fields.nonce && again->lifetime() == interest.lifetime() &&
                    again->can_be_prefix() == interest.can_be_prefix() &&
                    again->must_be_fresh() == interest.must_be_fresh() &&
                    again->accepts_draft() == interest.accepts_draft(),
                "an Interest is the same when it is written again");
    }

    void data(const wire::DataView& data) {
        name(data.name());
        name(data.key_name());
        read(data.content());
        read(data.signed_portion());
        read(data.signature_value());
        const auto details = wire::DataDetails::of(data);
        for (const wire::ByteView part : {details.final_component, details.signature_info,
                                          details.key_digest, details.validity_period}) {
            read(part);
        }
        encoded_data(data);
    }

    void encoded_data(const wire::DataView& data) {
        wire::DataFields fields;
        fields.name = data.name();
        fields.content_type = data.content_type();
        fields.freshness = data.freshness();
        fields.final_segment = data.final_segment();
        fields.tensor_elements = data.tensor_elements();
        fields.signature_type = data.signature_type();
        fields.key_name = data.key_name();
        const std::size_t signature_size = data.signature_value().size();
        const std::size_t expected =
            wire::encoded_data_size(fields, data.content().size(), signature_size);
        buffer_.resize(expected);
        const auto layout =
            wire::encode_data(fields, data.content().size(), signature_size, buffer_);
        require(layout.size == expected, "a Data packet has the size that was said before");
        const auto again = wire::DataView::parse(buffer_);
        require(again && again->name() == data.name() && again->key_name() == data.key_name() &&
                    again->content_type() == data.content_type() &&
                    again->freshness() == data.freshness() &&
                    again->final_segment() == data.final_segment() &&
                    again->tensor_elements() == data.tensor_elements() &&
                    again->signature_type() == data.signature_type(),
                "a Data packet is the same when it is written again");
    }

    const char* violated_ = nullptr;
    std::size_t sum_ = 0;
    std::vector<std::uint8_t> buffer_;
};

}  // namespace innet::test
