// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "peer.hpp"

namespace peer {

namespace {

/// Whether the parent's objects throw Closed in a forked child (spec/channel.md 5.1).
bool closed_in_child(flyring::Channel& channel) {
    const pid_t child = ::fork();
    if (child == 0) {
        bool closed = false;
        try {
            channel.publisher();
        } catch (const flyring::Closed&) {
            closed = true;
        } catch (...) {
            // The object is not closed.
        }
        ::_exit(closed ? 0 : 1);
    }
    int status = 0;
    return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

char act(flyring::Channel& channel, const std::string& what) noexcept {
    try {
        if (what == "fork") return closed_in_child(channel) ? 'o' : 'x';
        channel.close();
        return 'o';
    } catch (const flyring::FlyringError&) {
        return 'e';
    } catch (...) {
        return 'x';
    }
}

}  // namespace

/// The op `beside`: starts a thread that waits for a byte from `fifo`.go, closes the channel or uses it in a forked
/// child, and writes the outcome to `fifo`.done.
Json Peer::beside(const Json& request) {
    flyring::Channel& channel = channel_of(request);
    const std::string what = request.at("do"), fifo = request.at("fifo");
    if (what != "close" && what != "fork") throw BadRequest("do is neither close nor fork");
    std::thread([&channel, what, fifo] {
        std::ifstream go(fifo + ".go");
        if (go.get() == std::ifstream::traits_type::eof()) return;
        const char done = act(channel, what);
        std::ofstream(fifo + ".done") << done;
    }).detach();
    return Json::object();
}

}  // namespace peer
