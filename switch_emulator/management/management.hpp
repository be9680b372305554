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

namespace innet::management {

struct ManagementOptions {
    AuthorisationOptions authorisation;
    /// Wall time, in milliseconds since 1970, when the engine's clock said 0.
    std::int64_t wall_time_at_zero_ms = 0;
    std::uint64_t started_ms = 0;      ///< likewise since 1970: when the node was started
    std::size_t max_routes = 262'144;  ///< of clients, together
    /// In the FIB, whoever put them there, with those that longer prefixes inherit: beyond, clients
    /// add no more.
    std::size_t max_next_hops = 1'048'576;
    std::size_t max_strategy_choices = 4096;
};

struct ManagementCounters {
    std::uint64_t commands = 0;   ///< carried out, or answered with what is wrong with them
    std::uint64_t malformed = 0;  ///< answered with 400: could not be read
    std::uint64_t forbidden = 0;  ///< answered with 403, replayed ones included
    std::uint64_t replayed = 0;
    std::uint64_t keyless = 0;  ///< of those forbidden: over TCP or UDP, and no keys are listed
    /// Likewise: the command was allowed, and the prefix announcement in it was not.
    std::uint64_t announcements_forbidden = 0;
    std::uint64_t stale = 0;  ///< likewise of those forbidden: their time is not near this node's
    std::uint64_t full = 0;   ///< answered with 503: this node keeps no more of that
    std::uint64_t datasets = 0;  ///< Interests for datasets and their segments
    std::uint64_t routes = 0;    ///< registered now
};

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
    /// Empty when who signed the announcement that the command carries may announce it.
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
