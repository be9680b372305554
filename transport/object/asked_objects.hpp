#pragma once
// Which objects were asked for, for whoever keeps them or has to bring them: a list to take, and
// operations that end when it has something.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "transport/endpoint/operation.hpp"
#include "transport/wire/name.hpp"

namespace innet {

class AskedObjects {
  public:
    /// The oldest of very many that nobody takes are left out.
    void add(wire::NameView object);
    /// Those since the last call, in the order of asking.
    std::vector<wire::Name> take() { return std::exchange(asked_, {}); }

    /// The operation ends as done as soon as there is something to take: at once if there is.
    void watch(OperationId id);
    /// False when there is no such watch.
    bool cancel(OperationId id);
    void abort(const std::string& why);
    void take_completions(std::vector<OperationCompletion>& into);

  private:
    void end_watches(OperationStatus status, const std::string& detail);

    std::vector<wire::Name> asked_;
    std::vector<OperationId> watches_;
    std::vector<OperationCompletion> completions_;
};

}  // namespace innet
