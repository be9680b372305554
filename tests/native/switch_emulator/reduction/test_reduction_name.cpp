#include <doctest/doctest.h>

#include <string>

#include "switch_emulator/reduction/formats/registry.hpp"
#include "switch_emulator/reduction/reduction_name.hpp"

namespace innet::reduction {

namespace {

wire::Name name_of(const std::string& uri) {
    const auto name = wire::Name::from_uri(uri);
    REQUIRE(name);
    return *name;
}

}  // namespace

TEST_CASE("a reduction's name is parsed from its end") {
    const wire::Name name = name_of("/a/longer/job/g0/0-3/max.bf16/seq=41/seg=70000");
    const auto parsed = ReductionName::parse(name.view());
    REQUIRE(parsed);
    CHECK(parsed->group().to_uri() == "/a/longer/job/g0");
    CHECK(interval_text(parsed->interval()) == "0-3");
    CHECK(&parsed->format() == find_format("max.bf16"));
    CHECK(parsed->sequence() == 41);
    CHECK(parsed->segment() == 70000);
    CHECK(parsed->hash() == name.view().hash());
    CHECK(parsed->rule_hash() == name_of("/a/longer/job/g0/0-3").view().hash());
}

TEST_CASE("an operand's name differs only in its interval") {
    const wire::Name name = name_of("/job/g0/0-7/sum.f32/seq=41/seg=9");
    const auto parsed = ReductionName::parse(name.view());
    REQUIRE(parsed);
    const wire::Name interval = wire::Name().append("14-3");
    OperandNameBuffer buffer;
    const wire::NameView operand = parsed->operand(interval.view().value(), buffer);
    CHECK(operand.to_uri() == "/job/g0/14-3/sum.f32/seq=41/seg=9");
    wire::NameHasher hasher;
    hasher.add(name_of("/job/g0/14-3").view().value());
    const auto hash = parsed->operand_hash(hasher);
    CHECK(hash.name == operand.hash());
    CHECK(hash.publication == name_of("/job/g0/14-3/sum.f32/seq=41").view().hash());
}

TEST_CASE("names of another form are not reductions") {
    for (const auto* uri : {
             "/job/g0/0-3/sum.f32/seq=41",          // no segment
             "/job/g0/0-3/sum.f32/seg=9/seq=41",    // in another order
             "/job/g0/0-3/sum.f32/41/9",            // untyped numbers
             "/job/g0/0-3/bcast.f32/seq=41/seg=9",  // nothing is reduced
             "/job/g0/0-3/sum.f8/seq=41/seg=9",     // unknown type
             "/job/g0/0-3/bxor.f32/seq=41/seg=9",   // an operation that the type does not know
             "/job/g0/0-3/min.c64/seq=41/seg=9",    //
             "/job/g0/0-3/sumf32/seq=41/seg=9",     //
             "/job/g0/0-3/sum.f32.x/seq=41/seg=9",  //
             "/0-3/sum.f32/seq=41/seg=9",           // no group
             "/job/g0/3/p2p.f32/5/0/seq=41/seg=9",  // a message
             "/job/g0/seg=3/sum.f32/seq=41/seg=9",  // interval of another type
         }) {
        CAPTURE(uri);
        CHECK(!ReductionName::parse(name_of(uri).view()));
    }
    CHECK(!ReductionName::parse({}));
    wire::Name long_interval = name_of("/job/g0");
    long_interval.append(std::string(kMaxInterval, '7')).append("sum.f32");
    long_interval.append_number(wire::kSequenceNumComponent, 1)
        .append_number(wire::kSegmentComponent, 1);
    CHECK(!ReductionName::parse(long_interval.view()));
    wire::Name long_group = wire::Name().append(std::string(kMaxReductionName, 'g'));
    long_group.append("0-3").append("sum.f32");
    long_group.append_number(wire::kSequenceNumComponent, 1)
        .append_number(wire::kSegmentComponent, 1);
    CHECK(!ReductionName::parse(long_group.view()));
}

}  // namespace innet::reduction
