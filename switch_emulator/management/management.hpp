#pragma once
// The management of a node, as NFD's clients know it: commands and datasets below `/localhost/nfd`
// and `/localhop/nfd` (NFD Management protocol,
// redmine.named-data.net/projects/nfd/wiki/Management). Sans-IO, as the node is.

#include <array>
#include <cstdint>

#include "switch_emulator/forwarding/local_service.hpp"
#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/management/answer_packets.hpp"
#include "switch_emulator/management/authorisation.hpp"
#include "switch_emulator/management/command.hpp"
#include "switch_emulator/management/cs_module.hpp"
#include "switch_emulator/management/dataset_store.hpp"
#include "switch_emulator/management/faces_module.hpp"
#include "switch_emulator/management/fib_module.hpp"
#include "switch_emulator/management/rib_module.hpp"
#include "switch_emulator/management/status_module.hpp"
#include "switch_emulator/management/strategy_module.hpp"
#include "transport/metric.hpp"

namespace innet::management {

struct ManagementOptions {
    AuthorisationOptions authorisation;
    /// Wall time, in milliseconds since 1970, when the engine's clock said 0.
    std::int64_t wall_time_at_zero_ms = 0;
    std::uint64_t started_ms = 0;      ///< likewise since 1970: when the node was started
    std::size_t max_routes = 262'144;  ///< of clients, together
    /// In the FIB, from any source, with those that longer prefixes inherit. Clients cannot add
    /// next hops beyond.
    std::size_t max_next_hops = 1'048'576;
    std::size_t max_strategy_choices = 4096;
};

struct ManagementCounters {
    std::uint64_t commands = 0;
    std::uint64_t malformed = 0;
    std::uint64_t forbidden = 0;
    std::uint64_t replayed = 0;
    std::uint64_t keyless = 0;
    std::uint64_t announcements_forbidden = 0;
    std::uint64_t stale = 0;
    std::uint64_t full = 0;
    std::uint64_t datasets = 0;
    std::uint64_t routes = 0;

    static constexpr auto metrics() {
        using enum MetricKind;
        return std::to_array<Metric<ManagementCounters>>({
            {"commands", "commands", kCounter,
             "Management commands carried out, or refused for a wrong value",
             &ManagementCounters::commands},
            {"malformed", "commands_malformed", kCounter,
             "Management commands that could not be parsed", &ManagementCounters::malformed},
            {"forbidden", "commands_forbidden", kCounter, "Management commands refused with 403",
             &ManagementCounters::forbidden},
            {"replayed", "commands_replayed", kCounter,
             "Forbidden commands that were received before", &ManagementCounters::replayed},
            {"keyless", "commands_keyless", kCounter,
             "Forbidden commands over TCP or UDP while no keys are listed",
             &ManagementCounters::keyless},
            {"announcements_forbidden", "announcements_forbidden", kCounter,
             "Forbidden prefix announcements inside allowed commands",
             &ManagementCounters::announcements_forbidden},
            {"stale", "commands_stale", kCounter,
             "Forbidden commands whose time differs from this node's", &ManagementCounters::stale},
            {"full", "commands_without_room", kCounter,
             "Management commands refused because a table was full", &ManagementCounters::full},
            {"datasets", "dataset_requests", kCounter, "Interests for management's datasets",
             &ManagementCounters::datasets},
            {"routes", "registered_routes", kGauge, "Routes that clients have registered",
             &ManagementCounters::routes},
        });
    }
};
static_assert(has_metric_for_each_member<ManagementCounters>());

class Management final : public forwarding::LocalService {
  public:
    /// `node` and `pool` must outlive it. Throws std::invalid_argument for a malformed key.
    Management(forwarding::Node& node, PacketPool& pool, const ManagementOptions& options);

    /// It outlives the management; null: no faces are made.
    void set_face_factory(FaceFactory* factory) { faces_.set_factory(factory); }
    /// From now on others are obeyed. Throws as `Authorisation` does, and then nothing has changed.
    void authorise(const AuthorisationOptions& options);
    ManagementCounters counters() const;
    /// The wall clock may be set, or the machine have slept: as `ManagementOptions` has it.
    void set_wall_time_at_zero(std::int64_t ms, TimePoint now);
    /// The prefixes that programs serve at this node, for its network to know.
    RegisteredPrefixes& registered() { return rib_.registered(); }
    /// Where the network serves prefixes.
    NetworkRoutes network_routes() { return rib_.network_routes(); }

    Production answer(FaceId from, const wire::InterestView& interest, TimePoint now) override;
    void on_face_closed(FaceId face) override;
    void on_timer(TimePoint now) override { rib_.on_timer(now); }
    TimePoint next_deadline() const override { return rib_.next_deadline(); }

  private:
    struct Question {
        FaceId from;
        const wire::InterestView& interest;
        Address address;
        TimePoint now;
    };

    Module* find_module(std::string_view name);
    Production answer_command(const Question& question, Module& module, const CommandRule& rule);
    Production answer_announcement(const Question& question);
    /// Empty when the signer of the announcement in the command may announce the prefix.
    std::optional<ControlResponse> announcement_refusal(const Question& question,
                                                        wire::ByteView announcement,
                                                        const ControlParameters& parameters);
    /// Empty when the command may be carried out.
    std::optional<ControlResponse> refusal(const Question& question, const Command& command,
                                           const ControlParameters& parameters);
    bool admitted_by_file(FaceId from) const;
    void count_forbidden(const Question& question);
    Production carry_out(const Question& question, Module& module, const CommandRule& rule,
                         const ControlParameters& parameters);
    Production malformed(const Question& question, std::string text,
                         std::uint32_t code = kBadRequest);
    Production respond(wire::NameView name, ControlResponse response);
    PacketRef response_packet(wire::NameView name, ControlResponse response);
    Reply defer(wire::NameView name);

    Production answer_dataset(const Question& question, Module& module, Module::DatasetKind kind);
    Production segment_of(const Snapshot& snapshot, std::uint64_t index);

    forwarding::Node& node_;
    AnswerPackets packets_;
    ReplayGuard replays_;
    Authorisation authorisation_;
    RibModule rib_;
    FacesModule faces_;
    FibModule fib_;
    StrategyModule strategies_;
    CsModule cs_;
    StatusModule status_;
    std::array<Module*, 6> modules_;
    DatasetStore datasets_;
    security::Sha256 sha256_;
    ManagementCounters counters_;
};

}  // namespace innet::management
