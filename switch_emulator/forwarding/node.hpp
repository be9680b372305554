#pragma once
// A node: faces + FIB + PIT + content store + reducer. The same engine for switches and hosts.
// Sans-IO: a driver passes in packets, times and randomness (one seed); the node puts packets into
// the outbox.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "switch_emulator/forwarding/local_service.hpp"
#include "switch_emulator/forwarding/node_counters.hpp"
#include "switch_emulator/forwarding/strategies/outside.hpp"
#include "switch_emulator/reduction/reducer.hpp"
#include "transport/application/application.hpp"
#include "transport/security/keyring.hpp"
#include "transport/security/sha256.hpp"

namespace innet::forwarding {

enum class CachePolicy : std::uint8_t { kLru, kS3Fifo };

/// The links to other nodes on which packets that are not acknowledged are repeated.
enum class LinkRepetition : std::uint8_t { kLossy, kAll, kNone };

struct NodeOptions {
    wire::Name own_name;          ///< /n/<node>
    std::size_t cache_bytes = 0;  ///< 0: no content store
    CachePolicy cache_policy = CachePolicy::kS3Fifo;
    std::size_t pit_capacity =
        65536;                 ///< entries; beyond, new Interests are nacked with Congestion
    std::uint64_t seed = 1;    ///< nonces
    Duration link_timeout{0};  ///< after which a link without a sign of life is silent; 0: never
    LinkRepetition link_repetition = LinkRepetition::kLossy;
    reduction::ReducerOptions reducer;
};

/// What can be changed of the content store while the node runs.
struct CacheSettings {
    std::size_t capacity_bytes = 0;
    bool admits = true;  ///< Data are kept
    bool serves = true;  ///< what is kept answers
};

/// A job's part of the node's tables.
struct JobStatus {
    wire::Name prefix;
    std::uint32_t weight = 1;
    reduction::JobSlots slots;
    std::uint64_t pit_entries = 0, pit_guaranteed = 0;
    std::uint64_t pit_refused = 0;  ///< Interests nacked because others' part is reserved
    std::uint64_t cache_bytes = 0, cache_guaranteed_bytes = 0;
};

struct Route {
    wire::Name prefix;
    FaceId face;
    std::uint32_t cost;
};

/// Which strategy decides for the names below a prefix, where no longer prefix has its own.
struct StrategyChoice {
    wire::Name prefix;
    wire::Name strategy;
};

/// Knows routes that a node can do without until it needs them (reactive routing).
class RouteSource {
  public:
    virtual ~RouteSource() = default;
    /// Asked when no route leads towards `name`; the answer is then added to the node's own.
    virtual std::optional<Route> route_to(wire::NameView name) = 0;
};

class Node final : public Forwarder {
  public:
    /// Everything referenced must outlive the node. `reduction_signer` may be null without rules.
    Node(NodeOptions options, PacketPool& pool, const security::Keyring& keyring,
         security::Signer* reduction_signer);
    ~Node() override;

    void set_application(Application* application);
    /// `management` outlives the node. Null (the initial value): management Interests have no
    /// answer.
    void set_management(LocalService* management);
    /// Faces are numbered from 0 in the order of adding; the number of a closed one is given again,
    /// the one closed first before others. A foreign face carries names of no job until it is
    /// admitted (`bind_face`). kNoFace when all numbers are taken.
    FaceId add_face(const FaceOptions& options = {});
    /// Closes a face: removes its PIT records and routes; Interests sent through it are forwarded
    /// to another next hop or nacked. No effect on a closed one.
    void close_face(FaceId face, TimePoint now);
    bool is_open(FaceId face) const;
    /// The link of `face` loses packets from now on, or no longer (`FaceOptions::lossy`).
    void set_lossy(FaceId face, bool lossy);
    /// Of an open network face. They count from 0.
    FaceNumber face_number(FaceId face) const;
    /// The open face of that number; nothing when it has been closed, or never was.
    std::optional<FaceId> find_face(FaceNumber number) const;
    const FaceOptions& face_options(FaceId face) const;
    /// The peer of a face is not listening now: Interests sent through it are forwarded to another
    /// next hop or nacked. The face stays open for a peer that returns.
    void on_peer_gone(FaceId face, TimePoint now);

    /// Serves the job whose names begin with `prefix` (one component or two), beside others, or
    /// gives it another weight and signer. `signer` signs its sums; null: the node's own does.
    /// For a new job, drops cached Data under its names, and pending Interests for them from faces
    /// that do not carry names of the job.
    /// Throws std::invalid_argument as `JobTable::install` and `Reducer::install_job` do.
    void install_job(const wire::Name& prefix, std::uint32_t weight,
                     std::unique_ptr<security::Signer> signer);
    /// Lets foreign faces request names of that job, until it is removed: for a node that the job
    /// has for itself. Data that a foreign face sends under these names are dropped all the same.
    /// Throws std::invalid_argument without such a job.
    void let_programs_ask(const wire::Name& prefix);
    /// Takes the job's rules, slots, pending Interests and cached Data away.
    void remove_job(const wire::Name& prefix, TimePoint now);
    /// From now on `face` carries names of that job alone, in both directions; with an empty
    /// prefix, names of no job. A face that was never bound carries all names. Throws
    /// std::invalid_argument without such a job or face.
    void bind_face(FaceId face, const wire::Name& prefix);
    /// From now on `face` carries names of that job beside those that it is bound to, until it is
    /// bound to another or none, or the job is removed; with an empty prefix, names of no job:
    /// Interests for them reach a job's host only by routes other than the one to the node itself.
    /// Throws as `bind_face`.
    void admit_face(FaceId face, const wire::Name& prefix);
    /// Takes `admit_face` back; no effect on a face that was not admitted. Throws
    /// std::invalid_argument without such a face.
    void dismiss_face(FaceId face, const wire::Name& prefix);
    std::vector<JobStatus> jobs() const;

