#pragma once
// Contributions and sums that arrived before their request, kept until they are requested.

#include <optional>

#include "switch_emulator/reduction/bounded_table.hpp"
#include "transport/audit.hpp"
#include "transport/buffer/packet_ref.hpp"
#include "transport/time.hpp"

namespace innet::reduction {

/// A contribution or a sum, as Data.
struct Offer {
    PacketRef packet;
    bool marked = false;  ///< it carried a congestion mark
};

class Offers {
  public:
    /// At most `most` offers that keep `most_bytes` alive, each for `lifetime`.
    Offers(std::size_t most, std::size_t most_bytes, Duration lifetime)
        : kept_(most), most_bytes_(most_bytes), lifetime_(lifetime) {}

    bool empty() const { return kept_.size() == 0; }
    void set_weight(jobs::JobId job, std::uint32_t weight) { kept_.set_weight(job, weight); }

    /// Keeps an offer of `job`, in place of the job's oldest ones when there is no room. False when
    /// it is not kept.
    bool add(const ReductionName& name, jobs::JobId job, Offer offer, TimePoint now);
    bool has(wire::NameHash hash, wire::NameView name) const {
        return kept_.find(hash, name) != kept_.kNone;
    }
    /// Takes the offer whose name has this hash, if there is one.
    std::optional<Offer> take(wire::NameHash hash, wire::NameView name);
    void drop_expired(TimePoint now);
    TimePoint next_deadline() const { return earliest_; }
    void drop_group(wire::NameView group);
    void drop_job(jobs::JobId job);

    void audit(AuditReport& report) const { kept_.audit(report, "kept offers"); }

  private:
    struct Kept {
        Offer offer;
        TimePoint expires{};

        void reset() { *this = Kept{}; }
    };

    /// Whether there is room now.
    bool make_room(jobs::JobId job, std::size_t bytes);
    bool has_room(std::size_t bytes) const {
        return !kept_.full() && bytes_ + bytes <= most_bytes_;
    }
    void remove(std::uint32_t place);

    BoundedTable<Kept> kept_;
    std::size_t most_bytes_;
    std::size_t bytes_ = 0;  ///< that the offers keep alive
    Duration lifetime_;
    TimePoint earliest_ = kNever;  ///< none expires before
};

}  // namespace innet::reduction
