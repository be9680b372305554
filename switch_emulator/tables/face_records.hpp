#pragma once
// The records that each face has in the pending Interest table, and how many more it may have.

#include <cstddef>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "switch_emulator/tables/pit_records.hpp"

namespace innet::tables {

/// The records of one face, so that they are found without a look through the table.
template <typename Record>
class RecordsOfFace {
  public:
    void add(Record& record) {
        record.previous_of_face = nullptr;
        record.next_of_face = first_;
        if (first_ != nullptr) first_->previous_of_face = &record;
        first_ = &record;
        ++size_;
    }
    void remove(const Record& record) {
        (record.previous_of_face == nullptr ? first_ : record.previous_of_face->next_of_face) =
            record.next_of_face;
        if (record.next_of_face != nullptr) {
            record.next_of_face->previous_of_face = record.previous_of_face;
        }
        --size_;
    }
    std::size_t size() const { return size_; }
    template <typename Visit>
    void for_each(Visit&& visit) const {
        for (Record* record = first_; record != nullptr; record = record->next_of_face) {
            visit(*record);
        }
    }

  private:
    Record* first_ = nullptr;
    std::size_t size_ = 0;
};

/// Foreign faces share a part of the table by dynamic thresholds: each may have as many records as
/// that part has left (A. K. Choudhury and E. L. Hahne, "Dynamic queue length thresholds for
/// shared-memory packet switches", IEEE/ACM Transactions on Networking 6(2), 1998). One alone gets
/// half of it, n greedy ones get 1/(n+1) each, and the next face always finds room. All faces share
/// the entries that may wait for the application of this node in the same way.
class FaceRecords {
  public:
    /// `foreign_capacity`: records of all foreign faces together; `application_capacity`: of all
    /// faces, that wait for the application of this node.
    FaceRecords(std::size_t foreign_capacity, std::size_t application_capacity)
        : foreign_capacity_(foreign_capacity), application_capacity_(application_capacity) {}

    /// Adds a face; an earlier one of that number must have no records left.
    void add_face(FaceId face, bool foreign) {
        if (face >= faces_.size()) faces_.resize(face + std::size_t{1});
        faces_[face] = {};
        faces_[face].foreign = foreign;
    }

    void add(InRecord& record) {
        if (record.face >= faces_.size()) return;  // the application's, or the reducer's
        Face& face = faces_[record.face];
        face.waiting.add(record);
        if (face.foreign) ++foreign_waiting_;
    }
    void remove(const InRecord& record) {
        if (record.face >= faces_.size()) return;
        Face& face = faces_[record.face];
        face.waiting.remove(record);
        if (face.foreign) --foreign_waiting_;
        if (!record.awaits_application) return;
        --face.awaiting_application;
        --awaiting_application_;
    }
    void await_application(InRecord& record) {
        if (record.face >= faces_.size() || record.awaits_application) return;
        record.awaits_application = true;
        ++faces_[record.face].awaiting_application;
        ++awaiting_application_;
    }
    void add(OutRecord& record) {
        if (record.face < faces_.size()) faces_[record.face].upstream.add(record);
    }
    void remove(const OutRecord& record) {
        if (record.face < faces_.size()) faces_[record.face].upstream.remove(record);
    }

    /// Whether the face may wait for one thing more. Always, but for foreign ones.
    bool may_wait(FaceId face) const {
        return face >= faces_.size() || !faces_[face].foreign ||
               faces_[face].waiting.size() < foreign_capacity_ - foreign_waiting_;
    }
    /// Whether the face may wait for one thing more from the application of this node.
    bool may_await_application(FaceId face) const {
        return face >= faces_.size() ||
               faces_[face].awaiting_application + awaiting_application_ < application_capacity_;
    }
    /// In-records and out-records of a face that was added.
    const RecordsOfFace<InRecord>& waiting(FaceId face) const { return faces_[face].waiting; }
    const RecordsOfFace<OutRecord>& upstream(FaceId face) const { return faces_[face].upstream; }
    std::size_t faces() const { return faces_.size(); }

  private:
    struct Face {
        RecordsOfFace<InRecord> waiting;
        RecordsOfFace<OutRecord> upstream;
        std::size_t awaiting_application = 0;
        bool foreign = false;
    };

    std::size_t foreign_capacity_;
    std::size_t application_capacity_;
    std::size_t foreign_waiting_ = 0;
    std::size_t awaiting_application_ = 0;
    std::vector<Face> faces_;
};

}  // namespace innet::tables
