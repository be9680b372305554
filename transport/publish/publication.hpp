#pragma once
// One published tensor. The first request for a segment encodes its Data packet, which is kept
// until the publication is dropped, or no rank needs it any longer: where its publisher fetches the
// sum as all ranks do, packets say how much of that each holds.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/buffer/packet_ref.hpp"
#include "transport/publish/ahead_history.hpp"
#include "transport/publish/segment_name.hpp"
#include "transport/publish/segmentation.hpp"
#include "transport/security/keyring.hpp"
#include "transport/wire/data.hpp"

namespace innet {

/// A signed Data for `name` that says why there is no tensor; empty when the key can sign no more.
PacketRef make_tensor_error(wire::NameView name, wire::TensorErrorCode code,
                            const std::string& text, PacketPool& pool, security::Signer& signer);

class Publication {
  public:
    /// `tensor` is read until `retain_all` or `abort`; its size is that of `segmentation`, or of
    /// `segment_ends` (see PublicationSpec), which are read as long. `earlier_calls` is on each
    /// segment (see PublicationSpec). Each segment stands for `virtual_scale` times its bytes.
    Publication(const wire::Name& name, std::span<const std::uint8_t> tensor,
                Segmentation segmentation, std::span<const std::uint64_t> segment_ends,
                std::uint64_t tensor_elements, std::string description, std::string earlier_calls,
                std::uint32_t virtual_scale, PacketPool& pool,
                std::shared_ptr<security::Signer> signer);

    wire::NameView name() const { return namer_.tensor(); }
    const Segmentation& segmentation() const { return segmentation_; }
    const std::string& description() const { return description_; }
    security::Signer& signer() const { return *signer_; }

    /// The segment's packet, signed when `signed_for_network`, unless its MAC is due later.
    /// `segment` must exist. Empty when the key can sign no more, or no rank needs it.
    PacketRef packet(std::uint64_t segment, bool signed_for_network);

    /// From now on, packets show the tensor's bytes until somebody reads them, and no copy.
    void lend_tensor() { lends_ = true; }
    /// Encodes a segment, and copies it unless the tensor is lent, so that its bytes in the tensor
    /// may change. No effect the second time.
    void retain(std::uint64_t segment);
    /// A segment of the sum is here. All ranks hold those below `by_all`, and need their
    /// contributions no longer.
    void on_sum_received(std::uint64_t segment, std::uint64_t by_all);
    /// Copies the segments that some rank may need; the tensor is not read after that.
    void retain_all();
    /// Answers with an error from now on; the tensor is never read again.
    void abort(const std::string& why);

    /// Segments are sent ahead as `history` says, which all publications of a producer share. None
    /// is before this call.
    void send_ahead_by(std::shared_ptr<AheadHistory> history) { ahead_ = std::move(history); }
    /// Whether to send a segment ahead of requests: it has not been sent, and that has not been in
    /// vain lately. Counts it as sent if so.
    bool take_turn_ahead(std::uint64_t segment);
    void on_requested(std::uint64_t segment);

    /// Packet bytes kept for this tensor.
    std::size_t retained_bytes() const { return retained_bytes_; }

  private:
    enum class Sent : std::uint8_t { kNot, kAhead, kRequested };

    struct Segment {
        PacketRef packet;
        std::uint32_t signed_offset = 0;
        std::uint32_t signed_size = 0;
        std::uint32_t signature_offset = 0;
        bool is_signed = false;
        bool has_sum = false;
        Sent sent = Sent::kNot;
    };

    /// A segment's bytes in the tensor.
    std::span<const std::uint8_t> bytes_of(std::uint64_t segment) const;
    void forget_tensor();
    bool sign(Segment& segment);
    /// Drops a segment's packet, whatever shares it.
    void release(Segment& segment);

    SegmentNamer namer_;
    std::span<const std::uint8_t> tensor_;
    Segmentation segmentation_;
    std::span<const std::uint64_t> segment_ends_;
    std::uint64_t tensor_elements_;
    std::string description_;
    std::string earlier_calls_;
    std::string abort_reason_;
    std::uint32_t virtual_scale_;
    PacketPool& pool_;
    std::shared_ptr<security::Signer> signer_;
    std::shared_ptr<AheadHistory> ahead_;
    std::vector<Segment> segments_;
    std::size_t retained_bytes_ = 0;
    std::uint64_t received_ = 0;  ///< all segments of the sum below this one are here
    std::uint64_t released_ = 0;  ///< no rank needs segments below this one
    bool lends_ = false;
    bool aborted_ = false;
    bool all_retained_ = false;
};

}  // namespace innet
