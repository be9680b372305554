// How long signing and verifying take, without Python in between: for benchmarks.

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <openssl/crypto.h>

#include <array>
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "innet/_native/bindings.hpp"
#include "innet/_native/signing.hpp"
#include "transport/buffer/packet_ref.hpp"
#include "transport/security/batch_hasher.hpp"
#include "transport/security/gmac.hpp"
#include "transport/security/manifest.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

using nb::literals::operator""_a;

/// Data packets of one object with contents of their own, laid out and not yet signed.
class Packets {
  public:
    Packets(const security::Signer& signer, std::size_t content_bytes, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            wire::Name name = object_;
            name.append_number(wire::kSegmentComponent, i);
            wire::DataFields fields;
            fields.name = name.view();
            fields.signature_type = signer.type();
            fields.key_name = signer.key_name();
            const std::size_t signature_bytes = signer.signature_size();
            PacketRef packet =
                pool_.allocate(wire::encoded_data_size(fields, content_bytes, signature_bytes));
            if (!packet) throw nb::value_error("the content is larger than a packet can be");
            layouts_.push_back(
                wire::encode_data(fields, content_bytes, signature_bytes, packet.writable()));
            for (std::uint8_t& byte :
                 packet.writable().subspan(layouts_.back().content_offset, content_bytes)) {
                byte = static_cast<std::uint8_t>(bytes_filled_++ % 251);
            }
            packets_.push_back(std::move(packet));
        }
    }

    void sign(security::Signer& signer) {
        for (std::size_t i = 0; i < packets_.size(); ++i) {
            const std::span<std::uint8_t> bytes = packets_[i].writable();
            const wire::DataLayout& layout = layouts_[i];
            if (!signer.sign(bytes.subspan(layout.signed_offset, layout.signed_size),
                             bytes.subspan(layout.signature_offset, layout.signature_size))) {
                throw nb::value_error("the key does not sign");
            }
        }
    }

    /// The root manifest first.
    std::vector<PacketRef> manifests(security::Signer& root_signer) {
        security::ManifestBuilder builder(object_);
        for (const PacketRef& packet : packets_) builder.add(sha256_.digest(packet.bytes()));
        auto manifests = builder.build(pool_, root_signer);
        if (!manifests) throw nb::value_error("so many packets have no manifest");
        return std::move(*manifests);
    }

    const std::vector<PacketRef>& all() const { return packets_; }

  private:
    wire::Name object_ = *wire::Name::from_uri("/benchmark/object");
    PacketPool pool_;
    security::Sha256 sha256_;
    std::vector<PacketRef> packets_;
    std::vector<wire::DataLayout> layouts_;
    std::uint64_t bytes_filled_ = 0;
};

