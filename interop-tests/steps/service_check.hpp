// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "file.hpp"
#include "plan.hpp"

// What must be true of a service after a process died in it (spec/service.md).

namespace steps {

/// A message on a ring of requests.
struct RequestIn {
    std::int64_t position = 0;
    std::int32_t type = 0;
    std::uint32_t sequence = 0;
    std::uint16_t operation = 0;
    std::uint32_t client_epoch = 0;
    std::uint32_t server_epoch = 0;
    Bytes payload{};
};

/// A message on a ring of replies.
struct ReplyIn {
    std::uint32_t client_epoch = 0;
    std::uint32_t sequence = 0;
    std::int32_t status = 0;
    bool final = false;
};

/// A service in the tracer, with the client that stays alive while the child is killed.
struct ServiceStage {
    /// Writes the file again from its first bytes. `lives`: client 2 does.
    ServiceStage(const std::string& path, const Bytes& bytes, bool lives);

    /// The client that lives calls, if there is a server that it would call.
    void call();
    /// Until its call has ended; how: `answer`, or the error's code, with `may-run` behind it if it says so. Throws
    /// Wrong if it does not.
    std::string end_of_call();

    std::string path;
    flyring::Channel channel;
    std::optional<flyring::Client> live;
    std::optional<flyring::Call> called;
};

/// What a death may leave: words and records by the page alone. `base`: the file that the child opened; `begun`: how
/// often its handlers were given the request of each type. Throws Wrong.
void check_left(const Image& image, const Image& base, const Bytes& begun, bool least);

/// The words of a client 0 that lives, and all of whose calls have ended. Throws Wrong.
void check_idle_client(const std::string& path);

/// After the death: the next server, the next clients, calls of all of them. `heirs_first`: the clients come before the
/// server. `least`: what was not answered is handed out again.
void check_service(ServiceStage& stage, const Bytes& before, bool least, bool heirs_first);

}  // namespace steps
