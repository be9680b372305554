// Jobs that share the node: jobs are added and removed, and each has faces for its names alone.

#include <stdexcept>
#include <string>

#include "switch_emulator/forwarding/node_state.hpp"
#include "transport/debug_log.hpp"

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
    if (is_new) forget_strangers(prefix, job.id);
}

void Node::State::let_programs_ask(const wire::Name& prefix) {
    job_parts[installed_job(prefix)].programs_may_ask = true;
}

// Before the job was installed, any face could have published Data under its names, or have
// requested Data that the job publishes from now on.
void Node::State::forget_strangers(const wire::Name& prefix, jobs::JobId job) {
    content_store.drop_below(prefix.view());
    std::vector<tables::PitEntry*> entries;
    pit.collect_all(entries);
    for (tables::PitEntry* entry : entries) {
        if (!prefix.view().is_prefix_of(entry->key.name)) continue;
        pit.erase_in_records_if(*entry, [&](const tables::InRecord& record) {
            return !faces.carries(record.face, job);
        });
        if (entry->in_records().empty()) finish(*entry);
    }
}

void Node::State::remove_job(const wire::Name& prefix, TimePoint now) {
    const jobs::Job* known = job_table.find(prefix);
    if (known == nullptr) return;
    const jobs::JobId job = known->id;
    reducer.remove_job(job);
    run_pending(now);  // nacks the requesters of its sums
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
    faces.remove_job(job);
    job_parts[job] = {};
    job_table.remove(job);
    run_pending(now);
}

jobs::JobId Node::State::installed_job(const wire::Name& prefix) const {
    if (prefix.view().empty()) return jobs::kNoJob;
    const jobs::Job* job = job_table.find(prefix);
    if (job == nullptr) {
        throw std::invalid_argument("no job " + prefix.view().to_uri() + " is installed");
    }
    return job->id;
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
    const jobs::JobId job = job_table.of(name.hash(1), name.prefix(1));
    if (job != jobs::kNoJob || !job_table.has_prefixes_of_two() || name.depth() < 2) return job;
    return job_table.of(name.hash(2), name.prefix(2));
}

// Every node has a route to every other one, which no program registered.
bool Node::State::is_uninvited(jobs::JobId job, const tables::FibEntry& route, FaceId face) const {
    if (job != jobs::kNoJob || !is_network(face)) return false;
    return faces.is_bound_to_a_job(face) &&
           options.own_name.view().parent().is_prefix_of(route.prefix.view());
}

void Node::State::on_forbidden_interest(FaceId face, const PacketRef& packet,
                                        wire::ByteView pit_token) {
    INNET_LOG(kForwarding, "face " << face << ": refuses an Interest of a foreign job");
    ++counters.forbidden_interests;
    ++faces.counters(face).forbidden_in;
    sender.send_nack(face, pit_token, packet, wire::NackReason::kForbidden);
}

void Node::State::on_forbidden_answer(FaceId face) {
    INNET_LOG(kForwarding, "face " << face << ": drops an answer of a foreign job");
    ++counters.forbidden_answers;
    ++faces.counters(face).forbidden_in;
}

}  // namespace innet::forwarding
