// Jobs that share the node: they come and go, and each has faces that carry its names alone.

#include <stdexcept>
#include <string>

#include "switch_emulator/forwarding/node_state.hpp"

namespace innet::forwarding {

void Node::State::install_job(const wire::Name& prefix, std::uint32_t weight,
                              std::unique_ptr<security::Signer> signer) {
    const bool is_new = job_table.find(prefix) == nullptr;
    const jobs::Job& job = job_table.install(prefix, weight);
    try {
        reducer.install_job(job, signer.get());
    } catch (const std::invalid_argument&) {
        if (is_new) job_table.remove(job.id);
        throw;
    }
    job_parts[job.id].signer = std::move(signer);
    pit.set_weight(job.id, weight);
    content_store.set_weight(job.id, weight);
}

void Node::State::remove_job(const wire::Name& prefix, TimePoint now) {
    const jobs::Job* known = job_table.find(prefix);
    if (known == nullptr) return;
    const jobs::JobId job = known->id;
    reducer.remove_job(job);
    run_pending(now);  // whoever waited for its sums hears why
    std::vector<tables::PitEntry*> entries;
    pit.collect_all(entries);
    for (tables::PitEntry* entry : entries) {
        if (entry->job != job) continue;
        for (const tables::InRecord& record : entry->in_records()) {
            reject(*entry, record, wire::NackReason::kNoRoute, now);
        }
        finish(*entry);
    }
    pit.set_weight(job, 0);
    content_store.remove_job(job);
    for (Face& face : faces) {
        if (face.bound_to == job) face.bound_to = jobs::kNoJob;
    }
    job_parts[job] = {};
    job_table.remove(job);
    run_pending(now);
}

void Node::State::bind_face(FaceId face, const wire::Name& prefix) {
    if (face >= faces.size()) {
        throw std::invalid_argument("there is no face " + std::to_string(face));
    }
    const jobs::Job* job = job_table.find(prefix);
    if (job == nullptr && !prefix.view().empty()) {
        throw std::invalid_argument("no job " + prefix.view().to_uri() + " is installed");
    }
    faces[face].bound_to = job == nullptr ? jobs::kNoJob : job->id;
}

std::vector<JobStatus> Node::State::job_status() const {
    std::vector<JobStatus> all;
    for (const jobs::Job& job : job_table.all()) {
        JobStatus& status = all.emplace_back();
        status.prefix = job.prefix;
        status.weight = job.weight;
        status.slots = reducer.job_slots(job.id);
        status.pit_entries = pit.shares().used(job.id);
        status.pit_guaranteed = pit.shares().guaranteed(job.id);
        status.pit_refused = job_parts[job.id].pit_refused;
        status.cache_bytes = content_store.shares().used(job.id);
        status.cache_guaranteed_bytes = content_store.shares().guaranteed(job.id);
    }
    return all;
}

jobs::JobId Node::State::job_of(const tables::NamePrefixes& name) const {
    if (job_table.empty() || name.depth() == 0) return jobs::kNoJob;
    return job_table.of(name.hash(1), name.prefix(1));
}

bool Node::State::carries(FaceId face, jobs::JobId job) const {
    if (!is_network(face)) return true;
    const std::optional<jobs::JobId>& bound_to = faces[face].bound_to;
    return !bound_to || *bound_to == job;
}

void Node::State::on_forbidden_interest(FaceId face, const PacketRef& packet,
                                        wire::ByteView pit_token) {
    ++counters.forbidden_interests;
    ++faces[face].counters.forbidden_in;
    send_nack(face, pit_token, packet, wire::NackReason::kForbidden);
}

void Node::State::on_forbidden_answer(FaceId face) {
    ++counters.forbidden_answers;
    ++faces[face].counters.forbidden_in;
}

}  // namespace innet::forwarding
