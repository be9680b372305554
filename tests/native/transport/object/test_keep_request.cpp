// Requests to keep blocks: what is one says all that its sender meant, and nothing else is one.

#include "object_hosts.hpp"
#include "transport/object/keep_request.hpp"

using namespace innet;
using namespace innet::testing;

namespace {

const std::string kHash(64, 'e');
const std::string kOtherHash(64, '0');
const std::string kPrefix = "/kv/ab/request/h1";
const std::string kFirst = "/h2/7f/keep/00ff/bf16_kv-nhd/0-31/" + kHash + "/12/h3.x";

std::optional<KeepRequest> parsed(const std::string& below) {
    const wire::Name request = name(kPrefix + below);
    return KeepRequest::parse(request.view(), name(kPrefix));
}

}  // namespace

TEST_CASE("a request names its requester, its source, and each block with its depth") {
    const wire::Name request = name(kPrefix + kFirst + "/32-63/" + kOtherHash + "/0");
    const auto read = KeepRequest::parse(request.view(), name(kPrefix));
    REQUIRE(read);
    CHECK(read->requester == "h2");
    CHECK(read->source == "h3.x");
    REQUIRE(read->blocks.size() == 2);
    CHECK(read->blocks[0].name == name("/kv/ab/00ff/bf16_kv-nhd/0-31/" + kHash));
    CHECK(read->blocks[0].depth == 12);
    CHECK(read->blocks[1].name == name("/kv/ab/00ff/bf16_kv-nhd/32-63/" + kOtherHash));
    CHECK(read->blocks[1].depth == 0);
}

TEST_CASE("a request is for one to sixteen blocks, and all of each") {
    const std::string more = "/0-31/" + kHash + "/1";
    std::string below = kFirst;
    for (std::size_t blocks = 1; blocks <= KeepRequest::kMaxBlocks; ++blocks, below += more) {
        REQUIRE(parsed(below));
        CHECK(parsed(below)->blocks.size() == blocks);
    }
    CHECK(!parsed(below));
    CHECK(!parsed(kFirst + "/0-31"));
    CHECK(!parsed(kFirst + "/0-31/" + kHash));
    CHECK(!parsed(kFirst.substr(0, kFirst.rfind('/'))));
    CHECK(!parsed(""));
}

TEST_CASE("hostile names are no requests") {
    const std::string hash = kHash;
    const std::vector<std::string> others{
        "/-h/7f/keep/00ff/l/0-31/" + hash + "/12/h3",  // no node
        "/" + std::string(33, 'h') + "/7/keep/00ff/l/0-1/" + hash + "/1/h3",
        "/h2/7F/keep/00ff/l/0-31/" + hash + "/12/h3",  // no nonce
        "/h2/7f/note/00ff/l/0-31/" + hash + "/12/h3",  // another verb
        "/h2/7f/keep/0/l/0-31/" + hash + "/12/h3",     // no digest
        "/h2/7f/keep/request/l/0-31/" + hash + "/12/h3",
        "/h2/7f/keep/00ff/a.b/0-31/" + hash + "/12/h3",  // no layout
        "/h2/7f/keep/00ff/l/31-0/" + hash + "/12/h3",    // no layers
        "/h2/7f/keep/00ff/l/0-031/" + hash + "/12/h3",
        "/h2/7f/keep/00ff/l/0-1-2/" + hash + "/12/h3",
        "/h2/7f/keep/00ff/l/-/" + hash + "/12/h3",
        "/h2/7f/keep/00ff/l/0-31/" + hash.substr(1) + "/12/h3",  // no hash
        "/h2/7f/keep/00ff/l/0-31/" + hash + "/012/h3",           // no depth
        "/h2/7f/keep/00ff/l/0-31/" + hash + "/1234567890/h3",
        "/h2/7f/keep/00ff/l/0-31/" + hash + "/-1/h3",
        "/h2/7f/keep/00ff/l/0-31/" + hash + "/12/%00h3",  // no source
        "/h2/7f/keep/00ff/l/0-31/" + hash + "/12/.h3",
        "/h2/7f/keep/00ff/l/0-31/" + hash + "/12/seq=3",  // no text
    };
    for (const std::string& below : others) {
        CAPTURE(below);
        CHECK(!parsed(below));
    }
    const wire::Name elsewhere = name("/kv/ab/request/h9" + kFirst);
    CHECK(!KeepRequest::parse(elsewhere.view(), name(kPrefix)));
    const wire::Name short_prefix = name("/h1" + kFirst);
    CHECK(!KeepRequest::parse(short_prefix.view(), name("/h1")));
}
