#pragma once
// The application side of a host: publishes tensors, fetches them, and retains publications that
// other ranks may still need. Sans-IO: driven by its node (as `Application`) and by `on_timer`.
//
// How a fetch handles failures. Lost requests are repeated (transport/fetch/loss_detector.hpp),
// held ones wait. A Nack for lack of capacity (NoSlot, Congestion) shrinks the window and is
// retried after one, two, four … round trips; any other (NoRoute: the producer may not have
// registered yet) likewise, until the deadline. So is an answer that its receiver does not accept:
// from then on the segment is requested with MustBeFresh, which caches do not answer. Where the
// target allows it, self-evaluation comes first: at once after NoRule or NoRoute, after two such
// rounds, after some silence. The node in question is then left alone but for one probe a second.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/application/application.hpp"
#include "transport/audit.hpp"
#include "transport/buffer/packet_ref.hpp"
#include "transport/endpoint/operation.hpp"
#include "transport/fetch/loss_detector.hpp"
#include "transport/metric.hpp"
#include "transport/object/object_fetch.hpp"
#include "transport/object/object_keeper.hpp"
#include "transport/object/object_publication.hpp"
#include "transport/object/object_publisher.hpp"
#include "transport/security/batch_hasher.hpp"
#include "transport/security/keyring.hpp"
#include "transport/time.hpp"

namespace innet {

/// Settings of publish and fetch; `innet/settings.py` documents them for users.
struct EndpointOptions {
    std::uint32_t initial_window = 16;  ///< segments
    std::uint32_t max_window = 512;     ///< segments, per flow
    /// Bytes of answers from other nodes on their way at once, over all flows; 0: no limit. Flows
    /// that start together know nothing of each other, and fill the last link's queue together.
    std::uint64_t receive_credit_bytes = 0;
    /// Of this node's links: the credit grows at it after silence. 0: what fills them is measured.
    double receive_rate_bps = 0;
    /// Segments that this node may add at once. With a credit it begins with all of them.
    std::uint32_t evaluation_window = 512;
    Duration interest_lifetime = std::chrono::milliseconds(1000);
    Duration min_rto = std::chrono::milliseconds(5);
    Duration max_rto = std::chrono::milliseconds(500);
    std::uint32_t timeouts_before_self_evaluation = 5;
    Duration target_queue_delay = std::chrono::milliseconds(5);
    /// Factor by which each published segment counts in rates, queues and counters: simulates
    /// tensors larger than the memory. 1: real bytes.
    std::uint32_t virtual_scale = 1;
    /// Shared with the node's reducer; must outlive the endpoint. Null: it is not shared.
    AnswerHistory* answers = nullptr;
    /// Hashes published objects; must outlive the endpoint. Null: the endpoint hashes serially.
    security::BatchHasher* hasher = nullptr;
};

struct EndpointCounters {
    std::uint64_t interests_expressed = 0;
    std::uint64_t segments_fetched = 0;
    std::uint64_t bytes_fetched = 0;
    std::uint64_t segments_served = 0;
    std::uint64_t retransmissions_by_gap = 0;
    std::uint64_t retransmissions_by_timeout = 0;
    std::uint64_t refreshes_of_held = 0;
    std::uint64_t holds_received = 0;
    std::uint64_t nacks_received = 0;
    std::uint64_t self_evaluations = 0;
    std::uint64_t marks_received = 0;
    std::uint64_t unexpected_data = 0;
    std::uint64_t forged_roots = 0;
    std::uint64_t retained_bytes = 0;
    std::uint64_t flows = 0;