template <typename Work>
double seconds_of(const Work& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

wire::DataView parsed(const PacketRef& packet) {
    const auto view = wire::DataView::parse(packet.bytes());
    if (!view) throw nb::value_error("a packet is malformed");
    return *view;
}

void require_valid(const security::Keyring& keyring, const wire::DataView& data) {
    if (keyring.verify(data) != security::Verdict::kValid) {
        throw nb::value_error("the trusted key does not verify what the signing key signs");
    }
}

std::pair<double, double> signing_speed(const SigningKey& signing_key, const SigningKey& trusted,
                                        std::size_t content_bytes, std::size_t packets) {
    const auto signer = make_signer(signing_key);
    const security::Keyring keyring = make_keyring({trusted});
    Packets signed_packets(*signer, content_bytes, packets);
    const double sign_s = seconds_of([&] { signed_packets.sign(*signer); });
    std::vector<wire::DataView> views;
    for (const PacketRef& packet : signed_packets.all()) views.push_back(parsed(packet));
    const double verify_s = seconds_of([&] {
        for (const wire::DataView& view : views) require_valid(keyring, view);
    });
    return {sign_s, verify_s};
}

std::pair<double, double> manifest_speed(const SigningKey& signing_key, const SigningKey& trusted,
                                         std::size_t content_bytes, std::size_t packets) {
    const auto root_signer = make_signer(signing_key);
    const security::Keyring keyring = make_keyring({trusted});
    Packets segments(*security::make_null_signer(), content_bytes, packets);
    std::vector<PacketRef> manifests;
    const double sign_s = seconds_of([&] { manifests = segments.manifests(*root_signer); });
    const wire::DataView root = parsed(manifests.front());
    std::vector<wire::DataView> views;
    for (const PacketRef& packet : segments.all()) views.push_back(parsed(packet));
    const double verify_s = seconds_of([&] {
        require_valid(keyring, root);
        auto verifier = security::ManifestVerifier::from_verified_root(root);
        for (std::size_t i = 1; i < manifests.size(); ++i) {
            if (!verifier || !verifier->add_manifest(parsed(manifests[i]))) {
                throw nb::value_error("a manifest does not verify");
            }
        }
        for (const wire::DataView& view : views) {
            if (!verifier || verifier->check(view) != security::SegmentVerdict::kValid) {
                throw nb::value_error("a segment does not verify");
            }
        }
    });
    return {sign_s, verify_s};
}

/// AES-128, one message again and again: the library alone, without looking a key up.
std::map<std::string, double> gmac_speed(std::size_t message_bytes, std::size_t messages) {
    const std::vector<std::uint8_t> key(16);
    const std::array<std::uint8_t, security::kGmacIvSize> iv{};
    const std::vector<std::uint8_t> message(message_bytes);
    std::map<std::string, double> seconds;
    for (const security::GmacLibrary library : security::gmac_libraries()) {
        security::Gmac gmac(key, library);
        gmac.tag(iv, message);
        seconds[security::name_of(library)] = seconds_of([&] {
            for (std::size_t i = 0; i < messages; ++i) gmac.tag(iv, message);
        });
    }
    return seconds;
}

/// Messages in three parts, as segments are, one after the other and `at_once`.
std::map<std::string, double> sha256_speed(std::size_t message_bytes, std::size_t at_once,
                                           std::size_t batches) {
    constexpr std::size_t kAround = 64;
    const std::vector<std::uint8_t> around(kAround);
    const std::vector<std::uint8_t> contents(message_bytes * at_once);
    std::vector<security::HashJob> jobs;
    for (std::size_t i = 0; i < at_once; ++i) {
        const auto content = std::span(contents).subspan(i * message_bytes, message_bytes);
        jobs.push_back({{around, content, around}});
    }
    security::Sha256 sha256;
    const auto one_by_one = [&] {
        for (security::HashJob& job : jobs) job.digest = sha256.digest(job.parts);
    };
    std::map<std::string, double> seconds;
    const auto measure = [&](const std::string& name, const auto& work) {
        work();
        seconds[name] = seconds_of([&] {
            for (std::size_t i = 0; i < batches; ++i) work();
        });
    };
    measure(OpenSSL_version(OPENSSL_VERSION), one_by_one);
    security::SerialHasher hasher;
    measure(security::sha256_libraries(), [&] { hasher.digest(jobs); });
    return seconds;
}

}  // namespace

void bind_signing_speed(nb::module_& module) {
    module.def("signing_speed", &signing_speed, "signing_key"_a, "trusted_key"_a, "content_bytes"_a,
               "packets"_a,
               "Seconds that signing, and verifying, so many packets takes, each by itself.");
    module.def("manifest_speed", &manifest_speed, "signing_key"_a, "trusted_key"_a,
               "content_bytes"_a, "packets"_a,
               "The same for the packets of one object, whose manifest alone is signed.");
    module.def("gmac_speed", &gmac_speed, "message_bytes"_a, "messages"_a,
               "Seconds that each library for GMAC takes for so many messages, by its name.");
    module.def("sha256_speed", &sha256_speed, "message_bytes"_a, "at_once"_a, "batches"_a,
               "Seconds that OpenSSL takes for so many batches of messages, one message after the "
               "other, and what this CPU hashes batches with, by name.");
}

}  // namespace innet::bindings
