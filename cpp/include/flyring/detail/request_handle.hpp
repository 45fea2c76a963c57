// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "flyring/detail/server_core.hpp"

// The operations of Request: inside its handler, or from any thread once it is kept (spec/service.md 5).

namespace flyring {

inline std::optional<std::chrono::nanoseconds> Request::remaining() const noexcept {
    if (state_->deadline <= 0) return std::nullopt;
    const std::int64_t now = detail::clock_ns(CLOCK_MONOTONIC) - state_->clock_offset;
    return std::chrono::nanoseconds(std::max<std::int64_t>(0, state_->deadline - now));
}

namespace detail {

/// Calls use(core) for a request; with the lock if the request is kept.
template <typename Use>
void with_server(ServerCore* core, RequestState& request, Use&& use) {
    if (FLYRING_LIKELY(!request.kept)) {
        const ServerCore::Access access(*core);
        return use(*core);
    }
    const ServerCore::KeptAccess held(request.link);
    if (held.core == nullptr) {
        throw Closed(
            "the server of this request was closed; its call ended as server gone, or goes to the next server");
    }
    use(*held.core);
    held.core->settle(request);
}

}  // namespace detail

inline void Request::reply(Bytes answer, std::int32_t type) {
    detail::with_server(core_, *state_,
                        [&](detail::ServerCore& core) { core.reply(*state_, layout::REPLY_STATUS_OK, answer, type); });
}

inline void Request::reply(Bytes answer) {
    detail::with_server(core_, *state_, [&](detail::ServerCore& core) {
        core.reply(*state_, layout::REPLY_STATUS_OK, answer, core.raw_type());
    });
}

inline void Request::fail(std::string_view text) {
    detail::with_server(core_, *state_, [&](detail::ServerCore& core) {
        const std::size_t most = std::min<std::size_t>(layout::REPLY_MAX_TEXT, core.max_length());
        const std::size_t length = detail::whole_letters(text.data(), text.size(), most);
        core.reply(*state_, layout::REPLY_STATUS_ERROR, as_bytes(text.substr(0, length)), layout::TYPE_RAW);
    });
}

inline Request Request::keep() {
    detail::with_server(core_, *state_, [&](detail::ServerCore& core) { core.keep(*state_); });
    return {nullptr, *state_, true};
}

inline std::int32_t Request::raw_type() const {
    std::int32_t type = 1;
    detail::with_server(core_, *state_, [&](detail::ServerCore& core) { type = core.raw_type(); });
    return type;
}

inline void Request::begin_stream(std::function<bool(std::vector<std::byte>&)> next, std::int32_t type) {
    using detail::ServerCore;
    detail::with_server(core_, *state_, [&](ServerCore& core) { core.begin_stream(*state_, std::move(next), type); });
    if (state_->kept) {
        ServerCore::go_on(*state_, [this] { return ServerCore::KeptAccess(state_->link); });
        const ServerCore::KeptAccess held(state_->link);
        if (held.core != nullptr) held.core->settle(*state_);
    } else {
        ServerCore::go_on(*state_, [this] { return ServerCore::Access(*core_); });
    }
}

void Request::drop() noexcept {
    if (state_ == nullptr || !owns_) return;
    detail::RequestState& request = *std::exchange(state_, nullptr);
    try {
        const detail::ServerCore::KeptAccess held(request.link);
        if (held.core != nullptr && --request.handles == 0 && request.answered == 0 && !request.streaming) {
            held.core->reply(request, layout::REPLY_STATUS_ERROR, as_bytes(std::string_view("no answer")),
                             layout::TYPE_RAW);
            held.core->settle(request);
        }
    } catch (...) {
        // The server has lost its slots: the call ends as *server gone*, or goes to the next server.
    }
    detail::ServerCore::release_kept(request);
}

}  // namespace flyring
