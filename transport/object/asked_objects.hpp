#pragma once
// Which objects were asked for, for whoever keeps them or has to bring them: a list to take, and
// operations that end when it has something.

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "transport/endpoint/operation.hpp"
#include "transport/time.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// The oldest of very many that nobody takes are left out.
class AskedObjects {
  public:
    /// Somebody waits for the object: watches end at once.
    void add_awaited(wire::NameView object);
    /// Somebody got the object, and nobody waits: watches end a little later, for all such objects
    /// of that time together.
    void add_given(wire::NameView object, TimePoint now);
    /// Those since the last call, in the order of asking. Any thread may call it.
    std::vector<wire::Name> take();

    /// The operation ends as done when there is something to take.
    void watch(OperationId id);
    /// False when there is no such watch.
    bool cancel(OperationId id);
    void abort(const std::string& why);
    void take_completions(std::vector<OperationCompletion>& into);

    void on_timer(TimePoint now);
    TimePoint next_deadline() const { return watches_.empty() ? kNever : due_; }

  private:
    void add(wire::NameView object, bool is_awaited);
    void end_watches(OperationStatus status, const std::string& detail);

    std::mutex mutex_;  ///< of the two that `take` touches
    std::vector<wire::Name> asked_;
    bool any_awaited_ = false;
    TimePoint due_ = kNever;  ///< when watches end for objects that were given
    std::vector<OperationId> watches_;
    std::vector<OperationCompletion> completions_;
};

}  // namespace innet
