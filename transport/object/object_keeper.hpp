#pragma once
// Serves requests to keep objects on the node's thread: fetches the objects, publishes them and
// answers the request. Requests that it cannot complete go to the application through
// `RequestedObjects` (docs/protocol.md, "Requests").

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "transport/object/keep_request.hpp"
#include "transport/object/kept_object.hpp"
#include "transport/object/object_fetch.hpp"
#include "transport/object/object_publisher.hpp"
#include "transport/object/requested_objects.hpp"
#include "transport/security/keyring.hpp"

namespace innet {

/// Places of a window that an object takes: one for each 256 KiB begun, and four at most. A window
/// of n large objects has 4n.
constexpr std::uint64_t places_of_object(std::uint64_t size_bytes) {
    constexpr std::uint64_t place_bytes = 256U << 10U;
    return std::clamp<std::uint64_t>((size_bytes + place_bytes - 1) / place_bytes, 1, 4);
}

struct KeepOptions {
    wire::Name requests;  ///< prefix of all requests; the last component is this node
    wire::Name signer;    ///< name of the only key that may sign a root manifest
    std::shared_ptr<security::Signer> answer_signer;
    std::vector<std::uint8_t> answer;  ///< content of the answer to a completed request
    std::size_t max_packet_bytes = 0;  ///< limit of published Data packets
    std::size_t window = 1;            ///< concurrent fetches of objects of 1 MiB or more
    Duration fetch_time{};             ///< timeout of one fetch
    Duration answer_time{};            ///< retention of an answer
    std::uint64_t budget_bytes = 0;    ///< memory for unacknowledged objects
};

/// The application's acknowledgement of kept objects that it has registered.
struct KeepAcknowledgement {
    std::size_t objects = 0;
    std::uint64_t bytes = 0;         ///< their charges
    std::uint64_t budget_bytes = 0;  ///< new memory limit, unacknowledged objects included
};

/// The fetches of a keeper. `on_end` is called once, and not inside `begin_fetch`.
class KeeperFetches {
  public:
    virtual ~KeeperFetches() = default;
    virtual OperationId begin_fetch(ObjectFetchSpec spec,
                                    std::function<void(OperationStatus)> on_fetched) = 0;
    virtual void end_fetch(OperationId id) = 0;
    virtual TimePoint now() const = 0;
};

class ObjectKeeper {
  public:
    /// Everything referenced must outlive the keeper, which outlives its fetches.
    ObjectKeeper(KeepOptions options, ObjectPublisher& objects, const security::Keyring& keyring,
                 KeeperFetches& fetches);

    const wire::Name& requests() const { return options_.requests; }
    /// As `RequestHandler::handle_request`, for a name below `requests`.
    bool take(wire::NameView request, wire::ByteView attached_roots = {});
    void on_acknowledged(const KeepAcknowledgement& acknowledgement);
    /// Cancels the fetches without answering their requests, and drops the answers and the objects
    /// that the application has not adopted, without reporting them.
    void close();

    void on_timer(TimePoint now);
    TimePoint next_deadline() const;

  private:
    static constexpr std::uint64_t kLargeObject = std::uint64_t{1} << 20U;

    /// A request whose objects are being fetched.
    struct PendingRequest {
        wire::Name name;
        std::string requester;
        std::vector<wire::NameHash> objects;
        FetchOutcomes outcomes;
        std::size_t missing = 0;  ///< objects not fetched yet
    };
    /// An object that is queued or being fetched for requests.
    struct PendingObject {
        std::shared_ptr<KeptObject> object;
        wire::Name hint;
        std::vector<std::uint8_t> root;        ///< from the first request, if it is attached
        std::optional<OperationId> fetch;      ///< nothing: queued
        std::vector<wire::NameHash> requests;  ///< requests that need it
    };
    /// A request that was answered, or delegated to the application.
    struct SettledRequest {
        TimePoint until;
        wire::Name name;
        bool answered = false;
    };

    bool can_have_all(const KeepRequest& request) const;
    void subscribe(const KeepRequest::Block& block, std::string_view source, wire::NameHash by,
                   std::span<const wire::DataView> roots);
    void begin_fetches();
    /// Concurrent fetches of objects like the last one: up to four times as many small ones.
    std::size_t most_fetches() const;
    void on_fetched(const std::shared_ptr<KeptObject>& fetched, OperationStatus status);
    /// The result for the requests: nothing when the application may still provide the object.
    std::optional<OperationStatus> outcome_of(const PendingObject& pending, OperationStatus status);
    void settle(wire::NameHash request, wire::NameHash object, std::optional<OperationStatus> end);
    void finish(PendingRequest& request);
    bool answer(const wire::Name& request);
    /// Delegates a request to the application, with the fetches' results.
    void delegate(PendingRequest& request);
    void unsubscribe(wire::NameHash object, wire::NameHash request);
    void remember(const wire::Name& request, bool answered);
    void forget(const SettledRequest& settled);
    void release_budget(const KeptObject& object);

    KeepOptions options_;
    ObjectPublisher& objects_;
    const security::Keyring& keyring_;
    KeeperFetches& fetches_;
    std::shared_ptr<MemoryBudget> budget_;
    std::shared_ptr<const std::vector<std::uint8_t>> answer_;
    std::unordered_map<wire::NameHash, PendingRequest> pending_requests_;
    std::unordered_map<wire::NameHash, PendingObject> pending_objects_;
    std::deque<wire::NameHash> fetch_queue_;  ///< objects whose fetches have not started
    std::size_t running_fetches_ = 0;
    std::uint64_t last_bytes_ = kLargeObject;  ///< size of the object that was fetched last
    std::size_t unacknowledged_ = 0;           ///< objects
    std::deque<SettledRequest> settled_;       ///< in ascending order of `until`
    std::unordered_set<wire::NameHash> delegated_;
};

}  // namespace innet
