#pragma once
// Queue of requested objects for the application that stores or provides them, and the watch
// operations that end when the queue has entries.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/endpoint/operation.hpp"
#include "transport/object/kept_object.hpp"
#include "transport/priority_mutex.hpp"
#include "transport/time.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// Results of the fetches for one keep request, in the request's order; nothing for an object whose
/// fetch did not start or end.
using FetchOutcomes = std::vector<std::optional<OperationStatus>>;

struct RequestedObject {
    wire::Name name;
    /// Set: the node fetched this object by itself and serves it.
    std::shared_ptr<const KeptObject> kept = nullptr;
    /// Set: the name is a keep request that the node could not complete and did not answer; the
    /// objects with kDone are kept. Empty: the node fetched nothing.
    FetchOutcomes outcomes = {};
};

/// Bounded: when full, it drops the oldest entries, except kept objects.
class RequestedObjects {
  public:
    /// An Interest for a missing object is pending: watches end at once.
    void add_awaited(wire::NameView object);
    /// The node served the object: watches end a little later,
    /// batched.
    void add_served(wire::NameView object, TimePoint now);
    /// The node fetched an object that it was asked to keep: watches end as for `add_served`, or at
    /// once.
    void add_kept(std::shared_ptr<const KeptObject> object, TimePoint now, bool at_once);
    /// A keep request is pending that the node cannot answer by itself: watches end at once.
    void add_unanswered(const wire::Name& request, FetchOutcomes outcomes);
    /// Removes the kept objects under `prefix` from the queue.
    void drop_kept(const wire::Name& prefix);
    /// Takes all entries, in order of request. Thread-safe.
    std::vector<RequestedObject> take();

    /// Ends the operation as done when the queue has entries.
    void watch(OperationId id);
    /// False when there is no such watch.
    bool cancel(OperationId id);
    void abort(const std::string& why);
    void take_completions(std::vector<OperationCompletion>& into);

    void on_timer(TimePoint now);
    TimePoint next_deadline() const { return watches_.empty() ? kNever : due_; }

  private:
    void add(RequestedObject object, bool is_awaited);
    void end_later(TimePoint now);
    void end_watches(OperationStatus status, const std::string& detail);

    PriorityMutex mutex_;  ///< guards `asked_` and `any_awaited_`
    std::vector<RequestedObject> requested_;
    bool any_awaited_ = false;
    TimePoint due_ = kNever;  ///< when watches end for served objects
    std::vector<OperationId> watches_;
    std::vector<OperationCompletion> completions_;
};

}  // namespace innet
