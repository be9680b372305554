// Jobs that share a reducer's slots: guarantees, borrowing, and what becomes of a job's slots when
// it ends.

#include <map>
#include <random>
#include <set>

#include "tests/native/switch_emulator/reduction/reducer_fixture.hpp"

namespace innet::reduction::test {

namespace {

std::string uri_of(const std::string& job, std::uint64_t segment) {
    return "/" + job + "/g0/0-1/sum.f32/seq=1/seg=" + std::to_string(segment);
}

std::string operand_of(const std::string& job, int rank, std::uint64_t segment) {
    return "/" + job + "/g0/" + std::to_string(rank) +
           "/sum.f32/seq=1/seg=" + std::to_string(segment);
}

/// Jobs with a rule each for the sum of two ranks.
struct SharedReducer : ReducerFixture {
    explicit SharedReducer(std::uint32_t slots) : ReducerFixture(slots) {}

    jobs::JobId add_job(const std::string& job, std::uint32_t weight = 1) {
        const jobs::Job& added = jobs.install(name_of("/" + job), weight);
        reducer.install_job(added, nullptr);
        Rule rule = rule_of("0-1", {{"0", "h0"}, {"1", "h1"}});
        rule.group = name_of("/" + job + "/g0");
        reducer.install(rule);
        return added.id;
    }

    void remove_job(jobs::JobId job) {
        reducer.remove_job(job);
        jobs.remove(job);
    }

    /// How many of so many new segments get a slot.
    int ask(const std::string& job, std::uint64_t first, int segments) {
        int accepted = 0;
        for (int i = 0; i < segments; ++i) {
            const auto segment = first + static_cast<std::uint64_t>(i);
            if (admit(uri_of(job, segment)) == Admission::kAccepted) ++accepted;
        }
        return accepted;
    }

