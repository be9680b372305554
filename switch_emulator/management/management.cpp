#include "switch_emulator/management/management.hpp"

#include <algorithm>
#include <utility>

#include "switch_emulator/management/prefix_announcement.hpp"
#include "transport/wire/data.hpp"

namespace innet::management {

namespace {

constexpr std::string_view kAnnounce = "announce";
constexpr std::string_view kRegister = "register";

const CommandRule* find_rule(const Module& module, std::string_view verb) {
    for (const CommandRule& rule : module.commands()) {
        if (rule.verb == verb) return &rule;
    }
    return nullptr;
}

/// What stands at the end of a dataset's name: a version, and a segment.
struct Version {
    wire::NameView dataset;                ///< without both
    wire::NameView versioned;              ///< without the segment; empty when there is no version
    std::optional<std::uint64_t> segment;  ///< unset: none is named, so the first
};

std::optional<Version> read_version(wire::NameView name) {
    Version version{.dataset = name, .versioned = {}, .segment = {}};
    wire::Element last = name.last_component();
    if (last.type == wire::kSegmentComponent) {
        version.segment = wire::read_nonnegative(last.value);
        if (!version.segment) return std::nullopt;
        version.dataset = version.dataset.parent();
        last = version.dataset.last_component();
        if (last.type != wire::kVersionComponent) return std::nullopt;
    }
    if (last.type == wire::kVersionComponent) {
        version.versioned = version.dataset;
        version.dataset = version.dataset.parent();
    }
    return version;
}

/// The component between the verb and the unused parameters digest, if any.
std::optional<wire::ByteView> read_filter(wire::NameView dataset, Module::DatasetKind kind) {
    constexpr std::size_t kVerbComponents = 4;
    const std::size_t filters = kind == Module::DatasetKind::kFiltered ? 1 : 0;
    const std::size_t size = dataset.size();
    const bool has_digest = dataset.last_component().type == wire::kParametersSha256Digest;
    if (size != kVerbComponents + filters + (has_digest ? 1 : 0)) return std::nullopt;
    return filters == 0 ? wire::ByteView() : dataset.component(kVerbComponents).value;
}

}  // namespace

Management::Management(forwarding::Node& node, PacketPool& pool, const ManagementOptions& options)
    : node_(node),
      packets_(pool),
      replays_(options.started_ms),
      authorisation_(options.authorisation, replays_),
      rib_(node, options.max_routes, options.max_next_hops),
      faces_(node),
      fib_(node, options.max_next_hops),
      strategies_(node, options.max_strategy_choices),
      cs_(node),
      status_(node, options.wall_time_at_zero_ms, options.started_ms),
      modules_{&rib_, &faces_, &fib_, &strategies_, &cs_, &status_} {}

void Management::authorise(const AuthorisationOptions& options) {
    authorisation_ = Authorisation(options, replays_);
}

ManagementCounters Management::counters() const {
    ManagementCounters counters = counters_;
    counters.routes = rib_.routes();
    return counters;
}

void Management::set_wall_time_at_zero(std::int64_t ms, TimePoint now) {
    status_.set_wall_time_at_zero(ms);
    replays_.on_wall_clock(status_.wall_time_ms(now));
}

void Management::on_face_closed(FaceId face) {
    rib_.on_face_closed(face);
    replays_.on_face_closed(face);
    status_.on_face_closed(face);
}

Module* Management::find_module(std::string_view name) {
    const auto found = std::ranges::find(modules_, name, &Module::name);
    return found == modules_.end() ? nullptr : *found;
}

Production Management::answer(FaceId from, const wire::InterestView& interest, TimePoint now) {
    const auto address = Address::read(interest.name());
    if (!address) return {};
    const Question question{from, interest, *address, now};
    Module* module = find_module(address->module);
    if (module == nullptr) {
        return malformed(question, "there is no such module", kNotImplemented);
    }
    if (module == &rib_ && address->verb == kAnnounce) return answer_announcement(question);
    if (const CommandRule* rule = find_rule(*module, address->verb)) {
        return answer_command(question, *module, *rule);
    }
    const Module::DatasetKind kind = module->dataset_kind(address->verb);
    if (kind == Module::DatasetKind::kNone) {
        return malformed(question, "there is no such command or dataset", kNotImplemented);
    }
    return answer_dataset(question, *module, kind);
}

Production Management::answer_command(const Question& question, Module& module,
                                      const CommandRule& rule) {
    const auto command = read_command(question.interest, question.address, sha256_);
    if (!command) return malformed(question, "malformed command");
    const auto parameters = ControlParameters::parse(command->payload);
    if (!parameters) return malformed(question, "malformed parameters");
    if (auto refused = refusal(question, *command, *parameters)) {
        return respond(question.interest.name(), *std::move(refused));
    }
    return carry_out(question, module, rule, *parameters);
}

Production Management::answer_announcement(const Question& question) {
    const auto command = read_command(question.interest, question.address, sha256_);
    if (!command) return malformed(question, "malformed command");
    auto announced = read_prefix_announcement(command->payload, status_.wall_time_ms(question.now));
    const auto* parameters = std::get_if<ControlParameters>(&announced);
    if (auto refused = refusal(question, *command,
                               parameters == nullptr ? ControlParameters() : *parameters)) {
        return respond(question.interest.name(), *std::move(refused));
    }
    if (parameters != nullptr) {
        if (auto refused = announcement_refusal(question, command->payload, *parameters)) {
            return respond(question.interest.name(), *std::move(refused));
        }
        return carry_out(question, rib_, *find_rule(rib_, kRegister), *parameters);
    }
    auto& invalid = std::get<ControlResponse>(announced);
    ++(invalid.code == kBadRequest ? counters_.malformed : counters_.commands);
    return respond(question.interest.name(), std::move(invalid));
}

std::optional<ControlResponse> Management::announcement_refusal(
    const Question& question, wire::ByteView announcement, const ControlParameters& parameters) {
    const auto data = wire::DataView::parse(announcement);
    const Authorisation::Ruling ruling =
        data ? authorisation_.judge_announcement(*data, status_.wall_time_ms(question.now))
             : Authorisation::Ruling::kBadSignature;
    if (ruling == Authorisation::Ruling::kAllowed) return std::nullopt;
    count_forbidden(question);
    ++counters_.announcements_forbidden;
    return ControlResponse{kForbidden,
                           "the prefix announcement is refused: " + std::string(describe(ruling)),
                           parameters};
}

std::optional<ControlResponse> Management::refusal(const Question& question, const Command& command,
                                                   const ControlParameters& parameters) {
    const Authorisation::Ruling ruling =
        authorisation_.judge({.from = question.from,
                              .admitted_by_file = admitted_by_file(question.from),
                              .localhop = question.address.localhop,
                              .module = question.address.module,
                              .interest_name = question.interest.name(),
                              .signature = command.signature,
                              .wall_time_ms = status_.wall_time_ms(question.now)});
    if (ruling == Authorisation::Ruling::kAllowed) return std::nullopt;
    count_forbidden(question);
    if (ruling == Authorisation::Ruling::kKeyless) ++counters_.keyless;
    if (ruling == Authorisation::Ruling::kReplayed) ++counters_.replayed;
    if (ruling == Authorisation::Ruling::kStale) ++counters_.stale;
    return ControlResponse{kForbidden, std::string(describe(ruling)), parameters};
}

bool Management::admitted_by_file(FaceId from) const {
    const bool is_own = from > kMaxNetworkFace;  // a requester of this node
    return is_own || node_.face_options(from).admitted_by_file;
}

void Management::count_forbidden(const Question& question) {
    ++counters_.forbidden;
    node_.count_forbidden_command(question.from);
}

Production Management::carry_out(const Question& question, Module& module, const CommandRule& rule,
                                 const ControlParameters& parameters) {
    if (std::string wrong = violation(parameters, rule); !wrong.empty()) {
        ++counters_.malformed;
        return respond(question.interest.name(), {kBadRequest, std::move(wrong), parameters});
    }
    ++counters_.commands;
    const wire::NameView name = question.interest.name();
    const CommandContext context{
        .from = question.from, .now = question.now, .defer = [this, name] { return defer(name); }};
    auto response = module.run(rule.verb, parameters, context);
    if (!response) return {.kind = Production::Kind::kPending, .data = {}, .missing = {}};
    if (response->code == kFull) ++counters_.full;
    return respond(name, *std::move(response));
}

Production Management::malformed(const Question& question, std::string text, std::uint32_t code) {
    ++counters_.malformed;
    return respond(question.interest.name(), {code, std::move(text), {}});
}

Production Management::respond(wire::NameView name, ControlResponse response) {
    PacketRef packet = response_packet(name, std::move(response));
    const auto kind = packet ? Production::Kind::kData : Production::Kind::kAbsent;
    return {.kind = kind, .data = std::move(packet), .missing = {}};
}

// The name is in the answer twice. Where both are too much for one packet, it is not echoed.
PacketRef Management::response_packet(wire::NameView name, ControlResponse response) {
    PacketRef packet = packets_.make(name, response.encode());
    if (packet) return packet;
    response.body.name.reset();
    response.body.uri.reset();
    response.body.local_uri.reset();
    response.body.strategy.reset();
    return packets_.make(name, response.encode());
}

Reply Management::defer(wire::NameView name) {
    return [this, name = wire::Name(name)](const ControlResponse& response) {
        if (PacketRef packet = response_packet(name.view(), response)) {
            node_.put_data(RequesterId::kApplication, std::move(packet), false);
        }
    };
}

Production Management::answer_dataset(const Question& question, Module& module,
                                      Module::DatasetKind kind) {
    ++counters_.datasets;
    if (question.address.localhop) {
        count_forbidden(question);
        return respond(question.interest.name(), {kForbidden, "not shown one hop away", {}});
    }
    const auto version = read_version(question.interest.name());
    const auto filter = version ? read_filter(version->dataset, kind) : std::nullopt;
    if (!filter) return malformed(question, "this is not the name of a dataset");
    if (!version->versioned.empty()) {
        const Snapshot* snapshot = datasets_.find(version->versioned, question.now);
        if (snapshot == nullptr)
            return {.kind = Production::Kind::kAbsent, .data = {}, .missing = {}};
        return segment_of(*snapshot, version->segment.value_or(0));
    }
    auto content = module.dataset(question.address.verb, *filter, question.now);
    if (!content) return malformed(question, "malformed filter");
    return segment_of(datasets_.publish(version->dataset, *std::move(content),
                                        status_.wall_time_ms(question.now), question.now),
                      0);
}

Production Management::segment_of(const Snapshot& snapshot, std::uint64_t index) {
    if (index >= snapshot.segments())
        return {.kind = Production::Kind::kAbsent, .data = {}, .missing = {}};
    wire::Name name = snapshot.versioned_name;
    name.append_number(wire::kSegmentComponent, index);
    PacketRef packet = packets_.make(name.view(), snapshot.segment(index), snapshot.segments() - 1);
    const auto kind = packet ? Production::Kind::kData : Production::Kind::kAbsent;
    return {.kind = kind, .data = std::move(packet), .missing = {}};
}

}  // namespace innet::management
