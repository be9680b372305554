#include <doctest/doctest.h>

#include <algorithm>

#include "tests/native/support/elements.hpp"
#include "transport/wire/data.hpp"

using namespace innet::wire;
using namespace std::chrono_literals;
using innet::test::Bytes;
using innet::test::from_hex;
using innet::test::join;
using innet::test::short_name;
using innet::test::text;
using innet::test::tlv;

namespace {

const Bytes kDigestInfo = tlv(kSignatureInfo, {tlv(kSignatureType, {from_hex("00")})});
const Bytes kDigestValue = tlv(kSignatureValue, {Bytes(32, 1)});

bool parses(const Bytes& packet) { return DataView::parse(packet).has_value(); }

bool same(ByteView a, ByteView b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

Bytes data_with_meta(std::initializer_list<Bytes> elements) {
    return tlv(kData,
               {short_name(), tlv(kMetaInfo, elements), tlv(kContent), kDigestInfo, kDigestValue});
}

Bytes data_with_signature_info(std::initializer_list<Bytes> elements) {
    return tlv(kData, {short_name(), tlv(kContent), tlv(kSignatureInfo, elements), kDigestValue});
}

}  // namespace

TEST_CASE("Data of python-ndn under a digest") {
    const Bytes packet = from_hex(
        "0648071408056c6f63616c08036e646e0806707265666978140318010015040102030416031b01001720"
        "35ecb6e40d8c477d13127cfb44c59c325b75d0484f941fa1f075947498d06d04");
    const auto data = DataView::parse(packet);
    REQUIRE(data);
    CHECK(data->name().to_uri() == "/local/ndn/prefix");
    CHECK(data->content_type() == ContentType::kBlob);
    CHECK(data->freshness() == 0ms);
    CHECK_FALSE(data->final_segment());
    CHECK(same(data->content(), from_hex("01020304")));
    CHECK(data->signature_type() == SignatureType::kDigestSha256);
    CHECK(data->key_name().empty());
    CHECK(same(data->signed_portion(), ByteView(packet).subspan(2, packet.size() - 2 - 34)));
    CHECK(same(data->signature_value(), ByteView(packet).last(32)));
    CHECK_FALSE(data->tensor_elements());
    CHECK_FALSE(data->tensor_error());
}

TEST_CASE("Data of python-ndn with MetaInfo and no content") {
    const Bytes packet = from_hex(
        "0647070d0805766964656f360103320100140d180102190203e81a043202012c150016031b01001720"
        "2e808ddb875637aac634475e5d3a8b13ed9d6c7134d6754c0bef5b6c061ea36a");
    const auto data = DataView::parse(packet);
    REQUIRE(data);
    CHECK(data->name().to_uri() == "/video/v=3/seg=0");
    CHECK(data->content_type() == ContentType::kKey);
    CHECK(data->freshness() == 1s);
    CHECK(data->final_segment() == 300);
    CHECK(data->content().empty());
}

TEST_CASE("Data of python-ndn with a key locator") {
    const Bytes packet = from_hex(
        "065b070f08036a6f6208026730080133320109140618010019010a15086772616469656e74"
        "16141b01041c0f070d08036a6f6208034b45590801311720"
        "eca03228f1165cc82a14c3e05114a840683975eee501c70af98a7ef05314828c");
    const auto data = DataView::parse(packet);
    REQUIRE(data);
    CHECK(data->signature_type() == SignatureType::kHmacSha256);
    CHECK(data->key_name().to_uri() == "/job/KEY/1");
    CHECK(same(data->content(), text("gradient")));
}

TEST_CASE("the laid-out packet equals python-ndn's encoding") {
    const auto name = Name::from_uri("/video/v=3/seg=0");
    DataFields fields;
    fields.name = name->view();
    fields.content_type = ContentType::kKey;
    fields.freshness = 1s;
    fields.final_segment = 300;
    Bytes buffer(encoded_data_size(fields, 0, 32));
    const DataLayout layout = encode_data(fields, 0, 32, buffer);
    REQUIRE(layout.size == buffer.size());
    const Bytes signature =
        from_hex("2e808ddb875637aac634475e5d3a8b13ed9d6c7134d6754c0bef5b6c061ea36a");
    std::copy(signature.begin(), signature.end(),
              buffer.begin() + static_cast<std::ptrdiff_t>(layout.signature_offset));
    CHECK(buffer == from_hex("0647070d0805766964656f360103320100140d180102190203e81a043202012c1500"
                             "16031b010017202e808ddb875637aac634475e5d3a8b13ed9d6c7134d6754c0bef5b"
                             "6c061ea36a"));
}

TEST_CASE("an encoded Data of any size is decoded to the same") {
    const auto name = Name::from_uri("/train1/g0/0-7/sum.f32/seq=41/seg=9");
    const auto key_name = Name::from_uri("/train1/g0/KEY/1");
    for (const std::size_t content_size : {0, 1, 200, 252, 253, 8192, 65000, 65535, 65536}) {
        CAPTURE(content_size);
        DataFields fields;
        fields.name = name->view();
        fields.content_type = ContentType::kManifest;
        fields.freshness = 1500ms;
        fields.final_segment = 70000;
        fields.tensor_elements = 4'194'304;
        fields.tensor_error = TensorErrorCode::kOverflow;
        const Bytes earlier_calls = text("broadcast(root=1)");
        fields.earlier_calls = earlier_calls;
        fields.segments_received = 300;
        fields.signature_type = SignatureType::kGmac;
        fields.key_name = key_name->view();
        Bytes buffer(encoded_data_size(fields, content_size, 28), 0xcc);
        const DataLayout layout = encode_data(fields, content_size, 28, buffer);
        REQUIRE(layout.size == buffer.size());
        const auto data = DataView::parse(buffer);
        REQUIRE(data);
        CHECK(data->name() == name->view());
        CHECK(data->content_type() == ContentType::kManifest);
        CHECK(data->freshness() == 1500ms);
        CHECK(data->final_segment() == 70000);
        CHECK(data->tensor_elements() == 4'194'304);
        CHECK(data->tensor_error() == static_cast<std::uint64_t>(TensorErrorCode::kOverflow));
        CHECK(Bytes(data->earlier_calls().begin(), data->earlier_calls().end()) == earlier_calls);
        CHECK(data->segments_received() == 300);
        CHECK(data->signature_type() == SignatureType::kGmac);
        CHECK(data->key_name() == key_name->view());
        CHECK(data->content().size() == content_size);
        CHECK(data->content().data() == buffer.data() + layout.content_offset);
        CHECK(data->signed_portion().data() == buffer.data() + layout.signed_offset);
        CHECK(data->signed_portion().size() == layout.signed_size);
        CHECK(data->signature_value().data() == buffer.data() + layout.signature_offset);
        CHECK(data->signature_value().size() == layout.signature_size);
        CHECK(encode_data(fields, content_size, 28, std::span(buffer).first(buffer.size() - 1))
                  .size == 0);
    }
}

TEST_CASE("a Data needs its name, SignatureInfo and SignatureValue, in this order") {
    const Bytes content = tlv(kContent, {text("c")});
    CHECK(parses(tlv(kData, {short_name(), content, kDigestInfo, kDigestValue})));
    CHECK(parses(tlv(kData, {short_name(), kDigestInfo, kDigestValue})));
    CHECK_FALSE(parses(tlv(kInterest, {short_name(), content, kDigestInfo, kDigestValue})));
    CHECK_FALSE(parses(tlv(kData, {content, kDigestInfo, kDigestValue})));
    CHECK_FALSE(parses(tlv(kData, {short_name(), content, kDigestInfo})));
    CHECK_FALSE(parses(tlv(kData, {short_name(), content, kDigestValue})));
    CHECK_FALSE(parses(tlv(kData, {short_name(), content, kDigestValue, kDigestInfo})));
    CHECK_FALSE(parses(tlv(kData, {short_name(), kDigestInfo, content, kDigestValue})));
    CHECK_FALSE(parses(tlv(kData, {short_name(), content, content, kDigestInfo, kDigestValue})));
    CHECK_FALSE(parses(tlv(kData, {short_name(), tlv(1001), kDigestInfo, kDigestValue})));
    CHECK_FALSE(parses(tlv(kData, {tlv(1000), short_name(), kDigestInfo, kDigestValue})));
    CHECK_FALSE(
        parses(join({tlv(kData, {short_name(), kDigestInfo, kDigestValue}), from_hex("15")})));
}

TEST_CASE("unknown elements are skipped when they are not critical, and signed all the same") {
    const Bytes unknown = tlv(1000, {text("new")});
    const Bytes packet =
        tlv(kData, {short_name(), unknown, kDigestInfo, unknown, kDigestValue, unknown});
    const auto data = DataView::parse(packet);
    REQUIRE(data);
    CHECK(same(data->signed_portion(), join({short_name(), unknown, kDigestInfo, unknown})));
}

TEST_CASE("MetaInfo: order, numbers and the application's own elements") {
    const Bytes content_type = tlv(kContentType, {from_hex("03")});
    const Bytes freshness = tlv(kFreshnessPeriod, {from_hex("0a")});
    CHECK(parses(data_with_meta({content_type, freshness})));
    CHECK_FALSE(parses(data_with_meta({freshness, content_type})));
    CHECK_FALSE(parses(data_with_meta({content_type, content_type})));
    CHECK_FALSE(parses(data_with_meta({tlv(kContentType)})));
    CHECK_FALSE(parses(data_with_meta({tlv(kFreshnessPeriod, {from_hex("000000")})})));
    CHECK_FALSE(parses(data_with_meta({tlv(31)})));
    CHECK_FALSE(parses(data_with_meta({tlv(1001)})));
    CHECK(parses(data_with_meta({tlv(1000)})));
    CHECK(parses(data_with_meta({tlv(129)})));
    // Numbers of innet's that another application uses in its own way.
    const Bytes foreign = data_with_meta({tlv(kTensorElements, {text("abc")})});
    REQUIRE(parses(foreign));
    CHECK_FALSE(DataView::parse(foreign)->tensor_elements());
    const Bytes huge = data_with_meta({tlv(kContentType, {from_hex("0000000100000002")})});
    CHECK(static_cast<std::uint64_t>(DataView::parse(huge)->content_type()) == 0x1'0000'0002ULL);
}

TEST_CASE("FinalBlockId is one component; only a segment gives a number") {
    const auto with = [](const Bytes& value) {
        return data_with_meta({tlv(kFinalBlockId, {value})});
    };
    const Bytes segment = with(tlv(kSegmentComponent, {from_hex("07")}));
    CHECK(DataView::parse(segment)->final_segment() == 7);
    const Bytes generic = with(tlv(kGenericComponent, {from_hex("07")}));
    REQUIRE(parses(generic));
    CHECK_FALSE(DataView::parse(generic)->final_segment());
    CHECK_FALSE(parses(with({})));
    CHECK_FALSE(parses(with(from_hex("0107"))));
    CHECK_FALSE(parses(with(join({tlv(kSegmentComponent, {from_hex("07")}), tlv(8)}))));
}

TEST_CASE("SignatureInfo begins with its type; a key locator names one key") {
    const Bytes type = tlv(kSignatureType, {from_hex("05")});
    const Bytes locator = tlv(kKeyLocator, {short_name()});
    CHECK(parses(data_with_signature_info({type, locator})));
    CHECK_FALSE(parses(data_with_signature_info({})));
    CHECK_FALSE(parses(data_with_signature_info({locator, type})));
    CHECK_FALSE(parses(data_with_signature_info({type, type})));
    CHECK_FALSE(parses(data_with_signature_info({type, locator, locator})));
    CHECK_FALSE(parses(data_with_signature_info({type, tlv(kKeyLocator)})));
    CHECK_FALSE(parses(data_with_signature_info({type, tlv(kKeyLocator, {tlv(kNonce)})})));
    CHECK_FALSE(
        parses(data_with_signature_info({type, tlv(kKeyLocator, {short_name(), short_name()})})));
    CHECK_FALSE(parses(data_with_signature_info({type, tlv(1001)})));
    CHECK_FALSE(parses(data_with_signature_info({tlv(kSignatureType), locator})));
    CHECK(parses(data_with_signature_info({type, locator, tlv(kValidityPeriod), tlv(258)})));
    const Bytes digest = data_with_signature_info({type, tlv(kKeyLocator, {tlv(kKeyDigest)})});
    REQUIRE(parses(digest));
    CHECK(DataView::parse(digest)->key_name().empty());
}

TEST_CASE("Data with an implicit digest anywhere in its name is malformed") {
    const Bytes generic = tlv(kGenericComponent, {text("a")});
    const Bytes digest = tlv(kImplicitSha256Digest, {Bytes(32, 1)});
    const auto named = [&](std::initializer_list<Bytes> components) {
        return tlv(kData, {tlv(kName, components), tlv(kContent), kDigestInfo, kDigestValue});
    };
    CHECK(parses(named({generic, generic})));
    CHECK_FALSE(parses(named({generic, digest})));
    CHECK_FALSE(parses(named({generic, digest, generic})));
    CHECK_FALSE(parses(named({digest})));
    // The parameters' digest is of the Interest, which Data answer under its name.
    CHECK(parses(named({generic, tlv(kParametersSha256Digest, {Bytes(32, 1)})})));
}

TEST_CASE("a freshness of any size can be added to a time") {
    const Bytes packet = data_with_meta({tlv(kFreshnessPeriod, {Bytes(8, 0xff)})});
    const innet::TimePoint now(24h * 365 * 50);
    CHECK(now + DataView::parse(packet)->freshness() > now);
}

TEST_CASE("a packet's frame is the same whole and cut around its content, and no other cut") {
    const auto name = Name::from_uri("/train1/g0/3/sum.f32/seq=41/seg=9");
    const auto key_name = Name::from_uri("/train1/g0/KEY/1");
    for (const std::size_t content_size : {1, 252, 253, 65000}) {
        CAPTURE(content_size);
        DataFields fields;
        fields.name = name->view();
        fields.final_segment = 70;
        fields.signature_type = SignatureType::kGmac;
        fields.key_name = key_name->view();
        Bytes buffer(encoded_data_size(fields, content_size, 28), 0xcc);
        const DataLayout layout = encode_data(fields, content_size, 28, buffer);
        const auto cut_at = [&](std::size_t begin, std::size_t end) {
            const ByteView bytes(buffer);
            return DataFrame::parse(
                {bytes.first(begin), bytes.subspan(begin, end - begin), bytes.subspan(end)});
        };
        const std::size_t end = layout.content_offset + content_size;
        const auto cut = cut_at(layout.content_offset, end);
        for (const auto& frame : {DataFrame::parse({ByteView(buffer)}), cut}) {
            REQUIRE(frame);
            CHECK(frame->name == name->view());
            CHECK(frame->key_name == key_name->view());
            CHECK(frame->signature_offset == layout.signature_offset);
            CHECK(frame->signature_value.data() == buffer.data() + layout.signature_offset);
            CHECK(frame->signature_value.size() == 28);
            Bytes portion;
            for (const ByteView part : frame->signed_parts) {
                portion.insert(portion.end(), part.begin(), part.end());
            }
            CHECK(std::ranges::equal(
                portion, ByteView(buffer).subspan(layout.signed_offset, layout.signed_size)));
        }
        CHECK_FALSE(cut_at(layout.content_offset - 1, end));
        CHECK_FALSE(cut_at(layout.content_offset, end + 1));
        CHECK_FALSE(cut_at(0, end));
        CHECK_FALSE(cut_at(layout.content_offset, buffer.size() - 1));
    }
}
