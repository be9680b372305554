#include <algorithm>
#include <utility>

#include "transport/security/ed25519.hpp"
#include "transport/security/gmac.hpp"
#include "transport/security/hmac_sha256.hpp"
#include "transport/security/keyring.hpp"
#include "transport/security/sha256.hpp"

namespace innet::security {

namespace {

class DigestSigner final : public Signer {
  public:
    wire::SignatureType type() const override { return wire::SignatureType::kDigestSha256; }
    wire::NameView key_name() const override { return {}; }
    std::size_t signature_size() const override { return kSha256Size; }

    bool sign(wire::ByteView signed_portion, std::span<std::uint8_t> signature) override {
        if (signature.size() != kSha256Size) return false;
        const Sha256Digest digest = sha256_.digest(signed_portion);
        std::copy(digest.begin(), digest.end(), signature.begin());
        return true;
    }

  private:
    Sha256 sha256_;
};

class NullSigner final : public Signer {
  public:
    wire::SignatureType type() const override { return wire::SignatureType::kNull; }
    wire::NameView key_name() const override { return {}; }
    std::size_t signature_size() const override { return 0; }
    bool sign(wire::ByteView, std::span<std::uint8_t> signature) override {
        return signature.empty();
    }
};

class HmacSigner final : public Signer {
  public:
    HmacSigner(wire::Name key_name, wire::ByteView secret)
        : key_name_(std::move(key_name)), hmac_(secret) {}

    wire::SignatureType type() const override { return wire::SignatureType::kHmacSha256; }
    wire::NameView key_name() const override { return key_name_.view(); }
    std::size_t signature_size() const override { return kSha256Size; }

    bool sign(wire::ByteView signed_portion, std::span<std::uint8_t> signature) override {
        if (signature.size() != kSha256Size) return false;
        const Sha256Digest tag = hmac_.tag(signed_portion);
        std::copy(tag.begin(), tag.end(), signature.begin());
        return true;
    }

  private:
    wire::Name key_name_;
    HmacSha256 hmac_;
};

class Ed25519Signer final : public Signer {
  public:
    Ed25519Signer(wire::Name key_name, std::unique_ptr<Ed25519PrivateKey> key)
        : key_name_(std::move(key_name)), key_(std::move(key)) {}

    wire::SignatureType type() const override { return wire::SignatureType::kEd25519; }
    wire::NameView key_name() const override { return key_name_.view(); }
    std::size_t signature_size() const override { return kEd25519SignatureSize; }

    bool sign(wire::ByteView signed_portion, std::span<std::uint8_t> signature) override {
        if (signature.size() != kEd25519SignatureSize) return false;
        key_->sign(signed_portion, signature.first<kEd25519SignatureSize>());
        return true;
    }

  private:
    wire::Name key_name_;
    std::unique_ptr<Ed25519PrivateKey> key_;
};

class GmacSigner final : public Signer {
  public:
    GmacSigner(wire::Name key_name, wire::ByteView secret, std::array<std::uint8_t, 6> salt)
        : key_name_(std::move(key_name)), gmac_(secret) {
        std::copy(salt.begin(), salt.end(), iv_.begin());
    }

    wire::SignatureType type() const override { return wire::SignatureType::kGmac; }
    wire::NameView key_name() const override { return key_name_.view(); }
    std::size_t signature_size() const override { return kGmacIvSize + kGmacTagSize; }

    bool sign(wire::ByteView signed_portion, std::span<std::uint8_t> signature) override {
        return sign_parts(std::span(&signed_portion, 1), signature);
    }

    bool sign_parts(std::span<const wire::ByteView> parts,
                    std::span<std::uint8_t> signature) override {
        if (signature.size() != signature_size() || next_ > kLastCounter) return false;
        std::uint64_t counter = next_++;
        for (std::size_t i = kGmacIvSize; i-- > kSaltSize; counter >>= 8) {
            iv_[i] = static_cast<std::uint8_t>(counter);
        }
        const GmacTag tag = gmac_.tag(iv_, parts);
        std::copy(iv_.begin(), iv_.end(), signature.begin());
        std::copy(tag.begin(), tag.end(), signature.begin() + kGmacIvSize);
        return true;
    }

  private:
    static constexpr std::size_t kSaltSize = 6;
    static constexpr std::uint64_t kLastCounter = (std::uint64_t{1} << 48) - 1;

    wire::Name key_name_;
    Gmac gmac_;
    std::array<std::uint8_t, kGmacIvSize> iv_{};
    std::uint64_t next_ = 0;
};

}  // namespace

bool Signer::sign_parts(std::span<const wire::ByteView> parts, std::span<std::uint8_t> signature) {
    const bool has_more = std::ranges::any_of(parts.subspan(std::min<std::size_t>(parts.size(), 1)),
                                              [](wire::ByteView part) { return !part.empty(); });
    return !has_more && sign(parts.empty() ? wire::ByteView() : parts.front(), signature);
}

std::unique_ptr<Signer> make_digest_signer() { return std::make_unique<DigestSigner>(); }
std::unique_ptr<Signer> make_null_signer() { return std::make_unique<NullSigner>(); }

std::unique_ptr<Signer> make_hmac_signer(wire::Name key_name, wire::ByteView secret) {
    if (secret.empty()) return nullptr;
    return std::make_unique<HmacSigner>(std::move(key_name), secret);
}

std::unique_ptr<Signer> make_ed25519_signer(wire::Name key_name, wire::ByteView seed) {
    auto key = Ed25519PrivateKey::from_seed(seed);
    if (!key) return nullptr;
    return std::make_unique<Ed25519Signer>(std::move(key_name), std::move(key));
}

std::unique_ptr<Signer> make_gmac_signer(wire::Name key_name, wire::ByteView secret,
                                         std::array<std::uint8_t, 6> salt) {
    if (!Gmac::is_key_size(secret.size())) return nullptr;
    return std::make_unique<GmacSigner>(std::move(key_name), secret, salt);
}

}  // namespace innet::security
