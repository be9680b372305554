#pragma once
// NDN names: a view over the Name element's value, and an owning name for tables.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/wire/name_hash.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::wire {

/// A checked view of a name: the value of a Name element. The bytes must outlive the view.
class NameView {
  public:
    NameView() = default;

    /// Nothing when a component is malformed, a digest component has a wrong length, a component
    /// type is outside 1..65535, or there are two ParametersSha256Digest components.
    static std::optional<NameView> parse(ByteView value);

    /// For bytes already checked by `parse`.
    static NameView trusted(ByteView value) { return NameView(value); }

    ByteView value() const { return value_; }
    bool empty() const { return value_.empty(); }
    std::size_t size() const;                    ///< number of components
    Element component(std::size_t index) const;  ///< index < size()
    Element last_component() const;              ///< of type 0 when the name is empty
    NameView prefix(std::size_t components) const;
    /// The last `count` components' start splits the name; useful to read names from the end.
    NameView parent() const;  ///< without the last component; empty stays empty
    NameHash hash() const { return hash_name(value_); }
    bool is_prefix_of(NameView other) const;
    bool operator==(NameView other) const;
    std::string to_uri() const;  ///< NDN URI scheme, with seq=/seg= conventions

  private:
    explicit NameView(ByteView value) : value_(value) {}
    ByteView value_;
};

struct CheckedName {
    NameView name;
    bool has_parameters_digest = false;
    bool has_implicit_digest = false;
};

/// `NameView::parse` that also finds digest components, in one pass.
std::optional<CheckedName> check_name(ByteView value);

/// A name that owns its bytes: for configuration and tables, not for per-packet work.
class Name {
  public:
    Name() = default;
    explicit Name(NameView view) : value_(view.value().begin(), view.value().end()) {}
    /// Parses a URI such as `/train1/g0/3/sum.f32/seq=41/seg=9`; nothing when it is malformed.
    static std::optional<Name> from_uri(std::string_view uri);

    NameView view() const { return NameView::trusted(value_); }
    Name& append(ByteView generic_value) { return append(kGenericComponent, generic_value); }
    Name& append(std::string_view text);
    Name& append(std::uint32_t type, ByteView value);
    Name& append_number(std::uint32_t type, std::uint64_t number);
    bool operator==(const Name& other) const = default;
    /// NDN's canonical order.
    std::strong_ordering operator<=>(const Name& other) const;

  private:
    std::vector<std::uint8_t> value_;
};

}  // namespace innet::wire
