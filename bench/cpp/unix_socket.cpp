// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "byte_stream.hpp"
#include "contenders.hpp"

namespace bench {
namespace {

/// One connection from a to b: unix(7).
class Connection {
  public:
    Connection(const Setup& setup, int type) {
        only_one_to_one(setup);
        signal(SIGPIPE, SIG_IGN);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string path = setup.path("socket");
        if (path.size() >= sizeof address.sun_path) cannot(setup, "the path is too long for a socket: " + path);
        std::memcpy(address.sun_path, path.data(), path.size());
        flags_ = setup.block ? 0 : O_NONBLOCK;
        const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
        if (fd < 0) failed("socket");
        if (setup.client()) {
            fd_ = fd;
            if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
                failed("connect " + path);
            set_up(fd);
        } else {
            listener_ = fd;
            if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(fd, 1) != 0)
                failed("bind " + path);
        }
    }
    Connection(const Connection&) = delete;
    ~Connection() {
        if (fd_ >= 0) close(fd_);
        if (listener_ >= 0) close(listener_);
    }
    void connect() {
        if (listener_ < 0) return;
        fd_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd_ < 0) failed("accept");
        set_up(fd_);
    }
    static std::string version() { return linux_version(); }

  protected:
    int fd_ = -1;

  private:
    void set_up(int fd) const {
        const int length = 1 << 20;  // the system limits it to wmem_max
        if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &length, sizeof length) != 0) failed("SO_SNDBUF");
        if (fcntl(fd, F_SETFL, flags_) != 0) failed("F_SETFL");
    }

    int listener_ = -1;
    int flags_ = 0;
};

class UnixStream : public Connection {
  public:
    explicit UnixStream(const Setup& setup) : Connection(setup, SOCK_STREAM), stream_(setup.size) {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        stream_.send(fd_, write);
    }
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        stream_.receive(fd_, read);
    }

  private:
    ByteStream stream_;
};

class UnixSeqpacket : public Connection {
  public:
    explicit UnixSeqpacket(const Setup& setup) : Connection(setup, SOCK_SEQPACKET), message_(setup.size) {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        write(message_.data());
        while (::send(fd_, message_.data(), message_.size(), 0) < 0) {
            if (errno != EAGAIN) failed("send");
        }
    }
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        const ssize_t n = recv(fd_, message_.data(), message_.size(), 0);
        if (__builtin_expect(n != static_cast<ssize_t>(message_.size()), 0)) {
            if (n < 0 && errno == EAGAIN) return;
            if (n < 0) failed("recv");
            throw std::runtime_error(n == 0 ? "the other side has closed" : "received " + std::to_string(n) + " bytes");
        }
        read(message_.data());
    }

  private:
    std::vector<std::byte> message_;
};

}  // namespace

void run_unix_stream(const Setup& setup) {
    run<UnixStream>(setup);
}
void run_unix_seqpacket(const Setup& setup) {
    run<UnixSeqpacket>(setup);
}

}  // namespace bench
