#pragma once
// cs: the content store.

#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/management/module.hpp"

namespace innet::management {

/// NFD counts its content store in packets; this node's is bounded in bytes. On the wire, one unit
/// of Capacity stands for this many bytes: the largest packet that every NDN program takes.
inline constexpr std::size_t kBytesPerCapacity = kMaxForeignPacketBytes;

class CsModule final : public Module {
  public:
    explicit CsModule(forwarding::Node& node) : node_(node) {}

    std::string_view name() const override { return "cs"; }
    std::span<const CommandRule> commands() const override;
    std::optional<ControlResponse> run(std::string_view verb, const ControlParameters& parameters,
                                       const CommandContext& context) override;
    DatasetKind dataset_kind(std::string_view verb) const override;
    std::optional<Bytes> dataset(std::string_view verb, wire::ByteView filter,
                                 TimePoint now) const override;

  private:
    ControlResponse configure(const ControlParameters& parameters);
    ControlResponse erase(ControlParameters parameters);

    forwarding::Node& node_;
};

}  // namespace innet::management
