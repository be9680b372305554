#pragma once
// SHA-256 of several messages at once: whoever has more than one core may use them.

#include <array>
#include <span>

#include "transport/security/sha256.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::security {

/// A message, in up to three parts one after the other, and its digest once that is known.
struct HashJob {
    std::array<wire::ByteView, 3> parts;
    Sha256Digest digest{};
};

class BatchHasher {
  public:
    virtual ~BatchHasher() = default;
    /// Fills in the digests of all. The messages may change when it has returned.
    virtual void digest(std::span<HashJob> jobs) = 0;
};

/// One after the other, where it is called.
class SerialHasher final : public BatchHasher {
  public:
    void digest(std::span<HashJob> jobs) override {
        for (HashJob& job : jobs) job.digest = sha256_.digest(job.parts);
    }

  private:
    Sha256 sha256_;
};

}  // namespace innet::security
