// SPDX-License-Identifier: Apache-2.0
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

#include <limits>

#include "contenders.hpp"
#include "raw.hpp"
#include "support.hpp"

namespace bench {
namespace {

/// One message each way in shared memory: its number and 32 bytes. The contender adds the way to wake the other side.
class Lines {
  public:
    explicit Lines(const Setup& setup) {
        if (!setup.block) cannot(setup, "it is what sleeping costs; raw-line spins (--wait block)");
        if (setup.size != size) cannot(setup, "32 bytes only");
        only_one_to_one(setup);
        std::byte* const file = map_file(setup, "lines", 2 * gap);
        out_ = reinterpret_cast<Line*>(file + (setup.producer() ? 0 : gap));
        in_ = reinterpret_cast<Line*>(file + (setup.producer() ? gap : 0));
    }

  protected:
    struct Line {
        alignas(64) std::atomic<std::uint64_t> number;
        std::byte message[32];
        alignas(64) std::atomic<std::uint32_t> sequence;
        std::atomic<std::uint32_t> asleep;
    };

    template <class Write>
    [[gnu::always_inline]] void put(Write&& write) {
        write(out_->message);
        out_->number.store(++sent_, std::memory_order_release);
    }
    [[gnu::always_inline]] bool is_here() const { return in_->number.load(std::memory_order_acquire) != received_; }
    template <class Read>
    [[gnu::always_inline]] void get(Read&& read) {
        ++received_;
        read(in_->message);
    }

    static constexpr std::size_t size = 32;
    static constexpr std::size_t gap = 4096;
    Line *out_, *in_;

  private:
    std::uint64_t sent_ = 0, received_ = 0;
};

/// The least that a sleep needs if a waker pays nothing while no side sleeps: spec/channel.md 6.16 without rings,
/// owners and a cap. `--option cap=1` adds a time-out of 100 ms, as Flyring has it.
class FutexBarrier : public Lines {
  public:
    explicit FutexBarrier(const Setup& setup) : Lines(setup), cap_(setup.option("cap", std::size_t{0}) != 0) {
        if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0U, 0) != 0)
            failed("membarrier: register");
    }
    void connect() {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        put(write);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        if ((out_->asleep.load(std::memory_order_relaxed) & 1) == 0) return;
        out_->asleep.fetch_and(~1U, std::memory_order_relaxed);
        out_->sequence.fetch_add(1, std::memory_order_release);
        syscall(SYS_futex, &out_->sequence, FUTEX_WAKE_BITSET, std::numeric_limits<int>::max(), nullptr, nullptr, 1U);
    }
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        if (!is_here()) return sleep();
        get(read);
    }
    static std::string version() { return linux_version(); }

  private:
    void sleep() {
        const std::uint32_t sequence = in_->sequence.load(std::memory_order_acquire);
        in_->asleep.fetch_or(1, std::memory_order_relaxed);
        if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0U, 0) != 0) failed("membarrier");
        if (is_here()) return;
        timespec until{};
        if (cap_) {
            clock_gettime(CLOCK_MONOTONIC, &until);
            until.tv_nsec += 100'000'000;
            if (until.tv_nsec >= 1'000'000'000) until = {until.tv_sec + 1, until.tv_nsec - 1'000'000'000};
        }
        syscall(SYS_futex, &in_->sequence, FUTEX_WAIT_BITSET, sequence, cap_ ? &until : nullptr, nullptr, 1U);
    }

    bool cap_;
};

/// The same message, with an eventfd(2) each way that every message writes to. The descriptors are passed over a
/// socket.
class EventFd : public Lines {
  public:
    explicit EventFd(const Setup& setup) : Lines(setup), client_(setup.client()) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string path = setup.path("socket");
        if (path.size() >= sizeof address.sun_path) cannot(setup, "the path is too long for a socket: " + path);
        std::memcpy(address.sun_path, path.data(), path.size());
        socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (socket_ < 0) failed("socket");
        const auto* const to = reinterpret_cast<const sockaddr*>(&address);
        if (client_) {
            if (::connect(socket_, to, sizeof address) != 0) failed("connect " + path);
        } else if (bind(socket_, to, sizeof address) != 0 || listen(socket_, 1) != 0) {
            failed("bind " + path);
        }
    }
    EventFd(const EventFd&) = delete;
    ~EventFd() {
        for (const int fd : {socket_, in_fd_, out_fd_}) {
            if (fd >= 0) close(fd);
        }
    }
    void connect() {
        if (client_) {
            int fds[2] = {eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC)};
            if (fds[0] < 0 || fds[1] < 0) failed("eventfd");
            pass(socket_, fds, true);
            out_fd_ = fds[0], in_fd_ = fds[1];
            return;
        }
        const int connection = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
        if (connection < 0) failed("accept");
        int fds[2];
        pass(connection, fds, false);
        close(connection);
        in_fd_ = fds[0], out_fd_ = fds[1];
    }

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        put(write);
        const std::uint64_t one = 1;
        if (::write(out_fd_, &one, sizeof one) != sizeof one) failed("write");
    }
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        std::uint64_t count;
        if (::read(in_fd_, &count, sizeof count) != sizeof count) failed("read");
        if (count != 1 || !is_here()) throw std::runtime_error("an eventfd counted what was not sent");
        get(read);
    }
    static std::string version() { return linux_version(); }

  private:
    /// cmsg(3), SCM_RIGHTS.
    static void pass(int socket, int (&fds)[2], bool sends) {
        char byte = 0;
        iovec data{&byte, 1};
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        if (sends) {
            cmsghdr* const rights = CMSG_FIRSTHDR(&message);
            rights->cmsg_level = SOL_SOCKET;
            rights->cmsg_type = SCM_RIGHTS;
            rights->cmsg_len = CMSG_LEN(sizeof fds);
            std::memcpy(CMSG_DATA(rights), fds, sizeof fds);
            if (sendmsg(socket, &message, 0) != 1) failed("sendmsg");
            return;
        }
        if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) failed("recvmsg");
        const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
        if (rights == nullptr || rights->cmsg_len != CMSG_LEN(sizeof fds))
            throw std::runtime_error("the descriptors did not come");
        std::memcpy(fds, CMSG_DATA(rights), sizeof fds);
    }

    bool client_;
    int socket_ = -1, in_fd_ = -1, out_fd_ = -1;
};

/// Like run(), for messages of 32 bytes that are written whole.
template <class Contender>
void run_lines(const Setup& setup) {
    if (!setup.whole) cannot(setup, "every byte is written and compared");
    Runner<Contender, 32, true>(setup).run();
}

}  // namespace

void run_futex_barrier(const Setup& setup) {
    run_lines<FutexBarrier>(setup);
}
void run_eventfd(const Setup& setup) {
    run_lines<EventFd>(setup);
}

}  // namespace bench
