#include <doctest/doctest.h>

#include <deque>
#include <string>

#include "switch_emulator/tables/pit.hpp"

using namespace innet;
using tables::NamePrefixes;
using tables::Pit;
using tables::PitEntry;
using tables::PitKey;

namespace {

/// Keeps the names that keys point to.
class Keys {
  public:
    PitKey operator()(std::string_view uri, bool can_be_prefix = false) {
        names_.push_back(wire::Name::from_uri(uri).value());
        const wire::NameView view = names_.back().view();
        PitKey key;
        key.name = view;
        key.hash = view.hash();
        key.can_be_prefix = can_be_prefix;
        return key;
    }

  private:
    std::deque<wire::Name> names_;
};

}  // namespace

TEST_CASE("a job that floods leaves the other jobs their guarantees") {
    Keys key;
    Pit pit(32);
    pit.set_weight(jobs::kNoJob, 0);
    pit.set_weight(1, 1);
    pit.set_weight(2, 3);
    CHECK(pit.shares().guaranteed(1) == 4);
    CHECK(pit.shares().guaranteed(2) == 12);
    int flooded = 0;
    while (pit.insert(key("/a/" + std::to_string(flooded)), {}, 1) != nullptr) ++flooded;
    CHECK(flooded == 20);
    PitEntry* first = nullptr;
    for (int i = 0; i < 12; ++i) {
        PitEntry* entry = pit.insert(key("/b/" + std::to_string(i)), {}, 2);
        REQUIRE(entry != nullptr);
        if (first == nullptr) first = entry;
    }
    CHECK(pit.insert(key("/b/more"), {}, 2) == nullptr);
    pit.erase(*first);
    CHECK(pit.insert(key("/a/more"), {}, 1) == nullptr);
    CHECK(pit.insert(key("/b/more"), {}, 2) != nullptr);
}

TEST_CASE("requests for sums leave a quarter of the table to operands") {
    Keys key;
    Pit pit(16);
    for (int i = 0; i < 12; ++i) {
        REQUIRE(pit.insert(key("/sum/" + std::to_string(i)), {}) != nullptr);
    }
    CHECK(pit.insert(key("/sum/more"), {}) == nullptr);
    CHECK(pit.insert(key("/operand"), {}, jobs::kNoJob, tables::PitUse::kOperand) != nullptr);
}

TEST_CASE("entries differ by name, CanBePrefix and MustBeFresh") {
    Keys key;
    Pit pit(16);
    PitEntry* plain = pit.insert(key("/a/b"), {});
    PitEntry* prefix = pit.insert(key("/a/b", true), {});
    CHECK(pit.find(key("/a/b")) == plain);
    CHECK(pit.find(key("/a/b", true)) == prefix);
    PitKey fresh = key("/a/b");
    fresh.must_be_fresh = true;
    CHECK(pit.find(fresh) == nullptr);
    CHECK(pit.find(key("/a")) == nullptr);
}

TEST_CASE("entries with equal hashes are distinguished by their names") {
    Keys key;
    Pit pit(16);
    PitKey a = key("/a");
    PitKey b = key("/b");
    b.hash = a.hash;
    PitEntry* first = pit.insert(a, {});
    CHECK(pit.find(b) == nullptr);
    PitEntry* second = pit.insert(b, {});
    CHECK(pit.find(a) == first);
    CHECK(pit.find(b) == second);
    pit.erase(*first);
    CHECK(pit.find(b) == second);
}

TEST_CASE("the table holds exactly its capacity") {
    Keys key;
    Pit pit(3);
    for (int i = 0; i < 3; ++i) CHECK(pit.insert(key("/a/" + std::to_string(i)), {}) != nullptr);
    CHECK(pit.insert(key("/a/3"), {}) == nullptr);
    pit.erase(*pit.find(key("/a/1")));
    CHECK(pit.insert(key("/a/3"), {}) != nullptr);
    CHECK(pit.size() == 3);
}

