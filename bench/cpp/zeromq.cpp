// SPDX-License-Identifier: Apache-2.0
#include <zmq.h>

#include <cstring>
#include <vector>

#include "contenders.hpp"
#include "support.hpp"

namespace bench {
namespace {

/// zmq_ipc(7): PAIR for round trips, PUSH and PULL for streams, XPUB and SUB for two consumers. XPUB waits for slow
/// subscribers (ZMQ_XPUB_NODROP). Messages are written into and read from zmq_msg_t without another copy; above 33
/// bytes the library allocates each. Its I/O thread shares the core of its side, so this contender must block: a side
/// that spins keeps its own I/O thread from running (1/20 of the messages).
class ZeromqIpc {
  public:
    explicit ZeromqIpc(const Setup& setup)
        : size_(setup.size), publish_(setup.producer() && several_consumers(setup)), context_(zmq_ctx_new()) {
        if (!setup.block) cannot(setup, "spinning starves the library's I/O thread (--wait block)");
        const bool broadcast = several_consumers(setup), stream = setup.scenario == Scenario::stream;
        const int type = !stream            ? ZMQ_PAIR
                         : setup.producer() ? (broadcast ? ZMQ_XPUB : ZMQ_PUSH)
                                            : (broadcast ? ZMQ_SUB : ZMQ_PULL);
        socket_ = zmq_socket(context_, type);
        if (context_ == nullptr || socket_ == nullptr) fail("socket");
        set(ZMQ_LINGER, 0);
        if (publish_) {
            set(ZMQ_XPUB_NODROP, 1);
            set(ZMQ_XPUB_VERBOSE, 1);  // reports the second equal subscription, too; see connect
        }
        if (type == ZMQ_SUB) check(zmq_setsockopt(socket_, ZMQ_SUBSCRIBE, "", 0), "subscribe");
        const std::string address = "ipc://" + setup.path("socket");
        const bool binds = broadcast ? setup.producer() : setup.side == Side::b;  // the side that exists once
        check(binds ? zmq_bind(socket_, address.c_str()) : zmq_connect(socket_, address.c_str()), address);
        check(zmq_msg_init(&in_), "msg_init");
    }
    ZeromqIpc(const ZeromqIpc&) = delete;
    ~ZeromqIpc() {
        zmq_msg_close(&in_);
        zmq_close(socket_);
        zmq_ctx_term(context_);
    }

    void connect() {
        for (int i = 0; publish_ && i < 2; ++i) {
            if (zmq_msg_recv(&in_, socket_, 0) < 0) fail("receive a subscription");
        }
    }

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        zmq_msg_t message;
        check(zmq_msg_init_size(&message, size_), "msg_init_size");
        write(static_cast<std::byte*>(zmq_msg_data(&message)));
        if (zmq_msg_send(&message, socket_, 0) < 0) fail("msg_send");
    }
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        const int n = zmq_msg_recv(&in_, socket_, 0);
        if (__builtin_expect(n != static_cast<int>(size_), 0)) {
            if (n < 0) fail("msg_recv");
            throw std::runtime_error("received " + std::to_string(n) + " bytes");
        }
        read(static_cast<const std::byte*>(zmq_msg_data(&in_)));
    }
    static std::string version() {
        int major, minor, patch;
        zmq_version(&major, &minor, &patch);
        return "libzmq " + std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
    }

  private:
    [[noreturn, gnu::cold, gnu::noinline]] static void fail(const std::string& what) {
        throw std::runtime_error("zmq " + what + ": " + zmq_strerror(zmq_errno()));
    }
    [[gnu::always_inline]] static void check(int result, const char* what) {
        if (__builtin_expect(result != 0, 0)) fail(what);
    }
    static void check(int result, const std::string& what) { check(result, what.c_str()); }
    void set(int option, int value) { check(zmq_setsockopt(socket_, option, &value, sizeof value), "setsockopt"); }

    std::size_t size_;
    bool publish_;
    void* context_;
    void* socket_ = nullptr;
    zmq_msg_t in_;
};

/// REQ and REP: one request, one reply. In streams up to `--option outstanding=N` requests are under way, and every
/// reply is compared. With more than one a DEALER asks; it puts the empty frame in front of each request, as a REQ
/// does.
class ZeromqReq {
  public:
    explicit ZeromqReq(const Setup& setup)
        : size_(setup.size),
          under_way_(setup.one_way() ? setup.option("outstanding", std::size_t{1}) : 0),
          asks_(setup.client()),
          context_(zmq_ctx_new()) {
        if (!setup.block) cannot(setup, "it sleeps (--wait block)");
        socket_ = zmq_socket(context_, !asks_ ? ZMQ_REP : under_way_ > 1 ? ZMQ_DEALER : ZMQ_REQ);
        if (context_ == nullptr || socket_ == nullptr) fail("socket");
        const int none = 0;
        check(zmq_setsockopt(socket_, ZMQ_LINGER, &none, sizeof none), "setsockopt");
        const std::string address = "ipc://" + setup.path("socket");
        check((asks_ ? zmq_connect : zmq_bind)(socket_, address.c_str()), "bind or connect");
        check(zmq_msg_init(&in_), "msg_init");
        sent_.resize(under_way_ * size_);
    }
    ZeromqReq(const ZeromqReq&) = delete;
    ~ZeromqReq() {
        zmq_msg_close(&in_);
        zmq_close(socket_);
        zmq_ctx_term(context_);
    }

