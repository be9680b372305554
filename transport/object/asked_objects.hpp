#pragma once
// Which objects were asked for, for whoever keeps them or has to bring them: a list to take, and
// operations that end when it has something.

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transport/endpoint/operation.hpp"
#include "transport/object/kept_object.hpp"
#include "transport/time.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// How the fetches ended of the objects that a request is for; nothing for those that were not
/// fetched, or not to their end.
using TriedFetches = std::vector<std::optional<OperationStatus>>;

struct AskedObject {
    wire::Name name;
    /// This node keeps the object of that name by itself now.
    std::shared_ptr<const KeptObject> kept = nullptr;
    /// The object is a request to keep others, which this node could not all fetch by itself: it
    /// has no answer yet, and those that are done were kept. Empty: nothing was tried.
    TriedFetches tried = {};
};

/// The oldest of very many that nobody takes are left out, but not what is kept.
class AskedObjects {
  public:
    /// Somebody waits for the object: watches end at once.
    void add_awaited(wire::NameView object);
    /// Somebody got the object, and nobody waits: watches end a little later, for all such objects
    /// of that time together.
    void add_given(wire::NameView object, TimePoint now);
    /// This node has fetched an object that others asked it to keep: watches end as those of
    /// `add_given`, or at once.
    void add_kept(std::shared_ptr<const KeptObject> object, TimePoint now, bool at_once);
    /// A request to keep objects waits for an answer that this node cannot give by itself.
    void add_tried(const wire::Name& request, TriedFetches tried);
    /// Of what is kept under `prefix`, nobody is to hear any more.
    void drop_kept(const wire::Name& prefix);
    /// Those since the last call, in the order of asking. Any thread may call it.
    std::vector<AskedObject> take();

    /// The operation ends as done when there is something to take.
    void watch(OperationId id);
    /// False when there is no such watch.
    bool cancel(OperationId id);
    void abort(const std::string& why);
    void take_completions(std::vector<OperationCompletion>& into);

    void on_timer(TimePoint now);
    TimePoint next_deadline() const { return watches_.empty() ? kNever : due_; }

  private:
    void add(AskedObject object, bool is_awaited);
    void end_later(TimePoint now);
    void end_watches(OperationStatus status, const std::string& detail);

    std::mutex mutex_;  ///< of the two that `take` touches
    std::vector<AskedObject> asked_;
    bool any_awaited_ = false;
    TimePoint due_ = kNever;  ///< when watches end for objects that were given
    std::vector<OperationId> watches_;
    std::vector<OperationCompletion> completions_;
};

}  // namespace innet
