// Strategies of a node: Python selects them, or decides itself.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "innet/_native/name_argument.hpp"
#include "innet/_native/node_handle.hpp"
#include "innet/_native/node_settings.hpp"
#include "transport/priority_mutex.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

using driver::Engine;
using forwarding::strategies::StrategyDecision;
using forwarding::strategies::StrategyEvent;
using nb::literals::operator""_a;

/// (kind, question, name, face, repeated, [(face, cost)], RTT in s, reason)
using EventTuple =
    std::tuple<int, std::uint64_t, std::string, FaceId, bool,
               std::vector<std::pair<FaceId, std::uint32_t>>, std::optional<double>, int>;

/// Queue of events from a node's thread to a strategy in Python.
class StrategyEvents final : public forwarding::strategies::StrategyListener {
  public:
    static constexpr std::size_t kCapacity = 4096;

    bool on_event(StrategyEvent event) override {
        {
            const std::lock_guard lock(mutex_);
            if (closed_ || waiting_.size() >= kCapacity) return false;
            waiting_.push_back(std::move(event));
        }
        changed_.notify_one();
        return true;
    }

    void close() {
        {
            const std::lock_guard lock(mutex_);
            closed_ = true;
            waiting_.clear();
        }
        changed_.notify_all();
    }

    /// Waits for events and takes them; nothing once it is closed.
    std::optional<std::vector<EventTuple>> take() {
        std::deque<StrategyEvent> taken;
        {
            nb::gil_scoped_release release;
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
            if (closed_) return std::nullopt;
            taken.swap(waiting_);
        }
        std::vector<EventTuple> result;
        for (const StrategyEvent& event : taken) result.push_back(as_tuple(event));
        return result;
    }

  private:
    static EventTuple as_tuple(const StrategyEvent& event) {
        std::vector<std::pair<FaceId, std::uint32_t>> hops;
        for (const tables::NextHop& hop : event.next_hops) hops.emplace_back(hop.face, hop.cost);
        std::optional<double> rtt_s;
        if (event.rtt) rtt_s = std::chrono::duration<double>(*event.rtt).count();
        return {static_cast<int>(event.kind),
                event.question,
                event.name.view().to_uri(),
                event.face,
                event.repeated,
                std::move(hops),
                rtt_s,
                static_cast<int>(event.reason)};
    }

    PriorityMutex mutex_;
    PriorityCondition changed_;
    std::deque<StrategyEvent> waiting_;
    bool closed_ = false;
};

std::vector<std::pair<std::string, std::string>> choices(NodeHandle& self) {
    std::vector<std::pair<std::string, std::string>> all;
    self.call([&](Engine& engine) {
        for (const forwarding::StrategyChoice& choice : engine.node.strategies()) {
            all.emplace_back(choice.prefix.view().to_uri(), choice.strategy.view().to_uri());
        }
    });
    return all;
}

bool set_strategy(NodeHandle& self, const std::string& prefix, const std::string& strategy) {
    const wire::Name name = name_from_uri(prefix);
    const wire::Name chosen = name_from_uri(strategy);
    bool known = false;
    self.call([&](Engine& engine) { known = engine.node.set_strategy(name, chosen); });
    return known;
}

bool unset_strategy(NodeHandle& self, const std::string& prefix) {
    const wire::Name name = name_from_uri(prefix);
    bool was_set = false;
    self.call([&](Engine& engine) { was_set = engine.node.unset_strategy(name); });
    return was_set;
}

std::shared_ptr<StrategyEvents> open_strategy(NodeHandle& self, const std::string& prefix,
                                              const std::string& strategy, double patience_s) {
    auto events = std::make_shared<StrategyEvents>();
    const wire::Name name = name_from_uri(prefix);
    const wire::Name called = name_from_uri(strategy);
    bool chosen = false;
    self.call([&](Engine& engine) {
        chosen = engine.node.set_outside_strategy(name, called, events, from_seconds(patience_s));
    });
    if (!chosen) throw std::runtime_error("the node has too many strategies");
    return events;
}

bool decide(NodeHandle& self, std::uint64_t question, StrategyDecision decision) {
    return self.post([question, decision = std::move(decision)](Engine& engine) {
        engine.node.decide(question, decision, engine.now);
    });
}

}  // namespace

void bind_strategies_of(nb::module_& module, nb::class_<NodeHandle>& node) {
    module.attr("STRATEGY_INTEREST") = static_cast<int>(StrategyEvent::Kind::kInterest);
    module.attr("STRATEGY_DATA") = static_cast<int>(StrategyEvent::Kind::kData);
    module.attr("STRATEGY_NACK") = static_cast<int>(StrategyEvent::Kind::kNack);
    module.attr("STRATEGY_TIMEOUT") = static_cast<int>(StrategyEvent::Kind::kTimeout);
    nb::class_<StrategyEvents>(module, "StrategyEvents",
                               "Events that a strategy in Python decides.")
        .def("take", &StrategyEvents::take,
             "Waits for events and returns those since the last call; None once it is closed. "
             "(kind, question, name, face, repeated, next hops, round-trip time in s, reason).")
        .def("close", &StrategyEvents::close);
    node.def("set_strategy", &set_strategy, "prefix"_a, "strategy"_a,
             "False when there is no strategy of that name.")
        .def("unset_strategy", &unset_strategy, "prefix"_a,
             "False when nothing was set for exactly that prefix.")
        .def("strategies", &choices, "(prefix, strategy), and '/' for all other names.")
        .def("open_strategy", &open_strategy, "prefix"_a, "strategy"_a, "patience_s"_a,
             "The consumer of these events decides for that prefix.")
        .def(
            "decide_to_ask",
            [](NodeHandle& self, std::uint64_t question, std::vector<FaceId> faces) {
                return decide(self, question, {.faces = std::move(faces)});
            },
            "question"_a, "faces"_a)
        .def(
            "decide_to_refuse",
            [](NodeHandle& self, std::uint64_t question, int reason) {
                return decide(self, question,
                              {.kind = StrategyDecision::Kind::kRefuse,
                               .reason = static_cast<wire::NackReason>(reason)});
            },
            "question"_a, "reason"_a)
        .def(
            "fail_to_decide",
            [](NodeHandle& self, std::uint64_t question) {
                return decide(self, question, {.kind = StrategyDecision::Kind::kFailed});
            },
            "question"_a, "Best-route decides, and it is counted.");
}

}  // namespace innet::bindings