    static constexpr auto metrics() {
        using enum MetricKind;
        return std::to_array<Metric<EndpointCounters>>({
            {"interests_expressed", "interests_expressed", kCounter,
             "Interests of this host's application", &EndpointCounters::interests_expressed},
            {"segments_fetched", "segments_fetched", kCounter,
             "Segments received for the application", &EndpointCounters::segments_fetched},
            {"bytes_fetched", "fetched_bytes", kCounter, "Bytes received for the application",
             &EndpointCounters::bytes_fetched},
            {"segments_served", "segments_served", kCounter,
             "Published segments sent to requesters", &EndpointCounters::segments_served},
            {"retransmissions_by_gap", "retransmissions_by_gap", kCounter,
             "Interests sent again because later ones were answered",
             &EndpointCounters::retransmissions_by_gap},
            {"retransmissions_by_timeout", "retransmissions_by_timeout", kCounter,
             "Interests sent again after a timeout", &EndpointCounters::retransmissions_by_timeout},
            {"refreshes_of_held", "refreshes_of_held", kCounter,
             "Interests sent again while a Hold promised an answer",
             &EndpointCounters::refreshes_of_held},
            {"holds_received", "holds_received", kCounter, "Holds received: a rank is late",
             &EndpointCounters::holds_received},
            {"nacks_received", "nacks_received", kCounter, "Nacks received",
             &EndpointCounters::nacks_received},
            {"self_evaluations", "self_evaluations", kCounter,
             "Reductions that the requester evaluated itself", &EndpointCounters::self_evaluations},
            {"marks_received", "congestion_marks", kCounter, "Data received with a congestion mark",
             &EndpointCounters::marks_received},
            {"unexpected_data", "unexpected_data", kCounter,
             "Data received that no operation waits for", &EndpointCounters::unexpected_data},
            {"forged_roots", "forged_roots", kCounter,
             "Root manifests dropped because another key signed them",
             &EndpointCounters::forged_roots},
            {"retained_bytes", "retained_bytes", kGauge, "Published bytes that are kept",
             &EndpointCounters::retained_bytes},
            {"flows", "fetch_flows", kGauge, "Nodes asked lately", &EndpointCounters::flows},
        });
    }
};
static_assert(has_metric_for_each_member<EndpointCounters>());

class Endpoint final : public Application {
  public:
    /// `own_name` is the node's name (/n/<node>): the hint that makes the node evaluate by itself.
    /// Everything referenced must outlive the endpoint.
    Endpoint(EndpointOptions options, wire::Name own_name, Forwarder& forwarder, PacketPool& pool,
             security::Signer& signer);
    ~Endpoint() override;

    /// Signs the publications of producers registered below `prefix` from now on with `signer`;
    /// null: with the endpoint's own again.
    void set_signer(const wire::Name& prefix, std::shared_ptr<security::Signer> signer);
    /// Registers a producer prefix. Interests for unpublished tensors stay pending, and Holds name
    /// `label` (a rank) as late.
    void register_producer(const wire::Name& prefix, std::string label);
    void unregister_producer(const wire::Name& prefix);
    /// Collectives under `prefix` with a sequence number of `seq` or more will never be published,
    /// nor anything that has not been without it: pending and later Interests for one receive a
    /// kAborted error with the text `why`.
    void end_producer(const wire::Name& prefix, std::optional<std::uint64_t> seq,
                      const std::string& why);

    /// A local call failed before it published: pending and later Interests for its tensor
    /// receive an error with the failure's code and text. A publication of the name takes
    /// precedence.
    void fail(const FailureSpec& failure);

    /// Starts an operation; its completion has the status. kNoRoute: at the deadline, the last
    /// reply for every missing target was a Nack. kDeadlineExceeded: `detail` names the late
    /// ranks, or the missing segments and the queried node. Whatever the status, the buffers
    /// are the caller's again, and publications stay available until `retire` (after `abort`,
    /// as an error). Spec errors (buffer sizes that do not fit the segmentation, an
    /// unregistered prefix, a seq already published) end it at once with kAborted and a
    /// detail.
    void submit(OperationId id, OperationSpec spec, TimePoint now);
    void cancel(OperationId id, TimePoint now);
    /// Ends the operations in flight on names under `prefix` (all of them when it is empty) with
    /// kAborted and `why`.
    void abort(const wire::Name& prefix, const std::string& why, TimePoint now);
    /// Drops the publications under `prefix` with a sequence number up to and including `seq`;
    /// later Interests for them receive no answer. Messages (`exclusive_seq` false) are numbered
    /// apart from collectives: they are dropped only when `prefix` includes their kind.
    void retire(const wire::Name& prefix, std::uint64_t seq);

