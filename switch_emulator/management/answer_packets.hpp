#pragma once
// The Data that management answers with.

#include <cstdint>
#include <memory>
#include <optional>

#include "switch_emulator/management/message.hpp"
#include "transport/buffer/packet_ref.hpp"
#include "transport/security/keyring.hpp"
#include "transport/time.hpp"

namespace innet::management {

/// Signed by DigestSha256, which every client of NFD accepts: clients trust the answer because the
/// node itself sends it.
class AnswerPackets {
  public:
    explicit AnswerPackets(PacketPool& pool);

    /// Empty when the packet would be larger than every NDN program takes.
    PacketRef make(wire::NameView name, wire::ByteView content,
                   std::optional<std::uint64_t> final_segment = std::nullopt);

  private:
    PacketPool& pool_;
    std::unique_ptr<security::Signer> signer_;
};

}  // namespace innet::management
