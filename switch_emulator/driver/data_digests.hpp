#pragma once
// Computes the implicit digests of a batch of received Data before the engine needs them one by
// one.

#include <cstddef>
#include <span>
#include <vector>

#include "switch_emulator/forwarding/node.hpp"
#include "transport/security/batch_hasher.hpp"

namespace innet::driver {

class DataDigests {
  public:
    /// `hasher` outlives this.
    explicit DataDigests(security::BatchHasher& hasher) : hasher_(hasher) {}

    /// Of the larger of `packets`, as links have brought them, if `node` will look at digests.
    void compute(std::span<const PacketRef> packets, const forwarding::Node& node);
    /// The digest of the Data in packet `i` of the batch, valid until the next call; null when it
    /// was not computed.
    const security::Sha256Digest* of(std::size_t i) const { return digests_[i]; }

  private:
    security::BatchHasher& hasher_;
    std::vector<security::HashJob> jobs_;
    std::vector<const security::Sha256Digest*> digests_;
};

}  // namespace innet::driver
