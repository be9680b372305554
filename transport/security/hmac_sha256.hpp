#pragma once
// HMAC-SHA256 (RFC 2104) with its key schedule kept.

#include <memory>

#include "transport/security/sha256.hpp"

namespace innet::security {

/// Authenticates one message after the other. Confined to one thread.
class HmacSha256 {
  public:
    /// `secret` is not empty.
    explicit HmacSha256(wire::ByteView secret);
    ~HmacSha256();

    Sha256Digest tag(wire::ByteView message);

  private:
    struct Context;
    std::unique_ptr<Context> context_;
};

}  // namespace innet::security
