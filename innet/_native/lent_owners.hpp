#pragma once
// Python owners of memory that a node uses for longer than an operation takes.

#include <nanobind/nanobind.h>

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/priority_mutex.hpp"

namespace innet::bindings {

/// The node's thread returns a loan without touching Python; the next `release_returned`, on
/// Python's thread, releases the owner.
class LentOwners {
  public:
    /// `owner` lives at least until the last copy of the result is gone.
    std::shared_ptr<const void> lend(nanobind::object owner) {
        const std::size_t loan = next_loan_++;
        owners_.emplace(loan, std::move(owner));
        return {returned_.get(),
                [loan, returned = returned_](const void*) { returned->add(loan); }};
    }

    void release_returned() {
        for (const std::size_t loan : returned_->take()) {
            // An owner's end may run Python code that calls this: the entry is removed first.
            const auto released = owners_.extract(loan);
        }
    }

  private:
    class Returned {
      public:
        void add(std::size_t loan) {
            const std::lock_guard lock(mutex_);
            loans_.push_back(loan);
        }
        std::vector<std::size_t> take() {
            const std::lock_guard lock(mutex_);
            return std::exchange(loans_, {});
        }

      private:
        PriorityMutex mutex_;
        std::vector<std::size_t> loans_;
    };

    std::shared_ptr<Returned> returned_ = std::make_shared<Returned>();
    std::unordered_map<std::size_t, nanobind::object> owners_;
    std::size_t next_loan_ = 0;
};

}  // namespace innet::bindings
