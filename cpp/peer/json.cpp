// SPDX-License-Identifier: Apache-2.0
#include "peer.hpp"

// The JSON of the peer's answers.

namespace peer {

std::string to_hex(flyring::Bytes bytes) {
    constexpr const char* digits = "0123456789abcdef";
    std::string text;
    text.reserve(2 * bytes.size());
    for (const std::byte byte : bytes) {
        text += digits[static_cast<unsigned>(byte) >> 4];
        text += digits[static_cast<unsigned>(byte) & 15];
    }
    return text;
}

std::vector<std::byte> from_hex(const std::string& text) {
    const auto digit = [](char letter) -> unsigned {
        if (letter >= '0' && letter <= '9') return static_cast<unsigned>(letter - '0');
        if ((letter | 0x20) >= 'a' && (letter | 0x20) <= 'f') return static_cast<unsigned>((letter | 0x20) - 'a' + 10);
        throw BadRequest("not hex");
    };
    if (text.size() % 2 != 0) throw BadRequest("hex of odd length");
    std::vector<std::byte> bytes;
    bytes.reserve(text.size() / 2);
    for (std::size_t i = 0; i < text.size(); i += 2) {
        bytes.push_back(static_cast<std::byte>(digit(text[i]) << 4 | digit(text[i + 1])));
    }
    return bytes;
}

std::string uuid_text(const flyring::Uuid& uuid) {
    std::string text = to_hex({uuid.data(), uuid.size()});
    for (const std::size_t dash : {8U, 13U, 18U, 23U}) text.insert(dash, 1, '-');
    return text;
}

Json message_json(const flyring::Message& message) {
    return {{"data", to_hex(message.payload())},
            {"type", message.type()},
            {"ring", message.ring()},
            {"position", message.position()},
            {"sender", {{"name", message.sender().name}, {"epoch", message.sender().epoch}}}};
}

Json job_json(const flyring::Job& job) {
    return {{"data", to_hex(job.payload())},
            {"type", job.type()},
            {"ring", job.ring()},
            {"position", job.position()},
            {"attempts", job.attempts()},
            {"repeat", job.repeat()},
            {"sender", {{"name", job.sender().name}, {"epoch", job.sender().epoch}}}};
}

Json foreign_json(flyring::Foreign foreign) {
    if (foreign == flyring::Foreign::none) return nullptr;
    return foreign == flyring::Foreign::publisher ? "publisher" : "subscriber";
}

Json holder_json(const std::optional<flyring::Holder>& holder) {
    if (!holder) return nullptr;
    return {{"slot", holder->slot}, {"name", holder->name}, {"pid", holder->pid},
            {"live", holder->live}, {"kept", holder->kept}, {"position", holder->position}};
}

Json carried(const flyring::FlyringError& error) {
    using namespace flyring;
    if (const auto* e = dynamic_cast<const ChannelExists*>(&error)) return {{"path", e->path()}};
    if (const auto* e = dynamic_cast<const NoSuchChannel*>(&error)) return {{"path", e->path()}};
    if (const auto* e = dynamic_cast<const NotAChannel*>(&error)) return {{"path", e->path()}};
    if (const auto* e = dynamic_cast<const ChannelDiffers*>(&error)) {
        return {{"field", e->field()}, {"expected", e->expected()}, {"actual", e->actual()}};
    }
    if (const auto* e = dynamic_cast<const VersionTooNew*>(&error)) {
        return {{"field", e->field()}, {"found", e->found()}, {"supported", e->supported()}};
    }
    if (const auto* e = dynamic_cast<const Truncated*>(&error)) {
        return {{"expected", e->expected()}, {"actual", e->actual()}};
    }
    if (const auto* e = dynamic_cast<const CorruptHeader*>(&error)) return {{"field", e->field()}};
    if (const auto* e = dynamic_cast<const CorruptRing*>(&error)) {
        return {{"ring", e->ring()}, {"position", e->position()}, {"reason", e->reason()}};
    }
    if (const auto* e = dynamic_cast<const CorruptTable*>(&error)) {
        return {{"cell", e->cell()}, {"reason", e->reason()}};
    }
    if (const auto* e = dynamic_cast<const CorruptJournal*>(&error)) {
        return {{"position", e->position()}, {"reason", e->reason()}};
    }
    if (const auto* e = dynamic_cast<const Damaged*>(&error)) {
        return {{"from", e->from()}, {"to", e->to()}, {"messages", e->messages()}};
    }
    if (const auto* e = dynamic_cast<const NeedsRecovery*>(&error)) return {{"path", e->path()}};
    if (const auto* e = dynamic_cast<const NoSpace*>(&error)) return {{"needed", e->needed()}, {"free", e->free()}};
    if (const auto* e = dynamic_cast<const UnsuitableFileSystem*>(&error)) {
        return {{"path", e->path()}, {"reason", e->reason()}};
    }
    if (const auto* e = dynamic_cast<const AccessDenied*>(&error))
        return {{"path", e->path()}, {"reason", e->reason()}};
    if (const auto* e = dynamic_cast<const NoFreeSlot*>(&error)) {
        Json owners = Json::array();
        for (const SlotOwner& owner : e->owners()) {
            owners.push_back({{"slot", owner.slot}, {"name", owner.name}, {"pid", owner.pid}});
        }
        return {{"kind", e->kind()}, {"slots", e->slots()}, {"owners", owners}};
    }
    if (const auto* e = dynamic_cast<const MessageTooLarge*>(&error)) {
        return {{"length", e->length()}, {"limit", e->limit()}};
    }
    if (const auto* e = dynamic_cast<const InvalidArgument*>(&error)) return {{"argument", e->argument()}};
    if (const auto* e = dynamic_cast<const SlotLost*>(&error)) return {{"slot", e->slot()}};
    if (const auto* e = dynamic_cast<const ChannelReplaced*>(&error)) {
        return {{"path", e->path()}, {"channel_id", uuid_text(e->channel_id())}};
    }
    if (const auto* e = dynamic_cast<const BackPressured*>(&error)) return {{"holder", holder_json(e->holder())}};
    if (const auto* e = dynamic_cast<const Busy*>(&error)) {
        return {{"holder", holder_json(e->holder())}, {"outstanding", e->outstanding()}};
    }
    if (const auto* e = dynamic_cast<const ServerGone*>(&error)) {
        return {{"may_have_run", e->may_have_run()}, {"name", e->name()}, {"pid", e->pid()}};
    }
    if (const auto* e = dynamic_cast<const Expired*>(&error)) return {{"may_have_run", e->may_have_run()}};
    if (const auto* e = dynamic_cast<const ServiceError*>(&error)) return {{"text", e->text()}};
    if (const auto* e = dynamic_cast<const TimedOut*>(&error)) return {{"what_for", e->what_for()}};
    if (const auto* e = dynamic_cast<const Cancelled*>(&error)) return {{"what_for", e->what_for()}};
    if (const auto* e = dynamic_cast<const IoError*>(&error)) {
        return {{"call", e->call()}, {"errno", e->error()}, {"path", e->path()}};
    }
    return Json::object();
}

}  // namespace peer
