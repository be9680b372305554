#pragma once
// status: the node as a whole.

#include <string>

#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/management/module.hpp"

namespace innet::management {

class StatusModule final : public Module {
  public:
    /// Both since 1970: when the engine's clock said 0, and when the node was started.
    StatusModule(const forwarding::Node& node, std::int64_t wall_time_at_zero_ms,
                 std::uint64_t started_ms)
        : node_(node), wall_time_at_zero_ms_(wall_time_at_zero_ms), started_ms_(started_ms) {}

    std::string_view name() const override { return "status"; }
    DatasetKind dataset_kind(std::string_view verb) const override;
    std::optional<Bytes> dataset(std::string_view verb, wire::ByteView filter,
                                 TimePoint now) const override;

    void set_wall_time_at_zero(std::int64_t ms) { wall_time_at_zero_ms_ = ms; }
    /// Since 1970.
    std::uint64_t wall_time_ms(TimePoint now) const;
    /// What a face has counted stays in the sums after it is gone.
    void on_face_closed(FaceId face);

  private:
    struct Totals {
        std::uint64_t interests_in = 0, data_in = 0, nacks_in = 0;
        std::uint64_t interests_out = 0, data_out = 0, nacks_out = 0;

        void add(const forwarding::FaceCounters& counters);
    };

    const forwarding::Node& node_;
    std::int64_t wall_time_at_zero_ms_;
    std::uint64_t started_ms_;
    Totals closed_;
};

}  // namespace innet::management
