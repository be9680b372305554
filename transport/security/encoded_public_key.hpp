#pragma once
// Public keys as certificates have them, of the kinds that other NDN software signs with.

#include <memory>

#include "transport/wire/data.hpp"

namespace innet::security {

/// A key in X.509 SubjectPublicKeyInfo (RFC 5280): ECDSA over P-256 with SHA-256, DER signatures
/// (NDN Packet Format v0.3, SignatureSha256WithEcdsa), or RSA PKCS #1 v1.5 with SHA-256
/// (SignatureSha256WithRsa). For commands: a verification takes about 100 us, too long for every
/// packet. Confined to one thread.
class EncodedPublicKey {
  public:
    /// Null when these bytes are anything but one key: of that kind, on that curve, or of 2048 to
    /// 8192 bits.
    static std::unique_ptr<EncodedPublicKey> from_der(wire::SignatureType type, wire::ByteView der);
    ~EncodedPublicKey();

    wire::SignatureType type() const;
    bool verify(wire::ByteView message, wire::ByteView signature);

  private:
    struct Context;
    explicit EncodedPublicKey(std::unique_ptr<Context> context);
    std::unique_ptr<Context> context_;
};

}  // namespace innet::security