TEST_CASE("a grown table finds exactly its entries") {
    constexpr int kEntries = 5000;
    Keys key;
    Pit pit(2 * kEntries);
    std::vector<PitEntry*> entries;
    for (int i = 0; i < kEntries; ++i) {
        entries.push_back(pit.insert(key("/a/" + std::to_string(i)), {}));
    }
    for (int i = 0; i < kEntries; i += 2) pit.erase(*entries[static_cast<std::size_t>(i)]);
    for (int i = 0; i < kEntries; ++i) {
        PitEntry* const expected = i % 2 == 0 ? nullptr : entries[static_cast<std::size_t>(i)];
        REQUIRE(pit.find(key("/a/" + std::to_string(i))) == expected);
    }
    CHECK(pit.size() == kEntries / 2);
}

TEST_CASE("there is one record per face, in the order of first arrival") {
    Keys key;
    Pit pit(4);
    PitEntry& entry = *pit.insert(key("/a"), {});
    pit.put_in_record(entry, 3, {});
    pit.put_in_record(entry, 1, entry.find_requester(1, 0));
    pit.put_in_record(entry, 3, entry.find_requester(3, 0)).nonce = 7;
    std::vector<FaceId> faces;
    for (const auto& record : entry.in_records()) faces.push_back(record.face);
    CHECK(faces == std::vector<FaceId>{3, 1});
    CHECK(entry.find_in_record(3)->nonce == 7);
    pit.erase_in_record(entry, 3);
    CHECK(entry.find_in_record(3) == nullptr);
    CHECK(entry.find_in_record(1) != nullptr);
}

TEST_CASE("one search of an entry's requesters finds the face's record, and the nonce of any") {
    Keys key;
    Pit pit(4);
    PitEntry& entry = *pit.insert(key("/a"), {});
    pit.put_in_record(entry, 3, {}).nonce = 30;
    pit.put_in_record(entry, 1, entry.find_requester(1, 0)).nonce = 10;
    pit.put_in_record(entry, 2, entry.find_requester(2, 0)).nonce = 20;

    const auto known = entry.find_requester(1, 30);
    CHECK(known.own == entry.find_in_record(1));
    CHECK(known.knows_nonce);
    const auto stranger = entry.find_requester(9, 40);
    CHECK(stranger.own == nullptr);
    CHECK_FALSE(stranger.knows_nonce);
    CHECK(stranger.last == entry.find_in_record(2));
}

TEST_CASE("Data matches its own name, and prefixes of entries with CanBePrefix") {
    Keys key;
    Pit pit(16);
    PitEntry* exact = pit.insert(key("/a/b/c"), {});
    PitEntry* exact_prefix = pit.insert(key("/a/b/c", true), {});
    PitEntry* prefix = pit.insert(key("/a", true), {});
    pit.insert(key("/a/b"), {});
    pit.insert(key("/a/b/c/d", true), {});
    std::vector<PitEntry*> matches;
    const wire::Name data = wire::Name::from_uri("/a/b/c").value();
    pit.collect_matches(NamePrefixes(data.view()), matches);
    CHECK(matches.size() == 3);
    for (PitEntry* entry : {exact, exact_prefix, prefix}) {
        CHECK(std::ranges::count(matches, entry) == 1);
    }
}

TEST_CASE("names chosen for one bucket are refused before a look-up takes long") {
    Keys key;
    Pit pit(100'000);
    std::size_t refused = 0;
    std::string last;
    for (std::uint64_t i = 0, sent = 0; sent < 200; ++i) {
        const std::string uri = "/x" + std::to_string(i);
        const PitKey chosen = key(uri);
        if (chosen.hash % 256 != 0) continue;
        ++sent;
        refused += pit.insert(chosen, {}) == nullptr ? 1 : 0;
        if (sent == 1) last = uri;
    }
    CHECK(pit.longest_chain() <= 32);
    CHECK(refused == 200 - pit.size());
    CHECK(pit.insert(key("/others/a"), {}) != nullptr);
    CHECK(pit.find(key(last)) != nullptr);
}
