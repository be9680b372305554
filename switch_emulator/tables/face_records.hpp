#pragma once
// How many records each face has in the pending Interest table, and how many more it may have.

#include <cstddef>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"

namespace innet::tables {

/// Foreign faces share a part of the table by dynamic thresholds: each may have as many records as
/// that part has left (A. K. Choudhury and E. L. Hahne, "Dynamic queue length thresholds for
/// shared-memory packet switches", IEEE/ACM Transactions on Networking 6(2), 1998). One alone gets
/// half of it, n that want all get 1/(n+1) each, and who comes next always finds room.
class FaceRecords {
  public:
    /// `foreign_capacity`: records of all foreign faces together.
    explicit FaceRecords(std::size_t foreign_capacity) : foreign_capacity_(foreign_capacity) {}

    /// A face comes; an earlier one of that number has no records any more.
    void add_face(FaceId face, bool foreign) {
        if (face >= faces_.size()) faces_.resize(face + std::size_t{1});
        faces_[face] = {.foreign = foreign};
    }

    void on_waiting(FaceId face) { count_waiting(face, 1); }
    void on_waiting_no_more(FaceId face) { count_waiting(face, -1); }
    void on_asked(FaceId face) {
        if (face < faces_.size()) ++faces_[face].asked;
    }
    void on_asked_no_more(FaceId face) {
        if (face < faces_.size()) --faces_[face].asked;
    }

    /// Whether the face may wait for one thing more. Always, but for foreign ones.
    bool may_wait(FaceId face) const {
        return face >= faces_.size() || !faces_[face].foreign ||
               faces_[face].waiting < foreign_capacity_ - foreign_waiting_;
    }
    /// How many Interests of the face are pending.
    std::size_t waiting(FaceId face) const { return faces_[face].waiting; }
    /// How many it was asked for. Both are 0 for a face that needs no look through the table.
    std::size_t asked(FaceId face) const { return faces_[face].asked; }

  private:
    struct Face {
        std::size_t waiting = 0;
        std::size_t asked = 0;
        bool foreign = false;
    };

    void count_waiting(FaceId face, int change) {
        if (face >= faces_.size()) return;  // the application's, or the reducer's
        const auto by = static_cast<std::size_t>(change);
        faces_[face].waiting += by;
        if (faces_[face].foreign) foreign_waiting_ += by;
    }

    std::size_t foreign_capacity_;
    std::size_t foreign_waiting_ = 0;
    std::vector<Face> faces_;
};

}  // namespace innet::tables
