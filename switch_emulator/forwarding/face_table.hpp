#pragma once
// The faces of a node: their options and counters, and the jobs whose names each face carries.

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "switch_emulator/forwarding/name_scope.hpp"
#include "switch_emulator/forwarding/node_counters.hpp"
#include "switch_emulator/jobs/job_table.hpp"

namespace innet::forwarding {

class FaceTable {
  public:
    /// kNoFace when all numbers are in use. A foreign face carries names of no job.
    FaceId add(const FaceOptions& options);
    /// Nothing is sent to the face any more. Its number stays in use until `release`.
    void close(FaceId face);
    void release(FaceId face) { free_.push_back(face); }

    /// Closed faces included.
    std::size_t size() const { return faces_.size(); }
    bool is_open(FaceId face) const { return face < faces_.size() && faces_[face].open; }
    bool is_foreign(FaceId face) const { return is_network(face) && faces_[face].options.foreign; }
    bool is_local(FaceId face) const {
        return !is_network(face) || faces_[face].options.scope == FaceScope::kLocal;
    }
    /// Whether an Interest of this scope that came from `from` may go to `to`.
    bool may_go(NameScope scope, FaceId from, FaceId to) const;

    const FaceOptions& options(FaceId face) const { return faces_[face].options; }
    FaceCounters& counters(FaceId face) { return faces_[face].counters; }
    const FaceCounters& counters(FaceId face) const { return faces_[face].counters; }

    void set_lossy(FaceId face, bool lossy) { faces_[face].options.lossy = lossy; }

    FaceNumber number(FaceId face) const { return faces_[face].number; }
    /// An open face.
    std::optional<FaceId> find(FaceNumber number) const;
    /// The number of the face that is added next.
    FaceNumber next_number() const { return next_number_; }

    /// The face carries names of this job alone, and of the jobs to which it is admitted. `bind`,
    /// `admit` and `dismiss` throw std::invalid_argument where there is no such face.
    void bind(FaceId face, jobs::JobId job);
    void admit(FaceId face, jobs::JobId job);
    void dismiss(FaceId face, jobs::JobId job);
    /// Before the job is removed: its number may become another job's.
    void remove_job(jobs::JobId job);
    bool carries(FaceId face, jobs::JobId job) const;
    bool is_bound_to_a_job(FaceId face) const;

  private:
    struct Face {
        bool open = true;
        FaceNumber number = 0;
        FaceOptions options;
        std::optional<jobs::JobId> bound_to;     ///< unset: carries names of all
        std::bitset<jobs::kMaxJobIds> admitted;  ///< jobs whose names it carries, too
        FaceCounters counters;
    };

    Face& at(FaceId face);

    std::vector<Face> faces_;
    std::unordered_map<FaceNumber, FaceId> by_number_;  ///< the open ones
    FaceNumber next_number_ = 0;
    std::deque<FaceId> free_;  ///< of closed faces, the one closed first in front
};

}  // namespace innet::forwarding
