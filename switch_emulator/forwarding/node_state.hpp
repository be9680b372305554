#pragma once
// The inside of a node, included by the files of this folder only: tables, counters, and one
// function per pipeline event. README.md shows how they follow each other.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "switch_emulator/forwarding/face_table.hpp"
#include "switch_emulator/forwarding/link_liveness.hpp"
#include "switch_emulator/forwarding/name_scope.hpp"
#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/forwarding/packet_sender.hpp"
#include "switch_emulator/forwarding/reassembler.hpp"
#include "switch_emulator/forwarding/request_queue.hpp"
#include "switch_emulator/forwarding/strategies/strategy_table.hpp"
#include "switch_emulator/port/random_bits.hpp"
#include "switch_emulator/tables/content_store.hpp"
#include "switch_emulator/tables/dead_nonce_list.hpp"
#include "switch_emulator/tables/fib.hpp"
#include "switch_emulator/tables/name_prefixes.hpp"
#include "switch_emulator/tables/pit.hpp"
#include "transport/security/sha256.hpp"

namespace innet::forwarding {

/// An Interest for a name that was sent upstream more recently than this waits for that answer,
/// unless its sender repeats it after that transmission (see `must_retransmit`). Longer where
/// requesters have longer timers.
inline constexpr Duration kSuppressionInterval = std::chrono::milliseconds(50);
/// The same while a Hold says that the Interest has arrived where its Data will be made.
inline constexpr Duration kHeldSuppressionInterval = std::chrono::milliseconds(500);

/// An Interest on its way through the pipelines. Views are valid during the current packet only.
struct IncomingInterest {
    FaceId face;
    const PacketRef& packet;
    const wire::InterestView& view;
    const tables::NamePrefixes& name;
    jobs::JobId job;
    wire::ByteView pit_token;
    TimePoint now;
};

/// What is to be sent upstream.
struct Upstream {
    const PacketRef& packet;
    const wire::InterestView& view;
    FaceId except;
    TimePoint now;
    bool all_refused = false;  ///< all upstreams so far
};

/// Data to be sent to its pending requesters.
struct Answer {
    const PacketRef& packet;
    const wire::DataView& view;
    FaceId from;  ///< it does not go back there; kNoFace: made or cached here
    bool marked;  ///< congestion was met on the way
    TimePoint now;
};

enum class Recipients : std::uint8_t { kEveryone, kNetworkOnly, kLocalOnly };

struct Node::State final : strategies::StrategyActions {
    State(Node& node, NodeOptions node_options, PacketPool& packet_pool,
          const security::Keyring& verification_keys, security::Signer* reduction_signer);

    // faces.cpp: adds and closes faces.
    FaceId add_face(const FaceOptions& face_options);
    void set_lossy(FaceId face, bool lossy);
    void on_face_closed(FaceId face, TimePoint now);
    void on_peer_gone(FaceId face, TimePoint now);
    void forget_upstream(FaceId face);
    void erase_in_record(tables::PitEntry& entry, FaceId face);
    void on_scope_violation(FaceId face);
    void on_face_over_share(const IncomingInterest& interest);

    // packets.cpp: receives packets from faces.
    void on_packet(FaceId face, const PacketRef& packet, TimePoint now,
                   const security::Sha256Digest* data_digest);
    void on_fragment(FaceId face, const PacketRef& packet, const wire::LpView& fragment,
                     TimePoint now);
    void on_link_packet(FaceId face, const PacketRef& packet, const wire::LpView& link,
                        TimePoint now, const security::Sha256Digest* data_digest);
    void on_malformed_packet(FaceId face);
    void on_hellos_due(TimePoint now);
    /// The Interest of an in-record, as its sender knows it: with the record's nonce.
    PacketRef interest_of(const tables::PitEntry& entry, const tables::InRecord& record);

