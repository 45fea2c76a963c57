// SPDX-License-Identifier: Apache-2.0
#include <boost/interprocess/ipc/message_queue.hpp>
#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/spsc_queue.hpp>
#include <boost/version.hpp>
#include <new>
#include <vector>

#include "contenders.hpp"
#include "raw.hpp"
#include "support.hpp"

namespace bench {
namespace {

std::string boost_version() {
    return "Boost " + std::to_string(BOOST_VERSION / 100000) + "." + std::to_string(BOOST_VERSION / 100 % 1000);
}

/// Boost.Interprocess: message_queue with send/receive, or with try_send/try_receive for spinning.
class BoostMq {
  public:
    explicit BoostMq(const Setup& setup)
        : block_(setup.block),
          message_(setup.size),
          names_{setup.unique("to-b"), setup.unique("to-a")},
          to_b_(ip::open_or_create, names_[0].c_str(), queue_length(setup.size), setup.size),
          to_a_(ip::open_or_create, names_[1].c_str(), queue_length(setup.size), setup.size),
          out_(setup.producer() ? to_b_ : to_a_),
          in_(setup.producer() ? to_a_ : to_b_) {
        only_one_consumer(setup);
    }
    BoostMq(const BoostMq&) = delete;
    ~BoostMq() { remove(); }
    void connect() { remove(); }  // all sides have them open

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        write(message_.data());
        if (block_) return out_.send(message_.data(), message_.size(), 0);
        while (!out_.try_send(message_.data(), message_.size(), 0)) {
        }
    }
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        ip::message_queue::size_type length = 0;
        unsigned priority = 0;
        if (block_) {
            in_.receive(message_.data(), message_.size(), length, priority);
        } else if (!in_.try_receive(message_.data(), message_.size(), length, priority)) {
            return;
        }
        if (__builtin_expect(length != message_.size(), 0))
            throw std::runtime_error("received " + std::to_string(length) + " bytes");
        read(message_.data());
    }
    static std::string version() { return boost_version(); }

  private:
    struct ip {  // NOLINT: a short name for a long namespace
        using message_queue = boost::interprocess::message_queue;
        static constexpr boost::interprocess::open_or_create_t open_or_create{};
    };
    void remove() const {
        for (const std::string& name : names_) ip::message_queue::remove(name.c_str());
    }

    bool block_;
    std::vector<std::byte> message_;
    std::string names_[2];
    ip::message_queue to_b_, to_a_;
    ip::message_queue &out_, &in_;
};

template <std::size_t Size>
struct Payload {
    std::byte bytes[Size];
};

/// Boost.Lockfree queues of fixed capacity hold no pointers, so they may lie in a mapping. Side b makes them.
template <class Queue>
Queue* map_queue(const Setup& setup, const std::string& name) {
    std::byte* const at = map_file(setup, name, sizeof(Queue));
    return setup.side == Side::b ? new (at) Queue() : reinterpret_cast<Queue*>(at);
}

/// Boost.Lockfree: spsc_queue, consume_all (in place, "reduces the overhead").
template <std::size_t Size>
class BoostSpsc {
  public:
    explicit BoostSpsc(const Setup& setup) {
        if (setup.block) cannot(setup, "it cannot block");
        only_one_to_one(setup);
        out_ = map_queue<Queue>(setup, setup.producer() ? "to-b" : "to-a");
        in_ = map_queue<Queue>(setup, setup.producer() ? "to-a" : "to-b");
    }
    void connect() {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        write(message_.bytes);
        while (!out_->push(message_)) {
        }
    }
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        in_->consume_all([&](const Payload<Size>& message) { read(message.bytes); });
    }
    static std::string version() { return boost_version(); }

  private:
    using Queue = boost::lockfree::spsc_queue<Payload<Size>, boost::lockfree::capacity<queue_length(Size)>>;

    Payload<Size> message_;
    Queue *out_, *in_;
};

/// Boost.Lockfree: queue, for many producers and many consumers.
template <std::size_t Size>
class BoostQueue {
  public:
    explicit BoostQueue(const Setup& setup) {
        if (setup.block) cannot(setup, "it cannot block");
        only_one_consumer(setup);
        out_ = map_queue<Queue>(setup, setup.producer() ? "to-b" : "to-a");
        in_ = map_queue<Queue>(setup, setup.producer() ? "to-a" : "to-b");
    }
    void connect() {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        write(message_.bytes);
        while (!out_->push(message_)) {
        }
    }
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        if (in_->pop(message_)) read(message_.bytes);
    }
    static std::string version() { return boost_version(); }

  private:
    using Queue = boost::lockfree::queue<Payload<Size>, boost::lockfree::capacity<queue_length(Size)>>;

    Payload<Size> message_;
    Queue *out_, *in_;
};

}  // namespace

void run_boost_mq(const Setup& setup) {
    run<BoostMq>(setup);
}
void run_boost_spsc(const Setup& setup) {
    run_sized<BoostSpsc>(setup);
}
void run_boost_queue(const Setup& setup) {
    run_sized<BoostQueue>(setup);
}

}  // namespace bench
