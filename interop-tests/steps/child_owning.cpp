// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>

#include <chrono>

#include "child.hpp"

// Operations on slots, and reading.

namespace steps {

namespace {

void take_publisher(Run& run) {
    mark();
    Publisher publisher = run.channel.publisher(publisher_name);
    mark();
    require(publisher.ring() == 0, "another ring");
}

void take_publisher_renamed(Run& run) {
    mark();
    Publisher publisher = run.channel.publisher("renamed");
    mark();
    require(publisher.ring() == 0, "another ring");
}

void close_publisher(Run& run) {
    Sender sender = run.sender();
    require(sender.offer(), "back-pressured");
    mark();
    sender.publisher.close();
    mark();
}

void close_claiming(Run& run) {
    Sender sender = run.sender();
    require(sender.offer(), "back-pressured");
    const flyring::Claim claim = claim_one(sender, 40);
    mark();
    sender.publisher.close();
    mark();
}

/// Everything that was made from the channel.
void close_channel(Run& run) {
    Sender sender = run.sender();
    require(sender.offer(), "back-pressured");
    const Subscriber subscriber = run.channel.subscriber();
    const Subscriber kept = run.channel.subscriber(reader_name, true);
    mark();
    run.channel.close();
    mark();
}

void join(Run& run) {
    mark();
    const Subscriber subscriber = run.channel.subscriber();
    mark();
}

void join_kept(Run& run) {
    mark();
    const Subscriber subscriber = run.channel.subscriber("new", true);
    mark();
}

void resume(Run& run) {
    mark();
    const Subscriber subscriber = run.channel.subscriber(reader_name, true);
    mark();
}

void join_evicted(Run& run) {
    run.channel.evict(2);  // "reader"
    mark();
    const Subscriber subscriber = run.channel.subscriber(reader_name, true);
    mark();
}

/// Says in PATH.done how many messages of each ring the handler has seen, before the gate can say so.
class Counting {
  public:
    explicit Counting(const Run& run) {
        const flyring::detail::Fd fd(::open((run.path + ".done").c_str(), O_RDWR | O_CLOEXEC));
        void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
        require(page != MAP_FAILED, "mmap");
        done_ = static_cast<volatile std::int64_t*>(page);
    }
    void operator()(const flyring::Message& message) const { done_[message.ring()] = done_[message.ring()] + 1; }

  private:
    volatile std::int64_t* done_;
};

void poll_once(Subscriber& subscriber, const Counting& handler) {
    mark();
    const int polled = subscriber.poll(handler);
    mark();
    require(polled > 3, "too few messages");
}

void poll(Run& run) {
    const Counting handler(run);
    Subscriber subscriber = run.channel.subscriber(reader_name, true);
    poll_once(subscriber, handler);
}

void poll_waking(Run& run) {
    const Counting handler(run);
    Subscriber subscriber = run.channel.subscriber(reader_name, true);
    fall_asleep(run);
    poll_once(subscriber, handler);
}

/// Finds nothing, and sleeps.
void sleep(Run& run) {
    const Counting handler(run);
    Subscriber subscriber = run.channel.subscriber(reader_name, true);
    while (subscriber.poll(handler) > 0) {
    }
    subscriber.set_spin(std::chrono::nanoseconds::zero());
    stop_at_sleep();
    mark();
    subscriber.poll(handler, 10, flyring::forever);
    require(false, "there was a message");
}

void leave(Run& run) {
    Subscriber subscriber = run.channel.subscriber();
    mark();
    subscriber.close();
    mark();
}

void close_kept(Run& run) {
    Subscriber subscriber = run.channel.subscriber(reader_name, true);
    mark();
    subscriber.close();
    mark();
}

void forget(Run& run) {
    Subscriber subscriber = run.channel.subscriber(reader_name, true);
    mark();
    subscriber.forget();
    mark();
}

/// A reader without a slot writes nothing: there is nothing for it to leave behind.
void lossy_poll(Run& run) {
    flyring::LossySubscriber subscriber = run.channel.lossy_subscriber(flyring::Start::oldest);
    mark();
    const int polled = subscriber.poll([](const flyring::Message&) {});
    mark();
    require(polled > 3, "too few messages");
}

void evict(Run& run) {
    mark();
    run.channel.evict(2);  // "reader"
    mark();
}

void evict_live(Run& run) {
    mark();
    run.channel.evict(1);  // "live"
    mark();
}

}  // namespace

Operations owning() {
    return {
        {"take-publisher", take_publisher},
        {"take-publisher-renamed", take_publisher_renamed},
        {"close-publisher", close_publisher},
        {"close-claiming", close_claiming},
        {"close-channel", close_channel},
        {"join", join},
        {"join-kept", join_kept},
        {"join-evicted", join_evicted},
        {"resume", resume},
        {"poll", poll},
        {"poll-waking", poll_waking},
        {"sleep", sleep},
        {"leave", leave},
        {"close-kept", close_kept},
        {"forget", forget},
        {"lossy-poll", lossy_poll},
        {"evict", evict},
        {"evict-live", evict_live},
    };
}

}  // namespace steps
