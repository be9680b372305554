#pragma once
// faces: made, changed and taken down by clients, and listed.

#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/management/face_factory.hpp"
#include "switch_emulator/management/module.hpp"

namespace innet::management {

class FacesModule final : public Module {
  public:
    explicit FacesModule(forwarding::Node& node) : node_(node) {}

    /// It outlives the module; null (the start): no faces are made, and none has a URI.
    void set_factory(FaceFactory* factory) { factory_ = factory; }

    std::string_view name() const override { return "faces"; }
    std::span<const CommandRule> commands() const override;
    std::optional<ControlResponse> run(std::string_view verb, const ControlParameters& parameters,
                                       const CommandContext& context) override;
    DatasetKind dataset_kind(std::string_view verb) const override;
    std::optional<Bytes> dataset(std::string_view verb, wire::ByteView filter,
                                 TimePoint now) const override;

  private:
    std::optional<ControlResponse> create(const ControlParameters& parameters,
                                          const CommandContext& context);
    ControlResponse created(ControlParameters parameters, const FaceCreation& creation);
    ControlResponse update(ControlParameters parameters, const CommandContext& context);
    ControlResponse destroy(const ControlParameters& parameters, const CommandContext& context);
    /// No effect on a face that marks nothing by itself.
    void set_marking(FaceId face, const ControlParameters& parameters);
    FaceDescription describe(FaceId face) const;
    void fill(ControlParameters& body, FaceId face) const;
    Bytes channels() const;

    forwarding::Node& node_;
    FaceFactory* factory_ = nullptr;
};

}  // namespace innet::management