    void answer(const std::string& job, std::uint64_t segment) {
        for (int rank = 0; rank < 2; ++rank) {
            arrive(operand_of(job, rank, segment), std::vector<float>{1.0F});
        }
    }
};

}  // namespace

TEST_CASE("a job alone on a switch has all of its slots, whatever its weight") {
    SharedReducer f(8);
    const auto a = f.add_job("a");
    CHECK(f.ask("a", 0, 10) == 8);
    CHECK(f.reducer.job_slots(a).guaranteed == 8);
    CHECK(f.reducer.job_slots(a).refused_no_slot == 2);
}

TEST_CASE("slots are guaranteed by weight among the jobs that have rules here") {
    SharedReducer f(12);
    const auto a = f.add_job("a", 2);
    const auto b = f.add_job("b", 1);
    CHECK(f.reducer.job_slots(a).guaranteed == 8);
    CHECK(f.reducer.job_slots(b).guaranteed == 4);
    f.reducer.remove_group(name_of("/b/g0"));
    CHECK(f.reducer.job_slots(a).guaranteed == 12);
    CHECK(f.reducer.job_slots(b).guaranteed == 0);
}

TEST_CASE("borrowed slots are given back at once to a job below its guarantee") {
    SharedReducer f(8);
    const auto a = f.add_job("a");
    const auto b = f.add_job("b");
    CHECK(f.ask("a", 0, 8) == 8);
    CHECK(f.ask("b", 0, 8) == 4);
    CHECK(f.reducer.job_slots(a).in_use == 4);
    CHECK(f.reducer.job_slots(b).in_use == 4);
    CHECK(f.reducer.job_slots(a).taken_back == 4);
    // The newest were taken: those that had waited longest go on.
    REQUIRE(f.forwarder.nacked.size() == 4);
    for (std::uint64_t i = 0; i < 4; ++i) {
        CHECK(f.forwarder.nacked[i] ==
              RecordingForwarder::Nacked{uri_of("a", 7 - i), wire::NackReason::kNoSlot});
    }
    f.answer("a", 0);
    CHECK(f.answers().size() == 1);
}

TEST_CASE("slots of a stalled job do not starve other jobs") {
    SharedReducer f(8);
    f.add_job("a");
    const auto b = f.add_job("b");
    CHECK(f.ask("a", 0, 8) == 8);
    for (std::uint64_t segment = 0; segment < 8; ++segment) {
        f.hold(operand_of("a", 1, segment), "1");
    }
    // What was borrowed for the late rank is parked, and nobody is refused.
    CHECK(f.ask("b", 0, 4) == 4);
    CHECK(f.forwarder.nacked.empty());
    CHECK(f.reducer.counters().reductions_parked == 4);
    // What is the stalled job's own stays: its operands that have come are not fetched twice.
    CHECK(f.ask("b", 4, 4) == 0);
    CHECK(f.reducer.counters().reductions_parked == 4);
    CHECK(f.reducer.job_slots(b).in_use == 4);
}

TEST_CASE("a parked reduction of a job below its guarantee gets a slot when its rank contributes") {
    SharedReducer f(4);
    const auto a = f.add_job("a");
    f.add_job("b");
    CHECK(f.ask("a", 0, 4) == 4);
    f.hold(operand_of("a", 1, 0), "1");
    CHECK(f.ask("b", 0, 1) == 1);  // parks the late one
    f.answer("a", 1);
    f.answer("a", 2);
    f.answer("a", 3);
    CHECK(f.ask("b", 1, 3) == 3);  // and b borrows what is free
    CHECK(f.reducer.job_slots(a).in_use == 0);
    f.arrive(operand_of("a", 1, 0), std::vector<float>{1.0F});
    CHECK(f.reducer.job_slots(a).in_use == 1);
    f.arrive(operand_of("a", 0, 0), std::vector<float>{1.0F});
    const auto answers = f.answers();
    REQUIRE(answers.size() == 4);
    CHECK(answers.back().name == uri_of("a", 0));
}

TEST_CASE("a job's end frees its slots at once and notifies its requesters") {
    SharedReducer f(8);
    const auto a = f.add_job("a");
    const auto b = f.add_job("b");
    CHECK(f.ask("a", 0, 8) == 8);
    f.hold(operand_of("a", 1, 0), "1");
    CHECK(f.ask("b", 0, 1) == 1);
    f.remove_job(a);
    CHECK(f.reducer.counters().slots_in_use == 1);
    CHECK(f.forwarder.nacked.size() == 8);
    for (const auto& nacked : f.forwarder.nacked) {
        CHECK(nacked.reason == wire::NackReason::kNoRule);
    }
    CHECK(f.reducer.job_slots(b).guaranteed == 8);
    CHECK(f.ask("b", 1, 8) == 7);
    f.remove_job(b);
    f.check_nothing_left();
}

TEST_CASE("each job's sums are signed by its own signer") {
    SharedReducer f(8);
    const auto signer =
        security::make_hmac_signer(name_of("/a/KEY"), std::vector<std::uint8_t>{1, 2, 3, 4});
    const auto a = f.add_job("a");
    f.add_job("b");
    f.reducer.install_job(*f.jobs.find(name_of("/a")), signer.get());
    f.ask("a", 0, 1);
    f.answer("a", 0);
    f.ask("b", 0, 1);
    f.answer("b", 0);
    REQUIRE(f.forwarder.put.size() == 2);
    const auto of_a = wire::DataView::parse(f.forwarder.put[0].packet.bytes());
    const auto of_b = wire::DataView::parse(f.forwarder.put[1].packet.bytes());
    REQUIRE(of_a);
    REQUIRE(of_b);
    CHECK(of_a->key_name().to_uri() == "/a/KEY");
    CHECK(of_b->signature_type() == wire::SignatureType::kDigestSha256);
    f.forwarder.put.clear();
    f.remove_job(a);
}

TEST_CASE("a job is installed before its rules") {
    SharedReducer f(8);
    Rule rule = rule_of("0-1", {{"0", "h0"}, {"1", "h1"}});
    f.reducer.install(rule);
    const jobs::Job& late = f.jobs.install(name_of("/job"), 1);
    CHECK_THROWS_AS(f.reducer.install_job(late, nullptr), std::invalid_argument);
}

namespace {

/// Jobs that ask, stall, end and come back at random, with a table of what each of them holds.
class Neighbourhood {
  public:
    explicit Neighbourhood(std::uint64_t seed)
        : random_(seed), slots_(4 + seed % 13), fixture_(static_cast<std::uint32_t>(slots_)) {
        for (const std::string job : {"a", "b", "c"}) come(job);
    }