    void connect() {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        if (under_way_ == 0) return put(write);
        if (!asks_) throw std::runtime_error("it answers what it gets");
        std::byte* const kept = &sent_[number_ % under_way_ * size_];  // answers come in the order of questions
        if (number_ >= under_way_ && under_way_ > 1) get_answer(kept);
        write(kept);
        if (under_way_ > 1 && zmq_send(socket_, nullptr, 0, ZMQ_SNDMORE) < 0) fail("send");
        put([&](std::byte* to) { std::memcpy(to, kept, size_); });
        ++number_;
        if (under_way_ == 1) get_answer(kept);
    }
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        get(size_);
        read(static_cast<const std::byte*>(zmq_msg_data(&in_)));
        if (under_way_ != 0 && zmq_msg_send(&in_, socket_, 0) < 0) fail("msg_send");
    }
    static std::string version() { return ZeromqIpc::version(); }

  private:
    [[noreturn, gnu::cold, gnu::noinline]] static void fail(const std::string& what) {
        throw std::runtime_error("zmq " + what + ": " + zmq_strerror(zmq_errno()));
    }
    static void check(int result, const char* what) {
        if (__builtin_expect(result != 0, 0)) fail(what);
    }
    template <class Write>
    [[gnu::always_inline]] void put(Write&& write) {
        zmq_msg_t message;
        check(zmq_msg_init_size(&message, size_), "msg_init_size");
        write(static_cast<std::byte*>(zmq_msg_data(&message)));
        if (zmq_msg_send(&message, socket_, 0) < 0) fail("msg_send");
    }
    [[gnu::always_inline]] void get(std::size_t size) {
        const int n = zmq_msg_recv(&in_, socket_, 0);
        if (n < 0) fail("msg_recv");
        if (n != static_cast<int>(size)) throw std::runtime_error("received " + std::to_string(n) + " bytes");
    }
    void get_answer(const std::byte* asked) {
        if (under_way_ > 1) get(0);
        get(size_);
        if (std::memcmp(zmq_msg_data(&in_), asked, size_) != 0) throw std::runtime_error("another question's answer");
    }

    std::size_t size_;
    std::size_t under_way_;  // 0: round trips
    bool asks_;
    std::uint64_t number_ = 0;
    std::vector<std::byte> sent_;
    void* context_;
    void* socket_ = nullptr;
    zmq_msg_t in_;
};

/// PUSH and PULL with several receivers. The sender hands messages out in turn, up to 1000 ahead to each (ZMQ_SNDHWM,
/// ZMQ_RCVHWM), and sleeps when all are full.
class ZeromqJobs {
  public:
    explicit ZeromqJobs(const Setup& setup) : size_(setup.size), context_(zmq_ctx_new()) {
        if (setup.scenario != Scenario::jobs || !setup.block) cannot(setup, "jobs only; it sleeps (--wait block)");
        socket_ = zmq_socket(context_, setup.producer() ? ZMQ_PUSH : ZMQ_PULL);
        if (context_ == nullptr || socket_ == nullptr) fail("socket");
        set(ZMQ_LINGER, 0);
        const std::string address = "ipc://" + setup.path("socket");
        check((setup.producer() ? zmq_bind : zmq_connect)(socket_, address.c_str()), "bind or connect");
        check(zmq_msg_init(&in_), "msg_init");
    }
    ZeromqJobs(const ZeromqJobs&) = delete;
    ~ZeromqJobs() {
        zmq_msg_close(&in_);
        zmq_close(socket_);
        zmq_ctx_term(context_);
    }

    void connect() {}

    template <class Write>
    void send(Write&& write) {
        zmq_msg_t message;
        check(zmq_msg_init_size(&message, size_), "msg_init_size");
        write(static_cast<std::byte*>(zmq_msg_data(&message)));
        if (zmq_msg_send(&message, socket_, 0) < 0) fail("msg_send");
    }
    template <class Read>
    void receive(Read&& read) {
        get(read, ZMQ_DONTWAIT);
    }
    template <class Read>
    void receive_within(Read&& read, std::chrono::milliseconds time) {
        if (time != limit_) {
            set(ZMQ_RCVTIMEO, static_cast<int>(time.count()));
            limit_ = time;
        }
        get(read, 0);
    }
    static std::string version() { return ZeromqIpc::version(); }

  private:
    [[noreturn, gnu::cold, gnu::noinline]] static void fail(const std::string& what) {
        throw std::runtime_error("zmq " + what + ": " + zmq_strerror(zmq_errno()));
    }
    static void check(int result, const char* what) {
        if (__builtin_expect(result != 0, 0)) fail(what);
    }
    void set(int option, int value) { check(zmq_setsockopt(socket_, option, &value, sizeof value), "setsockopt"); }
    template <class Read>
    void get(Read&& read, int flags) {
        const int n = zmq_msg_recv(&in_, socket_, flags);
        if (n < 0 && zmq_errno() == EAGAIN) return;
        if (n != static_cast<int>(size_)) {
            if (n < 0) fail("msg_recv");
            throw std::runtime_error("received " + std::to_string(n) + " bytes");
        }
        read(static_cast<const std::byte*>(zmq_msg_data(&in_)));
    }

    std::size_t size_;
    std::chrono::milliseconds limit_{-1};
    void* context_;
    void* socket_ = nullptr;
    zmq_msg_t in_;
};

}  // namespace

void run_zeromq_req(const Setup& setup) {
    if (setup.size != 32 || !setup.whole) cannot(setup, "32 bytes, every one written and compared");
    Runner<ZeromqReq, 32, true>(setup).run();
}

void run_zeromq_jobs(const Setup& setup) {
    if (setup.size != 32 || !setup.whole) cannot(setup, "32 bytes, every one written and compared");
    Runner<ZeromqJobs, 32, true>(setup).run();
}

void run_zeromq_ipc(const Setup& setup) {
    run<ZeromqIpc>(setup);
}

}  // namespace bench