    /// Registers a prefix of objects. An Interest for an unpublished object stays pending, and a
    /// Hold names `label` (a rank) as late; or it is refused, and its fetch ends with kAbsent if it
    /// set `may_be_absent`. A `tagger` tags objects published there and checks fetched ones by
    /// their tags; a `root_signer` signs drafts that are published there again.
    void register_objects(const wire::Name& prefix, std::string label,
                          MissingObject missing = MissingObject::kWait,
                          std::shared_ptr<security::SegmentTagger> tagger = nullptr,
                          std::shared_ptr<security::Signer> root_signer = nullptr);
    void register_objects(const wire::Name& prefix, ObjectPrefix options);
    /// Drops the prefix and its objects.
    void unregister_objects(const wire::Name& prefix);
    /// Starts publishing an object. It is cut and hashed in slices by `on_timer`, between packets;
    /// at its completion it can be fetched. A name published already, or too long, or not under a
    /// registered prefix ends it at once with kAborted.
    void publish_object(OperationId id, const ObjectSpec& spec,
                        std::shared_ptr<security::Signer> root_signer);
    /// As `ObjectPublisher::publish_all`.
    void publish_objects(OperationId id, std::span<const ObjectSpec> specs,
                         const std::shared_ptr<security::Signer>& root_signer);
    /// Publishes under a root manifest that was signed earlier, by a key that `keyring` trusts with
    /// the name: ends with kUntrusted when bytes, name or signature do not match.
    void publish_sealed_object(OperationId id, const SealedObjectSpec& spec,
                               const security::Keyring& keyring);
    /// The object is on disk, or being produced: Interests for it stay pending until it is
    /// published or withdrawn, even under a prefix that refuses missing objects.
    void expect_object(const wire::Name& object);
    /// Drops a published or expected object; pending Interests for it are refused at once.
    void withdraw_object(const wire::Name& object);
    /// The root manifest of an object published here, which may be a draft, or an empty packet.
    PacketRef object_root(const wire::Name& object) const;
    /// See `ObjectPublisher::take_requested`.
    std::vector<RequestedObject> take_requested_objects();
    /// Starts a watch; see `ObjectPublisher::watch_requested`.
    void watch_objects(OperationId id);
    /// Starts fetching an object; its completion as in `submit` and
    /// `ObjectFetch::receive`.
    void fetch_object(OperationId id, ObjectFetchSpec spec, TimePoint now);
    /// Starts fetching objects, with one completion when all have ended. The memory of each has
    /// the status of its fetch.
    void fetch_objects(OperationId id, std::vector<ObjectFetchSpec> specs, TimePoint now);

    /// Serves keep requests from now on; kept objects and requests that failed are reported by
    /// `take_requested_objects`. Prefixes of the requests and of the objects must be registered;
    /// `keyring` must outlive the endpoint.
    void keep_objects(KeepOptions options, const security::Keyring& keyring, TimePoint now);
    /// Stops serving keep requests, and drops kept objects that are not adopted.
    void stop_keeping(const wire::Name& requests, TimePoint now);
    /// As `ObjectPublisher::adopt`.
    void adopt_objects(const std::vector<wire::Name>& objects);
    void acknowledge_kept(const wire::Name& requests, const KeepAcknowledgement& acknowledgement);

    /// Serves these Data packets, signed elsewhere, in place of the previous ones; their names must
    /// be under no prefix of a producer or of objects. False, without effect, when one is not a
    /// Data packet.
    [[nodiscard]] bool serve_packets(std::vector<PacketRef> packets);

    /// Takes the operations that ended since the last call.
    void take_completions(std::vector<OperationCompletion>& into);

    void on_timer(TimePoint now);
    TimePoint next_deadline() const;
    const EndpointCounters& counters() const;
    /// The operations in flight with their missing parts, in the order of their start.
    std::vector<OperationProgress> describe_operations() const;
    /// Nothing unless the operation is in flight.
    std::optional<MissingParts> missing(OperationId id, TimePoint now) const;
    void audit(AuditReport& report) const;

    Production produce(const wire::InterestView& interest, bool for_network,
                       TimePoint now) override;
    void await(const wire::InterestView& interest, TimePoint now) override;
    void forget(wire::NameView name) override;
    void on_data(const wire::DataView& data, const PacketRef& packet, bool marked,
                 TimePoint now) override;
    bool can_tell_digest(wire::NameView data) override;
    const security::Sha256Digest* told_digest(const wire::DataView& data) override;
    bool vouches_for(const wire::DataView& manifest) override;
    void on_nack(wire::NameView name, wire::NackReason reason, TimePoint now) override;
    void on_hold(wire::NameView name, wire::ByteView missing, TimePoint now) override;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace innet