    void step() {
        const std::string job(1, static_cast<char>('a' + below(4)));
        const bool is_there = ids_.contains(job);
        switch (below(12)) {
            case 0:
                return is_there && below(8) == 0 ? leave(job) : void();
            case 1:
                return is_there ? void() : come(job);
            case 2:
                return is_there
                           ? with_waiting(
                                 job,
                                 [&](std::uint64_t segment) {
                                     fixture_.hold(
                                         operand_of(job, static_cast<int>(below(2)), segment), "1");
                                 })
                           : void();
            case 3:
            case 4:
            case 5:
                return is_there ? with_waiting(
                                      job,
                                      [&](std::uint64_t segment) {
                                          fixture_.arrive(
                                              operand_of(job, static_cast<int>(below(2)), segment),
                                              std::vector<float>{1.0F});
                                      })
                                : void();
            case 6:
                return is_there ? with_waiting(job,
                                               [&](std::uint64_t segment) {
                                                   fixture_.reducer.abandon(
                                                       name_of(uri_of(job, segment)).view());
                                                   waiting_.erase(uri_of(job, segment));
                                               })
                                : void();
            case 7:
                return fixture_.pass(std::chrono::milliseconds(below(100)));
            default:
                return is_there ? ask(job) : void();
        }
    }

    /// After every event: who waits is known, slots add up, and a job below its guarantee was not
    /// refused.
    void check() {
        for (const Answer& answer : fixture_.answers()) CHECK(waiting_.erase(answer.name) == 1);
        for (const auto& nacked : fixture_.forwarder.nacked) {
            CHECK(waiting_.erase(nacked.name) == 1);
        }
        fixture_.forwarder.nacked.clear();
        fixture_.forwarder.asked.clear();
        std::uint64_t in_use = 0;
        std::uint64_t guaranteed = 0;
        for (const auto& [job, id] : ids_) {
            const JobSlots slots = fixture_.reducer.job_slots(id);
            in_use += slots.in_use;
            guaranteed += slots.guaranteed;
            CHECK(slots.in_use <= slots.in_use_max);
        }
        CHECK(in_use == fixture_.reducer.counters().slots_in_use);
        CHECK(in_use <= capacity());
        CHECK(guaranteed <= capacity());
        CHECK(in_use <= waiting_.size());
    }

    void end() {
        while (!ids_.empty()) leave(std::string(ids_.begin()->first));
        check();
        CHECK(waiting_.empty());
        fixture_.check_nothing_left();
    }

    std::uint64_t taken_back() const { return fixture_.reducer.counters().slots_taken_back; }

  private:
    std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
    std::uint64_t capacity() const { return slots_; }

    void come(const std::string& job) {
        ids_[job] = fixture_.add_job(job, 1 + static_cast<std::uint32_t>(below(3)));
    }

    void leave(const std::string& job) {
        fixture_.remove_job(ids_.at(job));
        ids_.erase(job);
    }

    void ask(const std::string& job) {
        const std::string uri = uri_of(job, below(24));
        const JobSlots before = fixture_.reducer.job_slots(ids_.at(job));
        const Admission admission = fixture_.admit(uri);
        if (before.in_use < before.guaranteed) CHECK(admission == Admission::kAccepted);
        if (admission == Admission::kAccepted) waiting_.insert(uri);
    }

    template <typename Action>
    void with_waiting(const std::string& job, Action action) {
        const std::uint64_t segment = below(24);
        if (waiting_.contains(uri_of(job, segment))) action(segment);
    }

    std::mt19937_64 random_;
    std::uint64_t slots_ = 0;
    SharedReducer fixture_;
    std::map<std::string, jobs::JobId> ids_;
    std::set<std::string> waiting_;
};

}  // namespace

TEST_CASE("slots always add up, and no job below its guarantee is refused") {
    std::uint64_t taken_back = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        CAPTURE(seed);
        Neighbourhood neighbourhood(seed);
        for (int step = 0; step < 400; ++step) {
            neighbourhood.step();
            neighbourhood.check();
        }
        neighbourhood.end();
        taken_back += neighbourhood.taken_back();
    }
    CHECK(taken_back > 1000);
}

}  // namespace innet::reduction::test