    // jobs.cpp: jobs that share the node.
    void install_job(const wire::Name& prefix, std::uint32_t weight,
                     std::unique_ptr<security::Signer> signer);
    void let_programs_ask(const wire::Name& prefix);
    void forget_strangers(const wire::Name& prefix, jobs::JobId job);
    void remove_job(const wire::Name& prefix, TimePoint now);
    jobs::JobId installed_job(const wire::Name& prefix) const;
    std::vector<JobStatus> job_status() const;
    jobs::JobId job_of(const tables::NamePrefixes& name) const;
    /// Whether the face may send Interests for the job's names.
    bool may_request(FaceId face, jobs::JobId job) const {
        return faces.carries(face, job) ||
               (faces.is_foreign(face) && job_parts[job].programs_may_ask);
    }
    /// Whether the route to a job's host would carry a name of no job there. Registered routes may.
    bool is_uninvited(jobs::JobId job, const tables::FibEntry& route, FaceId face) const;
    void on_forbidden_interest(FaceId face, const PacketRef& packet, wire::ByteView pit_token);
    void on_forbidden_answer(FaceId face);

    Requester& requester(FaceId face);

    // incoming_interest.cpp
    void on_incoming_interest(FaceId face, const PacketRef& packet, wire::ByteView pit_token,
                              TimePoint now);
    /// `view` has a nonce, as every Interest inside a node has.
    void on_complete_interest(FaceId face, const PacketRef& packet, const wire::InterestView& view,
                              wire::ByteView pit_token, TimePoint now);
    /// Whether an earlier Interest of that name and nonce is no longer pending.
    bool has_circled(const IncomingInterest& interest) const;
    void on_interest_loop(const IncomingInterest& interest);
    void on_requested_again(const IncomingInterest& interest, tables::PitEntry& entry);
    /// `found`: what `find_requester` says of this Interest.
    void on_pending_interest(const IncomingInterest& interest, tables::PitEntry& entry,
                             const tables::RequesterSearch& found);
    void on_interest_retransmission(const IncomingInterest& interest, tables::PitEntry& entry);
    void on_new_interest(const IncomingInterest& interest);
    bool is_of_its_job(const PacketRef& data, const IncomingInterest& interest) const;
    void on_content_store_hit(const IncomingInterest& interest, const PacketRef& data);
    /// `unverified`: cached Data for requesters that verify for themselves; may be empty.
    void on_content_store_miss(const IncomingInterest& interest, const PacketRef& unverified);
    /// Whether the face may wait for one thing more, from the application of this node or not.
    bool may_wait(const IncomingInterest& interest, bool for_application) const;
    void await_application(const IncomingInterest& interest, tables::PitEntry& entry);
    void on_pit_full(const IncomingInterest& interest);
    void refuse_directly(const IncomingInterest& interest, wire::NackReason reason);
    Production query_application(const IncomingInterest& interest, bool for_network);
    void answer_directly(const IncomingInterest& interest, const PacketRef& data);
    tables::PitEntry* insert_entry(const IncomingInterest& interest);
    /// `found`: what `find_requester` says of this Interest.
    tables::InRecord& put_in_record(const IncomingInterest& interest, tables::PitEntry& entry,
                                    const tables::RequesterSearch& found, tables::Way way);
    bool fetches_for_others(const IncomingInterest& interest, const tables::PitEntry& entry) const;
    bool opens_another_way(const IncomingInterest& interest, const tables::PitEntry& entry,
                           tables::Way way) const;
    /// `earlier`: the record that its face has in the entry; null: it has none.
    bool must_retransmit(const IncomingInterest& interest, const tables::PitEntry& entry,
                         const tables::InRecord* earlier, tables::Way way) const;

    // management_interest.cpp
    bool is_for_management(wire::NameView name) const;
    void on_management_interest(const IncomingInterest& interest);

