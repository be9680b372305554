#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "switch_emulator/jobs/job_table.hpp"

using namespace innet;
using jobs::JobTable;

namespace {

wire::Name name(const std::string& uri) { return wire::Name::from_uri(uri).value(); }

}  // namespace

TEST_CASE("a name belongs to the job of its first component") {
    JobTable table;
    const auto a = table.install(name("/a"), 1).id;
    const auto b = table.install(name("/b"), 2).id;
    CHECK(a != b);
    CHECK(table.of(name("/a/g0/0").view()) == a);
    CHECK(table.of(name("/b").view()) == b);
    CHECK(table.of(name("/ab/g0").view()) == jobs::kNoJob);
    CHECK(table.of(name("/x/a").view()) == jobs::kNoJob);
    CHECK(table.of(wire::Name().view()) == jobs::kNoJob);
    table.remove(a);
    CHECK(table.of(name("/a/g0/0").view()) == jobs::kNoJob);
    CHECK(table.of(name("/b").view()) == b);
}

TEST_CASE("a job can have two components, and share the first with others") {
    JobTable table;
    const auto t1 = table.install(name("/kv/t1"), 1).id;
    const auto t2 = table.install(name("/kv/t2"), 1).id;
    const auto a = table.install(name("/a"), 1).id;
    CHECK(table.of(name("/kv/t1/model/0").view()) == t1);
    CHECK(table.of(name("/kv/t2").view()) == t2);
    CHECK(table.of(name("/a/t1").view()) == a);
    CHECK(table.of(name("/kv").view()) == jobs::kNoJob);
    CHECK(table.of(name("/kv/t3/t1").view()) == jobs::kNoJob);
    CHECK(table.of(name("/t1").view()) == jobs::kNoJob);
    CHECK(table.has_prefixes_of_two());
    table.remove(t1);
    CHECK(table.of(name("/kv/t1/model/0").view()) == jobs::kNoJob);
    CHECK(table.of(name("/kv/t2/model/0").view()) == t2);
    table.remove(t2);
    CHECK_FALSE(table.has_prefixes_of_two());
}

TEST_CASE("a job that is installed again keeps its place and gets its new weight") {
    JobTable table;
    const auto a = table.install(name("/a"), 1).id;
    CHECK(table.install(name("/a"), 5).id == a);
    CHECK(table.find(name("/a"))->weight == 5);
    CHECK(table.all().size() == 1);
}

TEST_CASE("an invalid job is refused") {
    JobTable table;
    CHECK_THROWS_AS(table.install(name("/a/b/c"), 1), std::invalid_argument);
    CHECK_THROWS_AS(table.install(wire::Name(), 1), std::invalid_argument);
    CHECK_THROWS_AS(table.install(name("/a"), 0), std::invalid_argument);
    CHECK_THROWS_AS(table.install(name("/a"), jobs::kMaxWeight + 1), std::invalid_argument);
    for (std::size_t i = 0; i < jobs::kMaxJobs; ++i) {
        table.install(wire::Name().append(std::to_string(i)), 1);
    }
    CHECK_THROWS_AS(table.install(name("/a"), 1), std::invalid_argument);
    table.remove(table.of(name("/7").view()));
    table.install(name("/a"), 1);
}
