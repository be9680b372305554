#pragma once
// Does by itself what others ask a node to keep: fetches the objects, serves them and answers, all
// on the node's thread. What is not plain is left to whoever takes what `AskedObjects` tells of
// (docs/protocol.md, "Requests").

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "transport/object/asked_objects.hpp"
#include "transport/object/keep_request.hpp"
#include "transport/object/kept_object.hpp"
#include "transport/object/object_fetch.hpp"
#include "transport/object/object_publisher.hpp"
#include "transport/security/keyring.hpp"

namespace innet {

struct KeepOptions {
    wire::Name requests;  ///< what all requests begin with; the last component is this node
    wire::Name signer;    ///< name of the only key that may sign a root manifest
    std::shared_ptr<security::Signer> answer_signer;
    std::vector<std::uint8_t> answer;  ///< to a request that was done
    std::size_t max_packet_bytes = 0;  ///< of what is published
    std::size_t window = 1;            ///< objects that are fetched at once
    Duration fetch_time{};             ///< until an object has to be here, once its turn has come
    Duration answer_time{};            ///< how long an answer can be asked for again
    std::uint64_t room_bytes = 0;      ///< of objects that nobody has heard of yet
};

/// What whoever keeps account of a node's objects has heard of those that a keeper told of.
struct KeptHeard {
    std::size_t objects = 0;
    std::uint64_t bytes = 0;       ///< of them
    std::uint64_t room_bytes = 0;  ///< for others, from now on, with those still to be heard of
};

/// How a keeper fetches. The end is told of later, and once.
class KeeperFetches {
  public:
    virtual ~KeeperFetches() = default;
    virtual OperationId begin_fetch(ObjectFetchSpec spec,
                                    std::function<void(OperationStatus)> on_end) = 0;
    virtual void end_fetch(OperationId id) = 0;
    virtual TimePoint now() const = 0;
};

class ObjectKeeper {
  public:
    /// Everything referenced must outlive the keeper, which outlives its fetches.
    ObjectKeeper(KeepOptions options, ObjectPublisher& objects, const security::Keyring& keyring,
                 KeeperFetches& fetches);

    const wire::Name& requests() const { return options_.requests; }
    /// As `RequestTaker::take_request`, for a name below `requests`.
    bool take(wire::NameView request);
    void on_heard(const KeptHeard& heard);
    /// Ends the fetches, without a word to who waits, and drops answers and what is not adopted,
    /// of which nobody hears any more.
    void close();

    void on_timer(TimePoint now);
    TimePoint next_deadline() const;

  private:
    /// A request that waits for objects.
    struct Waiting {
        wire::Name name;
        std::string asker;
        std::vector<wire::NameHash> objects;
        TriedFetches ends;
        std::size_t missing = 0;  ///< objects that are still to come
    };
    /// An object that requests wait for.
    struct Coming {
        std::shared_ptr<KeptObject> object;
        wire::Name hint;
        std::optional<OperationId> fetch;      ///< nothing: its turn has not come
        std::vector<wire::NameHash> requests;  ///< that wait for it
    };
    /// A request that was answered, or left to others.
    struct Ended {
        TimePoint until;
        wire::Name name;
        bool answered = false;
    };

    bool can_have_all(const KeepRequest& request) const;
    void await(const KeepRequest::Block& block, std::string_view source, wire::NameHash by);
    void begin_fetches();
    void on_end(const std::shared_ptr<KeptObject>& fetched, OperationStatus status);
    /// How it ended for who waits: nothing when others may have it after all.
    std::optional<OperationStatus> end_of(const Coming& coming, OperationStatus status);
    void tell(wire::NameHash request, wire::NameHash object, std::optional<OperationStatus> end);
    void finish(Waiting& request);
    bool answer(const wire::Name& request);
    /// Leaves a request to others, with what is known.
    void hand_over(Waiting& request);
    void leave(wire::NameHash object, wire::NameHash request);
    void remember(const wire::Name& request, bool answered);
    void forget(const Ended& ended);
    void give_back_room(const KeptObject& object);

    KeepOptions options_;
    ObjectPublisher& objects_;
    const security::Keyring& keyring_;
    KeeperFetches& fetches_;
    std::shared_ptr<ObjectRoom> room_;
    std::shared_ptr<const std::vector<std::uint8_t>> answer_;
    std::unordered_map<wire::NameHash, Waiting> waiting_;
    std::unordered_map<wire::NameHash, Coming> coming_;
    std::deque<wire::NameHash> in_turn_;  ///< objects whose fetches have not begun
    std::size_t under_way_ = 0;
    std::size_t unheard_ = 0;  ///< objects
    std::deque<Ended> ended_;  ///< in the order of time
    std::unordered_set<wire::NameHash> handed_over_;
};

}  // namespace innet