    // outgoing_interest.cpp
    void on_interest_not_produced_here(const IncomingInterest& interest, tables::PitEntry& entry);
    void on_reduction_refused(const IncomingInterest& interest, tables::PitEntry& entry);
    void on_hop_limit_exceeded(const IncomingInterest& interest, tables::PitEntry& entry);
    bool has_hops_for(const wire::InterestView& interest, FaceId face) const;
    /// Whether its hop limit alone keeps an Interest from a next hop.
    bool lacks_hops(const IncomingInterest& interest, const tables::PitEntry& entry);
    void on_no_route(const IncomingInterest& interest, tables::PitEntry& entry);
    void on_interest_unanswerable(const IncomingInterest& interest, tables::PitEntry& entry,
                                  wire::NackReason reason);
    strategies::Outcome forward_upstream(tables::PitEntry& entry,
                                         const tables::NamePrefixes& towards,
                                         const Upstream& upstream);
    strategies::Outcome forward_by(strategies::Strategy& strategy, tables::PitEntry& entry,
                                   const tables::NamePrefixes& towards, const Upstream& upstream);
    /// What is kept of an entry's Interest; with a new nonce if it was sent before.
    PacketRef kept_interest(const tables::PitEntry& entry);
    /// Of the name that leads towards the Interest's Data.
    wire::NameView towards(const wire::InterestView& interest) const;
    const tables::FibEntry* route_towards(const tables::NamePrefixes& name);
    /// Not back where it came from, through an open face that may carry the name, and not where it
    /// was refused.
    bool may_send(const tables::PitEntry& entry, FaceId except, FaceId face) const;
    bool may_forward(const strategies::UpstreamRequest& request, FaceId face) const override;
    FaceNumber faces_so_far() const override { return faces.next_number(); }
    tables::OutRecord& forward(const strategies::UpstreamRequest& request, FaceId face,
                               strategies::Nonce nonce) override;
    bool forward_elsewhere(tables::PitEntry& entry, TimePoint now);
    bool is_own_hint(wire::NameView hint) const;
    void add_route(const wire::Name& prefix, FaceId face, std::uint32_t cost);
    /// Pending Interests whose strategy uses all next hops go to the new one as well.
    void on_new_next_hop(const wire::Name& prefix, FaceId face);
    void forward_to_new_next_hop(tables::PitEntry& entry, const wire::Name& prefix, FaceId face);

    tables::OutRecord& send_upstream(tables::PitEntry& entry, const Upstream& upstream, FaceId face,
                                     strategies::Nonce nonce);

    // reflexive_forwarding.cpp
    /// A pending Interest may be answered by Interests for a name that it carries.
    static bool is_trigger(const IncomingInterest& interest);
    std::optional<wire::NackReason> reflexive_error(const IncomingInterest& interest);
    void add_reflexive_route(const IncomingInterest& interest, tables::PitEntry& entry);
    void remove_reflexive_route(tables::PitEntry& entry);
    tables::ReflexiveRoute* find_reflexive_route(const tables::NamePrefixes& name) const;
    strategies::Outcome forward_reflexive(tables::PitEntry& entry, const tables::NamePrefixes& name,
                                          const Upstream& upstream);
    void on_reflexive_interest_forbidden(const tables::NamePrefixes& name, FaceId face);

    // strategy_choices.cpp: which strategy decides, and which strategy receives events.
    bool set_strategy(const wire::Name& prefix, wire::NameView strategy);
    bool set_outside_strategy(const wire::Name& prefix, const wire::Name& strategy,
                              std::shared_ptr<strategies::StrategyListener> listener,
                              Duration patience);
    bool unset_strategy(const wire::Name& prefix);
    void on_strategies_changed();
    std::vector<StrategyChoice> strategy_choices() const;
    void decide(std::uint64_t question, const strategies::StrategyDecision& decision,
                TimePoint now);
    void forward_as_decided(const strategies::OpenQuestion& question,
                            const std::vector<FaceId>& chosen, TimePoint now);
    void on_decisions_due(TimePoint now);
    void let_best_route_decide(tables::PitEntry& entry, TimePoint now);
    /// Null for the default strategy, which remembers nothing.
    strategies::Strategy* notified_strategy(const tables::PitEntry& entry);

    // incoming_data.cpp
    void on_incoming_data(FaceId face, const PacketRef& packet, bool marked, TimePoint now,
                          const security::Sha256Digest* known_digest);
    void on_unsolicited_data(const Answer& answer);
    /// How far the Data's signature is to be trusted, from the face that it came from.
    security::Verdict verify(const Answer& answer);
    void on_untrusted_data(const Answer& answer, const tables::NamePrefixes& name, jobs::JobId job,
                           security::Verdict verdict);
    void on_invalid_signature(const Answer& answer, security::Verdict verdict);
    void request_past_caches(tables::PitEntry& entry, const Answer& answer);
    void on_local_data(RequesterId maker, const PacketRef& packet, bool marked, TimePoint now);
    void on_data_named_by_digest(const Answer& answer, const tables::NamePrefixes& name,
                                 const security::Sha256Digest& digest);
    /// Fills `waiting` and `waiting_by_digest`. The Data's implicit digest, if it had to be known.
    std::optional<security::Sha256Digest> collect_waiting(
        const wire::DataView& data, const tables::NamePrefixes& name, jobs::JobId job,
        const security::Sha256Digest* known_digest);
    void satisfy_waiting(const Answer& answer);
    bool passes_through() const;
    bool application_vouches_for(const wire::DataView& data);
    void satisfy(tables::PitEntry& entry, const Answer& answer, Recipients recipients);

