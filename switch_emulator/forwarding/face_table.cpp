#include "switch_emulator/forwarding/face_table.hpp"

#include <stdexcept>
#include <string>

namespace innet::forwarding {

FaceId FaceTable::add(const FaceOptions& options) {
    auto face = static_cast<FaceId>(faces_.size());
    if (!free_.empty()) {
        face = free_.front();
        free_.pop_front();
    } else if (faces_.size() > kMaxNetworkFace) {
        return kNoFace;
    } else {
        faces_.emplace_back();
    }
    faces_[face] = {};
    faces_[face].number = next_number_++;
    faces_[face].options = options;
    if (options.foreign) faces_[face].bound_to = jobs::kNoJob;
    by_number_.emplace(faces_[face].number, face);
    return face;
}

void FaceTable::close(FaceId face) {
    faces_[face].open = false;
    by_number_.erase(faces_[face].number);
}

bool FaceTable::may_go(NameScope scope, FaceId from, FaceId to) const {
    if (scope == NameScope::kGlobal || is_local(to)) return true;
    return scope == NameScope::kLocalhop && is_local(from);
}

std::optional<FaceId> FaceTable::find(FaceNumber number) const {
    const auto known = by_number_.find(number);
    return known == by_number_.end() ? std::nullopt : std::optional(known->second);
}

FaceTable::Face& FaceTable::at(FaceId face) {
    if (face >= faces_.size()) {
        throw std::invalid_argument("there is no face " + std::to_string(face));
    }
    return faces_[face];
}

void FaceTable::bind(FaceId face, jobs::JobId job) {
    Face& bound = at(face);
    // What one job's processes were admitted to is not for those of the next.
    if (bound.bound_to != job || job == jobs::kNoJob) bound.admitted.reset();
    bound.bound_to = job;
}

void FaceTable::admit(FaceId face, jobs::JobId job) { at(face).admitted.set(job); }

void FaceTable::dismiss(FaceId face, jobs::JobId job) { at(face).admitted.reset(job); }

void FaceTable::remove_job(jobs::JobId job) {
    for (Face& face : faces_) {
        if (face.bound_to == job) face.bound_to = jobs::kNoJob;
        face.admitted.reset(job);
    }
}

bool FaceTable::carries(FaceId face, jobs::JobId job) const {
    if (!is_network(face)) return true;
    const Face& carrier = faces_[face];
    return !carrier.bound_to || *carrier.bound_to == job || carrier.admitted.test(job);
}

bool FaceTable::is_bound_to_a_job(FaceId face) const {
    return faces_[face].bound_to.value_or(jobs::kNoJob) != jobs::kNoJob;
}

}  // namespace innet::forwarding
