#include "innet/_native/node_settings.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>

#include "innet/_native/name_argument.hpp"

namespace nb = nanobind;

namespace innet::bindings {

Duration from_seconds(double seconds) {
    // A year is for ever here.
    constexpr double kLongest = 365.0 * 24 * 3600;
    const double bounded = std::fmin(std::fmax(seconds, 0.0), kLongest);
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(bounded));
}

forwarding::LinkRepetition link_repetition(const std::string& word) {
    if (word == "lossy") return forwarding::LinkRepetition::kLossy;
    if (word == "all") return forwarding::LinkRepetition::kAll;
    if (word == "none") return forwarding::LinkRepetition::kNone;
    throw nb::value_error("link_repetition must be 'lossy', 'all' or 'none'");
}

forwarding::NodeOptions node_options(const NodeSettings& settings) {
    forwarding::NodeOptions options;
    options.own_name = name_from_uri(settings.own_name);
    options.cache_bytes = settings.cache_bytes;
    if (settings.cache_policy != "s3fifo" && settings.cache_policy != "lru") {
        throw nb::value_error("cache_policy must be 's3fifo' or 'lru'");
    }
    options.cache_policy = settings.cache_policy == "lru" ? forwarding::CachePolicy::kLru
                                                          : forwarding::CachePolicy::kS3Fifo;
    options.pit_capacity = settings.pit_capacity;
    options.seed = settings.seed;
    options.link_timeout = from_seconds(settings.link_timeout_s);
    options.link_repetition = link_repetition(settings.link_repetition);
    options.reducer.own_name = options.own_name;
    options.reducer.slots = settings.reduction_slots;
    options.reducer.interest_lifetime = from_seconds(settings.interest_lifetime_s);
    options.reducer.min_rto = from_seconds(settings.min_rto_s);
    options.reducer.max_rto = from_seconds(settings.max_rto_s);
    options.reducer.timeouts_before_self_evaluation = settings.timeouts_before_self_evaluation;
    options.reducer.receive_credit_bytes = settings.receive_credit_bytes;
    options.reducer.receive_rate_bps = settings.receive_rate_bps;
    return options;
}

EndpointOptions endpoint_options(const NodeSettings& settings) {
    EndpointOptions options;
    options.initial_window = settings.initial_window;
    options.max_window = settings.max_window;
    options.receive_credit_bytes = settings.receive_credit_bytes;
    options.receive_rate_bps = settings.receive_rate_bps;
    options.evaluation_window = settings.evaluation_window;
    options.interest_lifetime = from_seconds(settings.interest_lifetime_s);
    options.min_rto = from_seconds(settings.min_rto_s);
    options.max_rto = from_seconds(settings.max_rto_s);
    options.timeouts_before_self_evaluation = settings.timeouts_before_self_evaluation;
    options.target_queue_delay = from_seconds(settings.target_queue_delay_s);
    if (settings.virtual_scale == 0) {
        throw nb::value_error("virtual_scale must be at least 1");
    }
    options.virtual_scale = settings.virtual_scale;
    return options;
}

void bind_settings(nb::module_& module) {
    nb::class_<NodeSettings>(module, "NodeSettings", "Sizes and timers of a node.")
        .def(nb::init<>())
        .def_rw("own_name", &NodeSettings::own_name)
        .def_rw("seed", &NodeSettings::seed)
        .def_rw("reduction_slots", &NodeSettings::reduction_slots)
        .def_rw("cache_bytes", &NodeSettings::cache_bytes)
        .def_rw("cache_policy", &NodeSettings::cache_policy)
        .def_rw("pit_capacity", &NodeSettings::pit_capacity)
        .def_rw("interest_lifetime_s", &NodeSettings::interest_lifetime_s)
        .def_rw("min_rto_s", &NodeSettings::min_rto_s)
        .def_rw("max_rto_s", &NodeSettings::max_rto_s)
        .def_rw("timeouts_before_self_evaluation", &NodeSettings::timeouts_before_self_evaluation)
        .def_rw("initial_window", &NodeSettings::initial_window)
        .def_rw("max_window", &NodeSettings::max_window)
        .def_rw("receive_credit_bytes", &NodeSettings::receive_credit_bytes)
        .def_rw("receive_rate_bps", &NodeSettings::receive_rate_bps)
        .def_rw("evaluation_window", &NodeSettings::evaluation_window)
        .def_rw("target_queue_delay_s", &NodeSettings::target_queue_delay_s)
        .def_rw("link_timeout_s", &NodeSettings::link_timeout_s)
        .def_rw("link_repetition", &NodeSettings::link_repetition)
        .def_rw("virtual_scale", &NodeSettings::virtual_scale);
}

}  // namespace innet::bindings
