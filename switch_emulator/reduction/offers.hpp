#pragma once
// Contributions that came before anybody asked for them, until their sum is begun.

#include <optional>

#include "switch_emulator/reduction/bounded_table.hpp"
#include "switch_emulator/reduction/slot.hpp"
#include "transport/audit.hpp"
#include "transport/time.hpp"

namespace innet::reduction {

/// An operand that is there already when its reduction starts.
struct Given {
    std::uint32_t operand = 0;
    ArrivedOperand arrived;
    bool marked = false;  ///< it met congestion
};

class Offers {
  public:
    /// At most `most` offers that keep `most_bytes` alive, each for `lifetime`.
    Offers(std::size_t most, std::size_t most_bytes, Duration lifetime)
        : kept_(most), most_bytes_(most_bytes), lifetime_(lifetime) {}

    bool empty() const { return kept_.size() == 0; }
    void set_weight(jobs::JobId job, std::uint32_t weight) { kept_.set_weight(job, weight); }

    /// Keeps an operand of a sum of `job`, in place of the job's oldest ones when there is no room.
    /// False when it is not kept.
    bool add(const ReductionName& name, jobs::JobId job, ArrivedOperand arrived, bool marked,
             TimePoint now);
    /// Takes what was offered under the name with this hash, if it was.
    std::optional<Given> take(wire::NameHash hash, wire::NameView name);
    void drop_expired(TimePoint now);
    TimePoint next_deadline() const { return earliest_; }
    void drop_group(wire::NameView group);
    void drop_job(jobs::JobId job);

    void audit(AuditReport& report) const { kept_.audit(report, "kept offers"); }

  private:
    struct Offer {
        ArrivedOperand arrived;
        bool marked = false;
        TimePoint expires{};

        void reset() { *this = Offer{}; }
    };

    /// Whether there is room now.
    bool make_room(jobs::JobId job, std::size_t bytes);
    bool has_room(std::size_t bytes) const {
        return !kept_.full() && bytes_ + bytes <= most_bytes_;
    }
    void remove(std::uint32_t place);

    BoundedTable<Offer> kept_;
    std::size_t most_bytes_;
    std::size_t bytes_ = 0;  ///< that the offers keep alive
    Duration lifetime_;
    TimePoint earliest_ = kNever;  ///< none expires before
};

}  // namespace innet::reduction