    // incoming_nack.cpp
    void on_incoming_nack(FaceId face, const wire::InterestView& interest, wire::NackReason reason,
                          TimePoint now);
    void refuse_requesters(tables::PitEntry& entry, tables::Way way, wire::NackReason reason,
                           TimePoint now);
    void on_upstream_lost(tables::PitEntry& entry, tables::OutRecord& upstream,
                          wire::NackReason reason, TimePoint now);
    void on_upstreams_exhausted(tables::PitEntry& entry, wire::NackReason reason, TimePoint now);
    void reject(tables::PitEntry& entry, const tables::InRecord& record, wire::NackReason reason,
                TimePoint now);

    // incoming_hold.cpp
    void on_incoming_hold(FaceId face, const wire::InterestView& interest, wire::ByteView missing,
                          TimePoint now);
    /// Sends the Hold to the requesters of `way`, or to all requesters.
    void on_late_rank(tables::PitEntry& entry, std::optional<tables::Way> way,
                      wire::ByteView missing, TimePoint now);
    void send_hold(tables::PitEntry& entry, tables::InRecord& record, TimePoint now);
    /// For a new entry whose answer the application does not have yet.
    void schedule_hold(tables::PitEntry& entry, wire::ByteView missing, TimePoint now);
    void on_hold_due(tables::PitEntry& entry, TimePoint now);

    // interest_end.cpp
    void on_entry_due(tables::PitEntry& entry, TimePoint now);
    /// `finish` for an entry without requesters: the application drops its request, too.
    void abandon(tables::PitEntry& entry);
    /// Takes an entry away; its nonces are remembered, and the reducer stops working on it.
    void finish(tables::PitEntry& entry);

    // local_requests.cpp: requests of the application and the reducer of this node.
    void run_pending(TimePoint now);
    void on_express(const Request& request, wire::NameView name, wire::NameView hint,
                    TimePoint now);
    void on_cancel(FaceId face, wire::NameView name);
    /// Sends a contribution ahead of the request for it.
    void on_offer(const PacketRef& packet, wire::NameView hint, bool marked);
    void on_local_hold(wire::NameView name, wire::ByteView missing, TimePoint now);
    void on_local_nack(wire::NameView name, wire::NackReason reason, TimePoint now);
    std::uint32_t next_nonce();

    // node.cpp
    void audit_reductions(AuditReport& report) const;

    NodeOptions options;
    PacketPool& pool;
    const security::Keyring& keyring;
    Application* application = nullptr;
    LocalService* management = nullptr;
    jobs::JobTable job_table;
    struct JobPart {
        std::unique_ptr<security::Signer> signer;
        std::uint64_t pit_refused = 0;
        bool programs_may_ask = false;
    };
    std::array<JobPart, jobs::kMaxJobIds> job_parts;
    reduction::Reducer reducer;
    NodeCounters counters;
    FaceTable faces;
    PacketSender sender;
    tables::Fib fib;
    RouteSource* route_source = nullptr;
    tables::Pit pit;
    tables::ReflexiveRoutes reflexive_routes;
    strategies::OpenQuestions questions;
    strategies::StrategyTable strategy_table;
    tables::ContentStore content_store;
    CacheSettings cache_settings;
    std::vector<std::uint8_t> last_unroutable;  ///< value of a name; keeps its room
    tables::DeadNonceList dead_nonces;
    security::Sha256 sha256;
    RequestQueue requests;
    // Scratch of one pipeline, kept for its capacity: entries that wait for a name, or for a name
    // with the implicit digest of the Data at hand.
    std::vector<tables::PitEntry*> waiting;
    std::vector<tables::PitEntry*> waiting_by_digest;
    port::RandomBits nonces;
    LinkLiveness liveness;
    Reassembler reassembler;
    TimePoint last_seen_now;
};

}  // namespace innet::forwarding
