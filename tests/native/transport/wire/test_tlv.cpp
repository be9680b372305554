#include <doctest/doctest.h>

#include "tests/native/support/elements.hpp"
#include "transport/wire/tlv.hpp"

using namespace innet::wire;
using innet::test::Bytes;
using innet::test::from_hex;

namespace {

Bytes encoded_var_number(std::uint64_t number) {
    Bytes buffer(9);
    Writer writer{std::span(buffer)};
    writer.var_number(number);
    buffer.resize(writer.size());
    return buffer;
}

Bytes encoded_nonnegative(std::uint64_t number) {
    Bytes buffer(12);
    Writer writer{std::span(buffer)};
    writer.nonnegative_element(kContentType, number);
    buffer.resize(writer.size());
    return buffer;
}

}  // namespace

TEST_CASE("VAR-NUMBERs are written in their shortest form") {
    CHECK(encoded_var_number(0) == from_hex("00"));
    CHECK(encoded_var_number(252) == from_hex("fc"));
    CHECK(encoded_var_number(253) == from_hex("fd00fd"));
    CHECK(encoded_var_number(65535) == from_hex("fdffff"));
    CHECK(encoded_var_number(65536) == from_hex("fe00010000"));
    CHECK(encoded_var_number(0xffff'ffff) == from_hex("feffffffff"));
    CHECK(encoded_var_number(0x1'0000'0000) == from_hex("ff0000000100000000"));
}

TEST_CASE("NonNegativeIntegers are written as in the packet specification's examples") {
    CHECK(encoded_nonnegative(0) == from_hex("180100"));
    CHECK(encoded_nonnegative(1) == from_hex("180101"));
    CHECK(encoded_nonnegative(255) == from_hex("1801ff"));
    CHECK(encoded_nonnegative(256) == from_hex("18020100"));
    CHECK(encoded_nonnegative(65535) == from_hex("1802ffff"));
    CHECK(encoded_nonnegative(65536) == from_hex("180400010000"));
    CHECK(encoded_nonnegative(0x1'0000'0000) == from_hex("18080000000100000000"));
}

TEST_CASE("NonNegativeIntegers have 1, 2, 4 or 8 bytes") {
    const Bytes ones(9, 1);
    for (std::size_t size = 0; size <= ones.size(); ++size) {
        CAPTURE(size);
        const bool allowed = size == 1 || size == 2 || size == 4 || size == 8;
        CHECK(read_nonnegative(ByteView(ones).first(size)).has_value() == allowed);
    }
    CHECK(read_nonnegative(from_hex("fffefdfcfbfaf9f8")) == 0xfffefdfcfbfaf9f8ULL);
    CHECK(read_nonnegative(from_hex("0001")) == 1);  // longer than needed is not an error here
}

TEST_CASE("a reader gives elements with types and lengths of every size") {
    const Bytes bytes = from_hex(
        "0801ff"
        "fd032000"
        "fe0001000001aa");
    Reader reader(bytes);
    const auto first = reader.next();
    REQUIRE(first);
    CHECK(first->type == 8);
    CHECK(first->value.size() == 1);
    CHECK(first->whole.size() == 3);
    const auto second = reader.next();
    REQUIRE(second);
    CHECK(second->type == 0x320);
    CHECK(second->value.empty());
    CHECK(second->whole.size() == 4);
    const auto third = reader.next();
    REQUIRE(third);
    CHECK(third->type == 0x10000);
    CHECK(third->value[0] == 0xaa);
    CHECK(reader.empty());
    CHECK_FALSE(reader.next());
}

TEST_CASE("a long value is read with its long length") {
    Bytes bytes = from_hex("15fd0100");
    bytes.resize(4 + 256, 7);
    const auto element = read_only_element(bytes);
    REQUIRE(element);
    CHECK(element->value.size() == 256);
    bytes.push_back(0);
    CHECK_FALSE(read_only_element(bytes));
    bytes.resize(4 + 255);
    CHECK_FALSE(read_only_element(bytes));
}

TEST_CASE("a reader refuses malformed elements and stays where it is") {
    for (const char* hex : {
             "08",                      // no length
             "0801",                    // no value
             "0000",                    // type 0
             "fd000000",                // type 0, long
             "fd000801aa",              // type longer than needed
             "fdfc",                    // type cut short
             "08fd0001aa",              // length longer than needed
             "08fe00000001aa",          // length longer than needed
             "08ff0000000000000001aa",  // length longer than needed
             "08fd01",                  // length cut short
             "08ffffffffffffffffff00",  // length beyond all memory
             "ff000000010000000000",    // type above 32 bits
         }) {
        CAPTURE(hex);
        const Bytes bytes = from_hex(hex);
        Reader reader(bytes);
        CHECK_FALSE(reader.next());
        CHECK(reader.rest().size() == bytes.size());
    }
}

TEST_CASE("peeking does not advance") {
    const Bytes bytes = from_hex("080161");
    const Reader reader(bytes);
    CHECK(reader.peek()->type == 8);
    CHECK(reader.rest().size() == 3);
}

TEST_CASE("a writer that runs out of room writes nothing more") {
    Bytes buffer(5, 0xee);
    Writer writer{std::span(buffer).first(4)};
    writer.element(kGenericComponent, from_hex("01"));
    CHECK(writer.ok());
    writer.element(kGenericComponent, from_hex("0203"));
    CHECK_FALSE(writer.ok());
    writer.var_number(1);
    CHECK_FALSE(writer.ok());
    CHECK(buffer[4] == 0xee);
    CHECK(writer.size() <= 4);
}

TEST_CASE("types up to 31 and odd types are critical") {
    CHECK(is_critical(2));
    CHECK(is_critical(30));
    CHECK(is_critical(31));
    CHECK_FALSE(is_critical(32));
    CHECK(is_critical(33));
    CHECK_FALSE(is_critical(1000));
}
