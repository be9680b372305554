#pragma once
// The application side of a host: publishes tensors, fetches them, keeps what others may still
// need. Sans-IO: driven by its node (as `Application`) and by `on_timer`.
//
// How a fetch meets trouble. Lost requests are repeated (transport/fetch/loss_detector.hpp), held
// ones wait. A Nack for want of room (NoSlot, Congestion) shrinks the window and is retried after
// one, two, four … round trips; any other (NoRoute: the producer may not have registered yet)
// likewise, until the deadline. So is an answer that its receiver does not accept: from then on the
// segment is asked for with MustBeFresh, which caches do not answer. Where the target allows it,
// self-evaluation comes first: at once after NoRule or NoRoute, after two rounds without room,
// after some silence. The node in question is then left alone but for one probe a second.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/application/application.hpp"
#include "transport/audit.hpp"
#include "transport/buffer/packet_ref.hpp"
#include "transport/endpoint/operation.hpp"
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
    /// Segments that this node may add at once. With a credit it begins with all of them.
    std::uint32_t evaluation_window = 512;
    Duration interest_lifetime = std::chrono::milliseconds(1000);
    Duration min_rto = std::chrono::milliseconds(5);
    Duration max_rto = std::chrono::milliseconds(500);
    std::uint32_t timeouts_before_self_evaluation = 5;
    Duration target_queue_delay = std::chrono::milliseconds(5);
    /// Each segment published here stands for so many times its bytes, in rates, queues and
    /// counters: simulations of tensors larger than the memory. 1: what is published is real.
    std::uint32_t virtual_scale = 1;
    /// Hashes what is published; it outlives the endpoint. Null: the endpoint does.
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
    std::uint64_t forged_roots = 0;  ///< root manifests of objects by another signer, dropped
    std::uint64_t retained_bytes = 0;
    std::uint64_t flows = 0;  ///< nodes asked lately
};

class Endpoint final : public Application {
  public:
    /// `own_name` is the node's name (/n/<node>): the hint that makes the node evaluate by itself.
    /// Everything referenced must outlive the endpoint.
    Endpoint(EndpointOptions options, wire::Name own_name, Forwarder& forwarder, PacketPool& pool,
             security::Signer& signer);
    ~Endpoint() override;

    /// What producers below `prefix` that are registered from now on publish is signed by `signer`;
    /// null: by the endpoint's own again.
    void set_signer(const wire::Name& prefix, std::shared_ptr<security::Signer> signer);
    /// Interests under `prefix` are ours; those whose tensor is not published yet wait, and the
    /// askers are told that `label` (a rank) is late.
    void register_producer(const wire::Name& prefix, std::string label);
    void unregister_producer(const wire::Name& prefix);
    /// Collectives under `prefix` with a sequence number of `seq` or more will never be published:
    /// who waits for one, or asks for one later, gets a kAborted error with the text `why`.
    void end_producer(const wire::Name& prefix, std::uint64_t seq, const std::string& why);

    /// A call failed here before it published: who waits for its tensor, or asks for it later, gets
    /// an error with the failure's code and text. What is published under the name all the same
    /// goes before it.
    void fail(const FailureSpec& failure);

    /// Starts an operation; its completion tells how it ended. kNoRoute: at the deadline, a Nack
    /// was the last word on every missing target. kDeadlineExceeded: `detail` names the ranks that
    /// had not published, or the segments without an answer and the node that was asked. Whatever
    /// the status, the buffers are the caller's again, and what was published stays available until
    /// `retire` (after `abort`, as an error). Spec errors (buffer sizes that do not fit the
    /// segmentation, an unregistered prefix, a seq already published) end it at once with kAborted
    /// and a detail.
    void submit(OperationId id, OperationSpec spec, TimePoint now);
    void cancel(OperationId id, TimePoint now);
    /// Ends the operations in flight on names under `prefix` (all of them when it is empty) with
    /// kAborted and `why`.
    void abort(const wire::Name& prefix, const std::string& why, TimePoint now);
    /// Drops the publications under `prefix` with a sequence number up to and including `seq`; who
    /// asks for them later gets nothing. Messages (`exclusive_seq` false) count apart from
    /// collectives: they go only when `prefix` names their kind too.
    void retire(const wire::Name& prefix, std::uint64_t seq);

    /// Objects under `prefix` are ours. Who asks for one that is not published waits, and is told
    /// that `label` (a rank) is late; or is refused, and its fetch ends with kAbsent if it
    /// says that it `may_be_absent`. With a `tagger`, what is published there is tagged, and what
    /// is fetched there is checked by its tags.
    void register_objects(const wire::Name& prefix, std::string label,
                          MissingObject missing = MissingObject::kWait,
                          std::shared_ptr<security::SegmentTagger> tagger = nullptr);
    /// Drops the prefix and its objects.
    void unregister_objects(const wire::Name& prefix);
    /// Starts publishing an object. It is cut and hashed in slices by `on_timer`, between packets;
    /// at its completion it can be fetched. A name published already, or too long, or not under a
    /// registered prefix ends it at once with kAborted.
    void publish_object(OperationId id, const ObjectSpec& spec,
                        std::shared_ptr<security::Signer> root_signer);
    /// The same with a root manifest that was signed earlier, by a key that `keyring` trusts with
    /// the name: ends with kUntrusted when bytes, name or signature do not fit it.
    void publish_sealed_object(OperationId id, const SealedObjectSpec& spec,
                               const security::Keyring& keyring);
    /// The object is on disk, or on its way: who asks for it waits, even where what is missing is
    /// refused, until it is published or withdrawn.
    void expect_object(const wire::Name& object);
    /// Drops an object or its expectation; who waits for it is refused at once.
    void withdraw_object(const wire::Name& object);
    /// The root manifest of an object published here, or an empty packet.
    PacketRef object_root(const wire::Name& object) const;
    /// What `ObjectPublisher::take_asked` says.
    std::vector<AskedObject> take_objects_asked();
    /// An operation that ends as done as `ObjectPublisher::watch_asked` says.
    void watch_objects(OperationId id);
    /// Starts fetching an object; its completion as in `submit`, and as `ObjectFetch::receive`
    /// says.
    void fetch_object(OperationId id, ObjectFetchSpec spec, TimePoint now);

    /// Does by itself from now on what requests to keep objects ask for, as far as it can: what it
    /// kept, and what it could not, is among `take_objects_asked`. There must be a registered
    /// prefix of the requests, and one of the objects; `keyring` outlives the endpoint.
    void keep_objects(KeepOptions options, const security::Keyring& keyring, TimePoint now);
    /// No more; what was kept and not adopted is dropped.
    void stop_keeping(const wire::Name& requests, TimePoint now);
    /// As `ObjectPublisher::adopt`.
    void adopt_objects(const std::vector<wire::Name>& objects);
    void hear_of_kept(const wire::Name& requests, const KeptHeard& heard);

    /// Gives these Data packets, signed elsewhere, to whoever asks for their names, in place of
    /// those before; under names of no producer and no object. False, and nothing changes, when one
    /// is no Data packet.
    [[nodiscard]] bool serve_packets(std::vector<PacketRef> packets);

    /// Takes the operations that ended since the last call.
    void take_completions(std::vector<OperationCompletion>& into);

    void on_timer(TimePoint now);
    TimePoint next_deadline() const;
    const EndpointCounters& counters() const;
    /// For status displays: one line per operation in flight, with what it waits for.
    std::vector<std::string> describe_operations() const;
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
