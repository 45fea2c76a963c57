// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>

#include <fstream>
#include <vector>

#include "contenders.hpp"
#include "support.hpp"

namespace bench {
namespace {

std::size_t limit_of(const std::string& file) {
    std::size_t limit = 0;
    if (!(std::ifstream("/proc/sys/" + file) >> limit)) throw std::runtime_error("cannot read /proc/sys/" + file);
    return limit;
}

/// mq_overview(7): with as many messages as an unprivileged process may ask for.
class PosixMq {
  public:
    explicit PosixMq(const Setup& setup) : message_(setup.size) {
        only_one_consumer(setup);
        const std::size_t most = limit_of("fs/mqueue/msgsize_max");
        if (setup.size > most) cannot(setup, "fs.mqueue.msgsize_max is " + std::to_string(most) + " bytes");
        for (const bool to_b : {true, false}) {
            names_[to_b] = "/" + setup.unique(to_b ? "to-b" : "to-a");
            mq_attr attributes{};
            attributes.mq_maxmsg = static_cast<long>(limit_of("fs/mqueue/msg_max"));
            attributes.mq_msgsize = static_cast<long>(setup.size);
            mqd_t queue = mq_open(names_[to_b].c_str(), O_RDWR | O_CREAT | O_CLOEXEC | (setup.block ? 0 : O_NONBLOCK),
                                  0600, &attributes);
            if (queue < 0) failed("mq_open " + names_[to_b]);
            (setup.producer() == to_b ? out_ : in_) = queue;
        }
    }
    PosixMq(const PosixMq&) = delete;
    ~PosixMq() {
        unlink();
        mq_close(out_);
        mq_close(in_);
    }
    void connect() { unlink(); }  // all sides have them open

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        write(message_.data());
        while (mq_send(out_, reinterpret_cast<const char*>(message_.data()), message_.size(), 0) != 0) {
            if (errno != EAGAIN) failed("mq_send");
        }
    }
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        const ssize_t n = mq_receive(in_, reinterpret_cast<char*>(message_.data()), message_.size(), nullptr);
        if (__builtin_expect(n != static_cast<ssize_t>(message_.size()), 0)) {
            if (n < 0 && errno == EAGAIN) return;
            if (n < 0) failed("mq_receive");
            throw std::runtime_error("received " + std::to_string(n) + " bytes");
        }
        read(message_.data());
    }
    static std::string version() { return linux_version(); }

  private:
    void unlink() {
        for (const std::string& name : names_) mq_unlink(name.c_str());
    }

    std::vector<std::byte> message_;
    std::string names_[2];
    mqd_t out_, in_;
};

/// sysvipc(7): queues of 1 MiB if the system permits it, otherwise of msgmnb bytes.
class SysvMq {
  public:
    explicit SysvMq(const Setup& setup)
        : size_(setup.size), flags_(setup.block ? 0 : IPC_NOWAIT), message_(setup.size / 8 + 1) {
        only_one_consumer(setup);
        const std::size_t most = std::min(limit_of("kernel/msgmax"), limit_of("kernel/msgmnb"));
        if (setup.size > most)
            cannot(setup, "kernel.msgmax and kernel.msgmnb allow " + std::to_string(most) + " bytes");
        message_[0] = 1;  // the message's type
        // Side b makes the queues, which have no names, and leaves their numbers in a file.
        if (setup.side == Side::b) {
            for (int& queue : queues_) {
                queue = msgget(IPC_PRIVATE, 0600);
                if (queue < 0) failed("msgget");
                msqid_ds state;
                if (msgctl(queue, IPC_STAT, &state) != 0) failed("IPC_STAT");
                state.msg_qbytes = 1 << 20;
                if (msgctl(queue, IPC_SET, &state) != 0 && errno != EPERM) failed("IPC_SET");
            }
            std::ofstream file(setup.path("queues"));
            if (!(file << queues_[0] << ' ' << queues_[1] << std::flush))
                throw std::runtime_error("cannot write " + setup.path("queues"));
        } else if (!(std::ifstream(setup.path("queues")) >> queues_[0] >> queues_[1])) {
            throw std::runtime_error("cannot read " + setup.path("queues"));
        }
        out_ = queues_[setup.producer() ? 0 : 1];
        in_ = queues_[setup.producer() ? 1 : 0];
    }
    SysvMq(const SysvMq&) = delete;
    ~SysvMq() {  // the first side to end removes them: at the end of input no side needs them
        for (const int queue : queues_) msgctl(queue, IPC_RMID, nullptr);
    }
    void connect() {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        write(reinterpret_cast<std::byte*>(&message_[1]));
        while (msgsnd(out_, message_.data(), size_, flags_) != 0) {
            if (errno != EAGAIN) failed("msgsnd");
        }
    }
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        const ssize_t n = msgrcv(in_, message_.data(), size_, 0, flags_);
        if (__builtin_expect(n != static_cast<ssize_t>(size_), 0)) {
            if (n < 0 && errno == ENOMSG) return;
            if (n < 0) failed("msgrcv");
            throw std::runtime_error("received " + std::to_string(n) + " bytes");
        }
        read(reinterpret_cast<const std::byte*>(&message_[1]));
    }
    static std::string version() { return linux_version(); }

  private:
    std::size_t size_;
    int flags_;
    std::vector<long> message_;
    int queues_[2] = {-1, -1};  // to b, to a
    int out_, in_;
};

}  // namespace

void run_posix_mq(const Setup& setup) {
    run<PosixMq>(setup);
}
void run_sysv_mq(const Setup& setup) {
    run<SysvMq>(setup);
}

}  // namespace bench
