#pragma once
// Publishes an endpoint's objects: cuts them in slices, and serves them.

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
#include "transport/object/awaited_objects.hpp"
#include "transport/object/kept_object.hpp"
#include "transport/object/object_prefix.hpp"
#include "transport/object/object_publication.hpp"
#include "transport/object/requested_objects.hpp"
#include "transport/wire/prefix_map.hpp"

namespace innet {

/// An Interest, as a publisher of objects sees it.
struct ObjectInterest {
    wire::NameView name;
    wire::ByteView attached_roots = {};
    bool accepts_draft = false;
    bool is_for_here = true;  ///< false: the hint names another node, which may have the object
    TimePoint now;
    TimePoint until;  ///< end of its lifetime
};

/// Executes requests that are encoded in object names.
class RequestHandler {
  public:
    virtual ~RequestHandler() = default;
    /// Called when the first Interest for a missing object becomes pending. True: the handler
    /// publishes the object or reports it later. `attached_roots` are not verified.
    virtual bool handle_request(wire::NameView object, wire::ByteView attached_roots) = 0;
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

    /// Registers a prefix of objects.
    void register_prefix(const wire::Name& prefix, ObjectPrefix options);
    /// The tagger of the object's prefix; null: none.
    std::shared_ptr<security::SegmentTagger> tagger_of(wire::NameView object) const;
    /// Drops the prefix with its objects; pending Interests for them are refused.
    void unregister_prefix(const wire::Name& prefix);

    /// Starts publishing; `advance` ends it, or this call does when the spec is wrong.
    void publish(OperationId id, const ObjectSpec& spec,
                 std::shared_ptr<security::Signer> root_signer);
    /// Starts publishing several objects as one operation. It ends when all have ended, with the
    /// status of the first that failed.
    void publish_all(OperationId id, std::span<const ObjectSpec> specs,
                     const std::shared_ptr<security::Signer>& root_signer);
    /// Publishes under a root that was signed earlier: ends with kUntrusted when bytes, name or
    /// signature do not match.
    void publish_sealed(OperationId id, const SealedObjectSpec& spec,
                        const security::Keyring& keyring);
    /// Announces an object that will be published or withdrawn: Interests for it stay pending, even
    /// under a prefix that refuses missing objects. No effect on a published object.
    void expect(const wire::Name& object);
    /// Drops a published or expected object; pending Interests for it are refused (kNoData), and
    /// its running publication ends as cancelled. Caches on the path may still have it. No effect
    /// on a kept object that is not adopted.
    void withdraw(const wire::Name& object);
    /// Sets the handler that is offered missing objects before they are reported; it must outlive
    /// all calls of `produce` and `await`.
    void set_request_handler(RequestHandler* handler) { request_handler_ = handler; }
    /// Whether the name is neither published, being published nor expected.
    bool is_free(wire::NameView object) const;
    /// Publishes an object of at most one slice at once; false when it is larger or refused.
    [[nodiscard]] bool publish_short(const ObjectSpec& spec,
                                     std::shared_ptr<security::Signer> root_signer);
    /// Publishes a fetched object at once. Until `adopt`, a publication of the same name replaces
    /// it, and `withdraw` ignores it. False, without effect, when the name is not free or the root
    /// does not fit.
    [[nodiscard]] bool keep(const std::shared_ptr<KeptObject>& object, std::size_t max_packet_bytes,
                            const security::Keyring& keyring);
    /// Turns a kept object into an ordinary published object.
    void adopt(const wire::Name& object);
    /// Drops the kept objects under `prefix` that are not adopted.
    void drop_kept(const wire::Name& prefix);
    RequestedObjects& requested() { return requested_; }

    bool is_publishing(wire::NameView object) const {
        return publishing_names_.contains(object.hash());
    }
    /// The root manifest of a published object, which may be a draft, or an empty packet.
    PacketRef root_of(const wire::Name& object) const;

    /// Ends the publications or the watch of `id`; false when the id is unknown.
    bool cancel(OperationId id);
    /// Aborts the incomplete publications under `prefix`; an empty prefix also ends the
    /// watches.
    void abort(const wire::Name& prefix, const std::string& why);

    /// Whether `advance` has work.
    bool busy() const { return !publishing_.empty(); }
    /// Does one slice of work, well under a millisecond. Short objects, of one slice, alternate
    /// with longer ones, so that they do not wait for them.
    void advance();
    void on_timer(TimePoint now) { requested_.on_timer(now); }
    /// Next deadline of `on_timer`.
    TimePoint next_deadline() const { return requested_.next_deadline(); }
    void take_completions(std::vector<OperationCompletion>& into);

    /// Requests since the last call: each Interest for a root under a refusing prefix (for
    /// eviction policies), and each missing object, once while an Interest for it is pending.
    /// Thread-safe.
    std::vector<RequestedObject> take_requested() { return requested_.take(); }
    /// The operation ends as done when `take_requested` has entries: at once for a pending
    /// Interest, else batched a little later.
    void watch_requested(OperationId id) { requested_.watch(id); }

    /// Nothing when the name is under no registered prefix.
    std::optional<Production> produce(const ObjectInterest& interest);
    /// Records a pending Interest for which `produce` returned kPending. False when the name is
    /// under no registered prefix.
    bool await(const ObjectInterest& interest);
    /// No Interest for `name` is pending any longer. False: the name is not of an object.
    bool forget(wire::NameView name);

    std::uint64_t segments_served() const { return segments_served_; }
    std::uint64_t retained_bytes() const { return retained_bytes_; }

  private:
    struct Publishing {
        OperationId id = 0;
        std::unique_ptr<ObjectPublication> object;
    };

    std::deque<Publishing>::iterator next_publication();
    /// Cuts the next segments of one object, and of further short ones while the hasher has lanes
    /// free.
    void cut_next();
    void cut_slice(ObjectPublication& object);
    /// Encodes what has been cut, once it is hashed.
    /// `object` may be gone, because another one's end withdrew it.
    void finish_slice(const ObjectPublication* object);
    PublishedObject* find(wire::NameView object) const;
    std::optional<std::string> refusal(wire::NameView object) const;
    void start(OperationId id, std::unique_ptr<ObjectPublication> object);
    void end_under(const wire::Name& prefix, OperationStatus status, const std::string& detail);
    void end(std::deque<Publishing>::iterator ended, OperationStatus status, std::string detail);
    /// Completes the operation, once all of its objects have ended.
    void complete(OperationId id, OperationStatus status, std::string detail);
    /// Marks a kept, unadopted object as replaced.
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
    wire::PrefixMap<ObjectPrefix> prefixes_;
    std::deque<Publishing> publishing_;
    bool short_was_last_ = false;
    std::vector<ObjectPublication*> slices_;  ///< these two belong to one `advance`
    std::vector<security::HashJob*> jobs_;
    std::unordered_set<wire::NameHash> publishing_names_;
    std::unordered_map<wire::NameHash, std::unique_ptr<PublishedObject>> objects_;
    std::unordered_map<wire::NameHash, std::shared_ptr<KeptObject>> kept_;  ///< not adopted yet
    RequestHandler* request_handler_ = nullptr;
    AwaitedObjects awaited_;
    RequestedObjects requested_;
    std::unordered_map<OperationId, OperationGroup> groups_;
    std::vector<OperationCompletion> completions_;
    std::uint64_t segments_served_ = 0;
    std::uint64_t retained_bytes_ = 0;
};

}  // namespace innet