    void add_route(const wire::Name& prefix, FaceId face, std::uint32_t cost);
    void remove_route(const wire::Name& prefix, FaceId face);
    std::vector<Route> routes() const;
    bool has_route(const wire::Name& prefix, FaceId face) const;
    /// Whether any of them leads to that face.
    bool has_routes_to(FaceId face) const;
    /// How many of them there are.
    std::size_t route_count() const;
    /// It outlives the node; null (the start) means that the routes added are all there are.
    void set_route_source(RouteSource* source);
    /// Where the last Interest that was refused as NoRoute wanted to go (its hint, or else its
    /// name); empty while there was none. Valid until the next packet.
    wire::NameView last_unroutable() const;
    /// From now on the strategy of that name decides for names below `prefix`: one of those in
    /// `strategies/registry.hpp`. False when there is none of that name.
    bool set_strategy(const wire::Name& prefix, const wire::Name& strategy);
    /// From now on `listener` decides about Interests for names below `prefix`. It has `patience`
    /// to call `decide`; after that, best-route decides. `strategy` is the name of the choice.
    /// False when there are too many strategies.
    bool set_outside_strategy(const wire::Name& prefix, const wire::Name& strategy,
                              std::shared_ptr<strategies::StrategyListener> listener,
                              Duration patience);
    /// Without effect when the question is closed: the Interest is over, or the patience was.
    void decide(std::uint64_t question, const strategies::StrategyDecision& decision,
                TimePoint now);
    /// Takes `set_strategy` back. False when nothing was set for exactly that prefix.
    bool unset_strategy(const wire::Name& prefix);
    /// Whether something was set for exactly that prefix, and for how many prefixes.
    bool has_strategy_choice(const wire::Name& prefix) const;
    std::size_t strategy_choice_count() const;
    /// All that was set, with their full names, and what decides for all other names.
    std::vector<StrategyChoice> strategies() const;
    /// Removes the rules and slots of a group that ended, and cached Data below its prefix.
    void remove_group(const wire::Name& prefix);
    /// Empties the content store; how many entries that were.
    std::size_t drop_cache();
    /// Drops what is cached at or below `prefix`, up to `limit` entries; how many they were.
    std::size_t erase_cache(wire::NameView prefix, std::size_t limit);
    void configure_cache(const CacheSettings& settings);
    const CacheSettings& cache_settings() const;

    reduction::Reducer& reducer();
    const reduction::Reducer& reducer() const;

    /// `data_digest`: the implicit digest of the Data packet in it, if the driver computed it
    /// already.
    void on_packet(FaceId face, PacketRef packet, TimePoint now,
                   const security::Sha256Digest* data_digest = nullptr);
    /// Whether a pending Interest ends with an implicit digest.
    bool awaits_digests() const;
    /// Whether the node will hash Data of this name when it arrives: an Interest may name it by its
    /// digest, which the application does not know.
    bool needs_digest_of(wire::NameView data) const;
    /// Runs what the application queued through `Forwarder` outside `on_packet` and `on_timer`.
    void run_pending(TimePoint now);
    void on_timer(TimePoint now);
    TimePoint next_deadline() const;
    Outbox& outbox();

    const NodeCounters& counters() const;
    const FaceCounters& face_counters(FaceId face) const;
    /// Counts a command that management refused to `face`. No effect for this node's requesters.
    void count_forbidden_command(FaceId face);
    /// Whether the link has lost all packets in one direction for the link timeout.
    bool is_silent(FaceId face) const;
    std::size_t faces() const;
    /// Whether the tables of the node agree with each other, between two packets.
    void audit(AuditReport& report) const;

    void express(RequesterId requester, wire::NameView name, wire::NameView hint,
                 Duration lifetime) override;
    void express_fresh(RequesterId requester, wire::NameView name, wire::NameView hint,
                       Duration lifetime) override;
    void express_to_neighbour(RequesterId requester, wire::NameView name, wire::NameView hint,
                              Duration lifetime, PacketRef roots) override;
    void cancel(RequesterId requester, wire::NameView name) override;
    void put_data(RequesterId maker, PacketRef data, bool marked) override;
    void offer_data(PacketRef data, wire::NameView hint, bool marked) override;
    void hold(wire::NameView name, wire::ByteView missing) override;
    void nack(wire::NameView name, wire::NackReason reason) override;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace innet::forwarding
