// SPDX-License-Identifier: Apache-2.0
#include "peer.hpp"

// Channel::stats() as JSON, with the field names of spec/api.md, Stats.

namespace peer {

namespace {

const char* text(flyring::SlotState state) {
    switch (state) {
        case flyring::SlotState::unused:
            return "unused";
        case flyring::SlotState::live:
            return "live";
        case flyring::SlotState::closed:
            return "closed";
        case flyring::SlotState::away:
            return "away";
        case flyring::SlotState::foreign:
            return "foreign";
        case flyring::SlotState::returns:
            return "returns";
        case flyring::SlotState::shared:
            return "shared";
    }
    return "?";
}

Json json(const flyring::PublisherStats& publisher) {
    return {{"slot", publisher.slot},
            {"state", text(publisher.state)},
            {"name", publisher.name},
            {"pid", publisher.pid},
            {"epoch", publisher.epoch},
            {"attached_at", publisher.attached_at},
            {"start", publisher.start},
            {"published", publisher.published},
            {"claimed", publisher.claimed},
            {"messages", publisher.messages},
            {"blocked_since", publisher.blocked_since},
            {"blocked_for", publisher.blocked_for},
            {"blocked_length", publisher.blocked_length},
            {"blocked_by", publisher.blocked_by},
            {"readers", publisher.readers}};
}

Json json(const std::optional<flyring::InHandStats>& hand) {
    if (!hand) return nullptr;
    return {{"ring", hand->ring},         {"position", hand->position},     {"end", hand->end},
            {"attempts", hand->attempts}, {"busy_since", hand->busy_since}, {"busy_for", hand->busy_for}};
}

Json json(const flyring::SubscriberStats& subscriber) {
    Json gates = Json::array();
    for (const flyring::GateStats& gate : subscriber.gates) {
        gates.push_back(
            {{"ring", gate.ring}, {"position", gate.position}, {"lag", gate.lag}, {"lag_messages", gate.lag_messages}});
    }
    return {{"slot", subscriber.slot},
            {"state", text(subscriber.state)},
            {"name", subscriber.name},
            {"pid", subscriber.pid},
            {"epoch", subscriber.epoch},
            {"attached_at", subscriber.attached_at},
            {"kept", subscriber.kept},
            {"evicting", subscriber.evicting},
            {"discarded", subscriber.discarded},
            {"in_hand", json(subscriber.in_hand)},
            {"gates", gates},
            {"outstanding", subscriber.outstanding},
            {"expired", subscriber.expired}};
}

/// The key without its trailing zeros.
Json json(const flyring::CounterStats& counter) {
    std::size_t length = counter.key.size();
    while (length > 0 && counter.key[length - 1] == std::byte{0}) --length;
    return {{"id", counter.id},
            {"label", counter.label},
            {"type_id", counter.type_id},
            {"key", to_hex({counter.key.data(), length})},
            {"value", counter.value}};
}

Json json(const flyring::HeartbeatStats& heartbeat) {
    return {{"id", heartbeat.id},
            {"name", heartbeat.name},
            {"pid", heartbeat.pid},
            {"interval", heartbeat.interval},
            {"started_at", heartbeat.started_at},
            {"beats", heartbeat.beats}};
}

template <typename List>
Json array(const List& list) {
    Json made = Json::array();
    for (const auto& one : list) made.push_back(json(one));
    return made;
}

}  // namespace

Json Peer::stats(const Json& request) {
    if (request.contains("table")) return table_stats(request);
    const flyring::Stats stats = channel_of(request).stats();
    Json json = {{"path", stats.path},
                 {"id", uuid_text(stats.id)},
                 {"kind", flyring::detail::kind_name(stats.kind)},
                 {"capacity", stats.capacity},
                 {"alignment", stats.alignment},
                 {"foreign", foreign_json(stats.foreign)},
                 {"created_at", stats.created_at},
                 {"successor", stats.successor},
                 {"publishers", array(stats.publishers)},
                 {"subscribers", array(stats.subscribers)},
                 {"counters", array(stats.counters)},
                 {"heartbeats", array(stats.heartbeats())}};
    if (stats.kind == flyring::Kind::service) {
        json["clients"] = stats.clients;
        json["delivery"] = stats.delivery == flyring::Delivery::at_most_once ? "at-most-once" : "at-least-once";
        json["max_outstanding"] = stats.max_outstanding;
        json["serving"] = stats.serving;
    }
    return {{"stats", json}};
}

}  // namespace peer
