// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <iostream>
#include <string>

#include "peer.hpp"

// The test peer of interop-tests/PEER.md: one JSON request per line in, one answer per line out.

namespace {

/// Lines from and to a descriptor.
class Lines {
  public:
    Lines(int in, int out) noexcept : in_(in), out_(out) {}

    /// False at the end of input.
    bool read(std::string& line) {
        for (;;) {
            const auto end = buffer_.find('\n');
            if (end != std::string::npos) {
                line = buffer_.substr(0, end);
                buffer_.erase(0, end + 1);
                return true;
            }
            char bytes[65536];
            const ssize_t count = ::read(in_, bytes, sizeof bytes);
            if (count <= 0) return false;
            buffer_.append(bytes, static_cast<std::size_t>(count));
        }
    }

    bool write(const std::string& line) const {
        const std::string text = line + "\n";
        for (std::size_t done = 0; done < text.size();) {
            const ssize_t count = ::write(out_, text.data() + done, text.size() - done);
            if (count <= 0) return false;
            done += static_cast<std::size_t>(count);
        }
        return true;
    }

  private:
    int in_;
    int out_;
    std::string buffer_;
};

int connect_to(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return -1;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        ::close(fd);
        return -1;
    }
    return fd;
}

void serve(Lines lines) {
    peer::Peer peer;
    for (std::string line; lines.read(line);) {
        const peer::Json request = peer::Json::parse(line, nullptr, false);
        peer::Json answer;
        bool quit = false;
        if (!request.is_object()) {
            answer = {{"ok", false}, {"error", "bad-request"}, {"message", "a line must be one JSON object"}};
        } else {
            const auto op = request.find("op");
            quit = op != request.end() && *op == "quit";
            answer = quit ? peer::Json{{"ok", true}} : peer.answer(request);
            if (request.contains("id")) answer["id"] = request["id"];
        }
        if (!lines.write(answer.dump(-1, ' ', false, peer::Json::error_handler_t::replace)) || quit) return;
    }
}

}  // namespace

int main(int count, char** words) {
    int in = STDIN_FILENO;
    int out = STDOUT_FILENO;
    if (count == 3 && std::string(words[1]) == "--socket") {
        in = out = connect_to(words[2]);
        if (in < 0) {
            std::cerr << "flyring-peer: cannot connect to " << words[2] << "\n";
            return 1;
        }
    } else if (count != 1) {
        std::cerr << "flyring-peer [--socket PATH]\n";
        return 2;
    }
    try {
        serve(Lines(in, out));
    } catch (const std::exception& error) {
        std::cerr << "flyring-peer: " << error.what() << "\n";
        return 1;
    }
    return 0;
}
