#pragma once
// The objects that an endpoint offers, and those that it is still cutting.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "transport/application/application.hpp"
#include "transport/endpoint/operation.hpp"
#include "transport/object/asked_objects.hpp"
#include "transport/object/awaited_objects.hpp"
#include "transport/object/kept_object.hpp"
#include "transport/object/object_prefixes.hpp"
#include "transport/object/object_publication.hpp"

namespace innet {

/// An Interest, as a publisher of objects sees it.
struct ObjectInterest {
    wire::NameView name;
    bool is_for_here = true;  ///< false: it asks another node, which may have what is not here
    TimePoint now;
    TimePoint until;  ///< when nobody waits for it any more, unless it is repeated
};

/// Who may do by itself what an object is a request for.
class RequestTaker {
  public:
    virtual ~RequestTaker() = default;
    /// Somebody begins to wait for an object that is not there; whether this will publish it, or
    /// tell of it later.
    virtual bool take_request(wire::NameView object) = 0;
};

class ObjectPublisher {
  public:
    /// Everything referenced must outlive the publisher. `virtual_scale` and `hasher` as in
    /// EndpointOptions.
    ObjectPublisher(std::uint32_t virtual_scale, security::BatchHasher* hasher,
                    Forwarder& forwarder, PacketPool& pool)
        : virtual_scale_(virtual_scale),
          forwarder_(forwarder),
          pool_(pool),
          hasher_(hasher == nullptr ? serial_hasher_ : *hasher) {}

    /// Objects under `prefix` are ours. `label` (a rank) is who is late when one is waited for.
    /// `tagger`, if there is one, tags what is published.
    void register_prefix(const wire::Name& prefix, std::string label, MissingObject missing,
                         std::shared_ptr<security::SegmentTagger> tagger = nullptr);
    /// Of the object's prefix; null where it has none.
    std::shared_ptr<security::SegmentTagger> tagger_of(wire::NameView object) const;
    /// Drops the prefix with its objects; who waits for one is refused.
    void unregister_prefix(const wire::Name& prefix);

    /// Starts publishing; the completion comes from `advance` (or at once, when the spec is wrong).
    void publish(OperationId id, const ObjectSpec& spec,
                 std::shared_ptr<security::Signer> root_signer);
    /// The same with a root that was signed earlier: ends with kUntrusted when bytes, name or
    /// signature do not fit it.
    void publish_sealed(OperationId id, const SealedObjectSpec& spec,
                        const security::Keyring& keyring);
    /// The object will be published, or withdrawn: who asks for it waits, even under a prefix that
    /// refuses what is missing. No effect on an object that is there.
    void expect(const wire::Name& object);
    /// Drops an object, or the expectation of one; who waits for it is refused (kNoData). Its
    /// publication, if it is under way, ends as cancelled. Caches on the way may still have it. No
    /// effect on what is kept, and not adopted.
    void withdraw(const wire::Name& object);
    /// Who is offered the objects that somebody waits for, before they are told of; there for as
    /// long as something is produced.
    void set_taker(RequestTaker* taker) { taker_ = taker; }
    /// Nothing is published under that name, or will be, as far as is known here.
    bool is_free(wire::NameView object) const;
    /// Publishes an object of a slice at most, out of turn; false when that cannot be.
    [[nodiscard]] bool publish_short(const ObjectSpec& spec,
                                     std::shared_ptr<security::Signer> root_signer);
    /// Offers what was fetched, at once. Until `adopt`, who begins to publish something under its
    /// name replaces it, and who withdraws that name does not mean it. False, and nothing happens,
    /// when the name is not free, or the root does not fit.
    [[nodiscard]] bool keep(const std::shared_ptr<KeptObject>& object, std::size_t max_packet_bytes,
                            const security::Keyring& keyring);
    /// The object of that name is one like others from now on.
    void adopt(const wire::Name& object);
    /// Drops the objects under `prefix` that were kept, and not adopted.
    void drop_kept(const wire::Name& prefix);
    AskedObjects& asked() { return asked_; }

    /// The root manifest of an object that is there, or an empty packet.
    PacketRef root_of(const wire::Name& object) const;

    /// Ends a publication or a watch; false when there is none of that id.
    bool cancel(OperationId id);
    /// Ends the publications under `prefix` that are not complete, and, when that is every name,
    /// the watches.
    void abort(const wire::Name& prefix, const std::string& why);

    /// `advance` has something to do.
    bool busy() const { return !under_way_.empty(); }
    /// Does a slice of the work, well under a millisecond of it. Objects that take but one do not
    /// wait for longer ones, which have every other slice.
    void advance();
    void on_timer(TimePoint now) { asked_.on_timer(now); }
    /// Of `on_timer`.
    TimePoint next_deadline() const { return asked_.next_deadline(); }
    void take_completions(std::vector<OperationCompletion>& into);

    /// What was asked for since the last call: every root asked of an object of a refusing prefix,
    /// which is what a cache's eviction has to know, and every object that somebody began to wait
    /// for, once while an Interest waits. Any thread may call it.
    std::vector<AskedObject> take_asked() { return asked_.take(); }
    /// The operation ends as done when `take_asked` has something: at once when somebody waits for
    /// it, and else a little later.
    void watch_asked(OperationId id) { asked_.watch(id); }

    /// Nothing when the name is under no prefix of ours.
    std::optional<Production> produce(const ObjectInterest& interest);
    /// The node keeps this Interest, which `produce` said is pending. False when the name is under
    /// no prefix of ours.
    bool await(const ObjectInterest& interest);
    /// Nobody waits for `name` any longer. False: it is not an object's.
    bool forget(wire::NameView name);

    std::uint64_t segments_served() const { return segments_served_; }
    std::uint64_t retained_bytes() const { return retained_bytes_; }

  private:
    struct UnderWay {
        OperationId id = 0;
        std::unique_ptr<ObjectPublication> object;
    };

    std::deque<UnderWay>::iterator next_in_turn();
    PublishedObject* find(wire::NameView object) const;
    std::optional<std::string> refusal(wire::NameView object) const;
    void start(OperationId id, std::unique_ptr<ObjectPublication> object);
    void end_under(const wire::Name& prefix, OperationStatus status, const std::string& detail);
    void end(std::deque<UnderWay>::iterator ended, OperationStatus status, std::string detail);
    /// Of an object that is kept and not adopted: something else takes its place.
    void forget_kept(wire::NameView object);
    void drop(wire::NameView object);
    void offer(std::unique_ptr<PublishedObject> object);
    void refuse(const std::vector<wire::Name>& packets, wire::NackReason reason);
    static Production pending(const ObjectPrefix& prefix);

    std::uint32_t virtual_scale_;
    Forwarder& forwarder_;
    PacketPool& pool_;
    security::SerialHasher serial_hasher_;
    security::BatchHasher& hasher_;
    ObjectPrefixes prefixes_;
    std::deque<UnderWay> under_way_;
    bool short_had_turn_ = false;
    std::unordered_set<wire::NameHash> names_under_way_;
    std::unordered_map<wire::NameHash, std::unique_ptr<PublishedObject>> objects_;
    std::unordered_map<wire::NameHash, std::shared_ptr<KeptObject>> kept_;  ///< and not adopted
    RequestTaker* taker_ = nullptr;
    AwaitedObjects awaited_;
    AskedObjects asked_;
    std::vector<OperationCompletion> completions_;
    std::uint64_t segments_served_ = 0;
    std::uint64_t retained_bytes_ = 0;
};

}  // namespace innet
