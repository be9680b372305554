#include "transport/security/sha256_ipsec_mb.hpp"

#include <intel-ipsec-mb.h>

#include <cstdlib>
#include <memory>

#include "transport/security/ipsec_mb_manager.hpp"

namespace innet::security {

namespace {

struct Way {
    Sha256Lanes lanes;
    decltype(&init_mb_mgr_sse) init;
};

/// The thresholds are measured beside OpenSSL 3.0, with and without SHA extensions
/// (docs/decisions.md).
std::vector<Way> ways_of_cpu() {
    // Older versions hash plain messages one after the other.
    if (imb_get_version() < IMB_VERSION(1, 3, 0)) return {};
    const std::uint64_t features = new_ipsec_mb_manager()->features;
    const bool has_sha = (features & IMB_FEATURE_SHANI) != 0;
    std::vector<Way> ways;
    if ((features & IMB_FEATURE_AVX512_SKX) != 0) {
        ways.push_back({{16, has_sha ? 9.0 : 3.0}, init_mb_mgr_avx512});
    } else if ((features & IMB_FEATURE_AVX2) != 0 && !has_sha) {
        ways.push_back({{8, 3.0}, init_mb_mgr_avx2});
    }
    if (has_sha) ways.push_back({{2, 1.7}, init_mb_mgr_sse});
    return ways;
}

const std::vector<Way>& ways() {
    static const std::vector<Way> of_cpu = ways_of_cpu();
    return of_cpu;
}

/// One thread's state of one way.
class JobQueue {
  public:
    explicit JobQueue(const Way& way) : manager_(new_ipsec_mb_manager()) {
        way.init(manager_.get());
    }

    void digest(std::span<HashJob* const> jobs) {
        gather(jobs);
        std::size_t done = 0;
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            IMB_JOB* next = IMB_GET_NEXT_JOB(manager_.get());
            next->cipher_mode = IMB_CIPHER_NULL;
            next->cipher_direction = IMB_DIR_ENCRYPT;
            next->chain_order = IMB_ORDER_HASH_CIPHER;
            next->hash_alg = IMB_AUTH_SHA_256;
            next->src = messages_[i].data();
            next->hash_start_src_offset_in_bytes = 0;
            next->msg_len_to_hash_in_bytes = messages_[i].size();
            next->auth_tag_output = jobs[i]->digest.data();
            next->auth_tag_output_len_in_bytes = kSha256Size;
            for (IMB_JOB* ended = IMB_SUBMIT_JOB(manager_.get()); ended != nullptr;
                 ended = IMB_GET_COMPLETED_JOB(manager_.get())) {
                done += require_done(ended);
            }
        }
        while (IMB_JOB* ended = IMB_FLUSH_JOB(manager_.get())) done += require_done(ended);
        if (done != jobs.size()) std::abort();  // a made-up digest would be worse
    }

  private:
    /// The library takes messages in one piece: those in several are copied.
    void gather(std::span<HashJob* const> jobs) {
        copies_.clear();
        std::size_t bytes = 0;
        for (const HashJob* job : jobs) bytes += job->size();
        copies_.reserve(bytes);  // what points into it stays where it is
        messages_.clear();
        for (const HashJob* job : jobs) messages_.push_back(in_one_piece(*job));
    }

    wire::ByteView in_one_piece(const HashJob& job) {
        for (const wire::ByteView& part : job.parts) {
            if (part.size() == job.size() && !part.empty()) return part;
        }
        const std::size_t start = copies_.size();
        for (const wire::ByteView& part : job.parts) {
            copies_.insert(copies_.end(), part.begin(), part.end());
        }
        return {copies_.data() + start, job.size()};
    }

    static std::size_t require_done(const IMB_JOB* job) {
        if (job->status != IMB_STATUS_COMPLETED) std::abort();
        return 1;
    }

    IpsecMbManager manager_;
    std::vector<std::uint8_t> copies_;
    std::vector<wire::ByteView> messages_;
};

JobQueue& queue_of_thread(std::size_t which) {
    thread_local std::vector<std::unique_ptr<JobQueue>> queues(ways().size());
    if (queues[which] == nullptr) queues[which] = std::make_unique<JobQueue>(ways()[which]);
    return *queues[which];
}

}  // namespace

const std::vector<Sha256Lanes>& sha256_lanes() {
    static const std::vector<Sha256Lanes> lanes = [] {
        std::vector<Sha256Lanes> of_ways;
        for (const Way& way : ways()) of_ways.push_back(way.lanes);
        return of_ways;
    }();
    return lanes;
}

void digest_in_lanes(std::size_t which, std::span<HashJob* const> jobs) {
    queue_of_thread(which).digest(jobs);
}

}  // namespace innet::security
