// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "plan.hpp"

// What the operations of the child have in common.

namespace steps {

using flyring::Channel;
using flyring::Publisher;
using flyring::Subscriber;

/// Stops under the tracer. Nothing may move across it.
[[gnu::always_inline]] inline void mark() {
    asm volatile("int3" ::: "memory");
}

inline void require(bool good, const char* what) {
    if (!good) throw std::runtime_error(what);
}

/// Ring 0's publisher, and what it sends next.
struct Sender {
    bool offer() {
        const auto bytes = payload(0, sequence, length_of(sequence));
        if (publisher.offer({bytes.data(), bytes.size()}, type_of(sequence)) < 0) return false;
        ++sequence;
        return true;
    }
    void fill_to(const std::function<bool(std::int64_t)>& there) {
        do {
            require(offer(), "back-pressured before the mark");
        } while (!there(publisher.position()));
    }

    Publisher publisher;
    std::int64_t sequence;
};

struct Run {
    std::string path;
    std::int64_t sequence;
    std::vector<std::size_t> lengths;
    Channel channel = fixed(child_pid).open(path);

    Sender sender() { return {channel.publisher(publisher_name), sequence}; }
    std::int64_t capacity() const { return channel.capacity(); }
    /// Bytes of the record of the first message.
    std::int64_t record() const {
        const std::int64_t unit = channel.alignment();
        return (static_cast<std::int64_t>(lengths.at(0)) + 8 + unit - 1) & -unit;
    }
    bool crosses_boundary(std::int64_t at) const {
        const std::int64_t eighth = capacity() / 8;
        return record() < eighth && at / eighth != (at + record()) / eighth;
    }
};

/// A claim with its payload written.
inline flyring::Claim claim_one(Sender& sender, std::size_t length) {
    flyring::Claim claim = sender.publisher.try_claim(length, type_of(sender.sequence));
    require(static_cast<bool>(claim), "the claim was back-pressured");
    const auto bytes = payload(0, sender.sequence, length);
    std::copy(bytes.begin(), bytes.end(), claim.data());
    return claim;
}

/// Its file, opened as any process may open it.
flyring::detail::ChannelFile raw(const Run& run);

/// The page of PATH.done, in which the child says what it has done: it outlives the child.
volatile unsigned char* done_page(const Run& run);

/// Another process, which does that, and then dies without a word: status 0, or 1 if it threw.
pid_t begin_process(const std::function<void()>& what);
void await_death(pid_t pid);
inline void die(const std::function<void()>& what) {
    await_death(begin_process(what));
}

/// From now on the child's second mark is its first call that sleeps, and the child's end (child.cpp).
void stop_at_sleep();

/// Sets the bits of a process that sleeps until ring 0 has a message, and of one that sleeps until it has room.
void fall_asleep(const Run& run);

using Operations = std::map<std::string, std::function<void(Run&)>>;
/// Of a table or a journal, by its path.
using TableOperations = std::map<std::string, std::function<void(const std::string&)>>;

Operations publishing();
Operations owning();
Operations queueing();
Operations service();
TableOperations tabling();
TableOperations journaling();

/// The child's status if its worker, its server or its client was evicted.
inline constexpr int lost_status = 3;

}  // namespace steps
