#pragma once
// The Data that answers a reduction: the sum, or an error.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "switch_emulator/reduction/reduction_name.hpp"
#include "switch_emulator/reduction/slot.hpp"
#include "transport/security/keyring.hpp"

namespace innet::reduction {

/// FreshnessPeriod of a sum. The name fixes the value, so this only has to outlast retransmissions.
inline constexpr Duration kResultFreshness = std::chrono::seconds(10);

/// How the operands that have arrived contradict each other or the type, for people; nothing when
/// they agree. Compares operand `latest` with the first that is there.
std::optional<std::string> find_disagreement(const ReductionName& name, const Slot& slot,
                                             std::size_t latest);

/// The reason why a result of varying size is not sent.
std::string too_large_text(const ReductionName& name);

/// Makes signed Data of reductions.
class ResultBuilder {
  public:
    explicit ResultBuilder(PacketPool& pool) : pool_(pool) {}

    struct Outcome {
        PacketRef data;  ///< empty when it cannot be encoded or signed
        ReduceStatus status = ReduceStatus::kOk;
        bool carries = false;  ///< a sum of integers that left its type
    };
    /// The reduction of a slot's operands that take part, all of which have arrived and agree. No
    /// Data unless the status is kOk.
    Outcome value(const ReductionName& name, const Slot& slot, security::Signer& signer);
    /// A TensorError; empty when it cannot be encoded or signed.
    PacketRef error(const ReductionName& name, wire::TensorErrorCode code, std::string_view text,
                    security::Signer& signer);

  private:
    struct Draft {
        security::Signer& signer;
        PacketRef packet;
        wire::DataLayout layout;
        std::span<std::uint8_t> content;
    };
    /// Encodes all but content and signature; no packet when they do not fit.
    void encode(wire::DataFields fields, std::size_t content_size, Draft& into);
    /// Drafts the reduction of `operands_`, which has their size. `fields` has the carry of the
    /// operands, and gets that of the result.
    ReduceStatus draft_fixed(const Format& format, wire::DataFields& fields, Draft& into);
    /// Drafts a reduction whose size is known only after reducing.
    ReduceStatus draft_varying(const Format& format, wire::DataFields& fields, Draft& into);
    static PacketRef sign(Draft draft);

    PacketPool& pool_;
    // Scratch, kept for its memory.
    std::vector<wire::ByteView> operands_;
    std::vector<std::uint8_t> varying_;
};

}  // namespace innet::reduction
