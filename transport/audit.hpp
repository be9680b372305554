#pragma once
// Consistency check of the engine's tables. The simulator's tests run it after every event, so that
// a wrong count is reported where it arises, not when an operation stalls.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace innet {

class AuditReport {
  public:
    /// `what` must hold.
    void expect(bool holds, std::string_view what) {
        if (!holds) complaints_.push_back(std::string("it does not hold that ").append(what));
    }
    /// Compares a counter with the actual number.
    void expect_equal(std::uint64_t counted, std::uint64_t there, std::string_view what) {
        if (counted != there) add(what, counted, " are counted, and there are ", there);
    }
    void expect_at_most(std::uint64_t there, std::uint64_t bound, std::string_view what) {
        if (there > bound) add(what, there, " are more than ", bound);
    }

    const std::vector<std::string>& complaints() const { return complaints_; }

  private:
    void add(std::string_view what, std::uint64_t first, std::string_view relation,
             std::uint64_t second) {
        complaints_.push_back(std::string(what)
                                  .append(": ")
                                  .append(std::to_string(first))
                                  .append(relation)
                                  .append(std::to_string(second)));
    }

    std::vector<std::string> complaints_;
};

}  // namespace innet
