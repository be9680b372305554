#pragma once
// A module of the management protocol: its commands and its datasets.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "switch_emulator/forwarding/face.hpp"
#include "switch_emulator/management/control_response.hpp"
#include "transport/time.hpp"

namespace innet::management {

/// Which fields a command must have, and which it may have beside them.
struct CommandRule {
    std::string_view verb;
    FieldSet required = 0;
    FieldSet optional = 0;
};

using Reply = std::function<void(const ControlResponse&)>;

struct CommandContext {
    FaceId from = kNoFace;
    TimePoint now;
    /// For a command whose answer takes time: it is sent when the reply is called, once, later.
    std::function<Reply()> defer;
};

class Module {
  public:
    virtual ~Module() = default;
    virtual std::string_view name() const = 0;
    virtual std::span<const CommandRule> commands() const { return {}; }
    /// Carries out one of its commands, whose parameters keep its rule. Nothing: the answer was
    /// deferred.
    virtual std::optional<ControlResponse> run(std::string_view verb,
                                               const ControlParameters& parameters,
                                               const CommandContext& context) {
        (void)verb, (void)parameters, (void)context;
        return ControlResponse{kNotImplemented, "no such command", {}};
    }

    /// Whether it has this dataset, and whether a name component says which part of it is meant.
    enum class DatasetKind : std::uint8_t { kNone, kWhole, kFiltered };
    virtual DatasetKind dataset_kind(std::string_view verb) const = 0;
    /// The elements of a dataset. `filter` is the component's value, empty for a whole one. Nothing
    /// when the filter is malformed.
    virtual std::optional<Bytes> dataset(std::string_view verb, wire::ByteView filter,
                                         TimePoint now) const = 0;
};

/// What a prefix has at most that clients put into a table, in components and bytes.
bool is_too_long(const wire::Name& prefix);
inline constexpr std::string_view kTooLong = "a prefix has at most 32 components and 1024 bytes";

/// Why a next hop cannot be what a command says, whose name and cost are filled in; `face` is the
/// one that it means. Nothing when it can be.
std::optional<ControlResponse> refusal_of_next_hop(const ControlParameters& parameters,
                                                   std::optional<FaceId> face);

/// What is wrong with the parameters of a command; empty when nothing is.
std::string violation(const ControlParameters& parameters, const CommandRule& rule);

}  // namespace innet::management
