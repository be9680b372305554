#include "switch_emulator/management/answer_packets.hpp"

#include <algorithm>

#include "switch_emulator/forwarding/face.hpp"
#include "transport/wire/data.hpp"

namespace innet::management {

AnswerPackets::AnswerPackets(PacketPool& pool)
    : pool_(pool), signer_(security::make_digest_signer()) {}

PacketRef AnswerPackets::make(wire::NameView name, wire::ByteView content,
                              std::optional<std::uint64_t> final_segment) {
    wire::DataFields fields;
    fields.name = name;
    fields.freshness = std::chrono::seconds(1);
    fields.final_segment = final_segment;
    fields.signature_type = signer_->type();
    const std::size_t size =
        wire::encoded_data_size(fields, content.size(), signer_->signature_size());
    if (size > kMaxForeignPacketBytes) return {};
    PacketRef packet = pool_.allocate(size);
    const auto bytes = packet.writable();
    const auto layout = wire::encode_data(fields, content.size(), signer_->signature_size(), bytes);
    std::ranges::copy(content, bytes.subspan(layout.content_offset).begin());
    const bool signed_well =
        layout.size == size &&
        signer_->sign(bytes.subspan(layout.signed_offset, layout.signed_size),
                      bytes.subspan(layout.signature_offset, layout.signature_size));
    return signed_well ? packet : PacketRef();
}

}  // namespace innet::management
