// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "check.hpp"
#include "guarded_map.hpp"
#include "services.hpp"

namespace fuzz {

using namespace flyring;

namespace {

class Program {
  public:
    Program(File& file, Input input, bool read_only) : file_(file), input_(input), read_only_(read_only) {}

    void run() {
        OpenOptions options;
        options.read_only = read_only_;
        const detail::InEnvironment fixed{{{}, boot_id(), {}, 1, {}, 1}};
        std::optional<Channel> channel;
        attempt([&] { channel.emplace(fixed.open(file_.path(), options)); });
        if (!channel) return;
        file_.note_shape();
        channel_ = &*channel;
        capacity_ = channel->capacity();
        read_all(reinterpret_cast<const std::byte*>(channel->schema().data()), channel->schema().size());
        if (channel->kind() == Kind::service) services_.emplace(file_, input_, *channel);
        steps();
        // One of everything, in the numbers of step().
        static constexpr std::uint8_t everything[] = {
            4, 0, 3, 0, 255, 6, 0, 16, 0, 15, 0, 255, 17, 0, 1, 8, 0, 1, 30, 1, 9, 0, 1, 9, 1, 0, 10, 0, 3, 0, 90, 11,
            0, 2, 0, 20, 15, 0, 9, 18, 0, 13, 0, 1, 9, 0, 6, 0, 12, 0, 19, 0, 2, 0, 9,
            // For a queue. Two bytes for each job that is handed out choose its end.
            20, 1, 0, 8, 0, 1, 20, 1, 8, 0, 1, 20, 1, 21, 0, 2, 1, 0, 1, 1, 1, 2, 22, 0, 23, 0, 1, 21, 1, 5, 22, 1, 24,
            0, 26, 0, 19, 1, 22, 1, 23, 0, 24, 0, 25, 1};
        // The same for a service, with the numbers of Services::step() after each 27. of_a_service: a server polls what
        // the file contains; then calls, a stream, a call that waits, a cancel; answers in handlers and later; the
        // client is evicted, then the server, and others take their slots. of_lengths: requests and a reply whose
        // length is changed.
        static constexpr std::uint8_t of_a_service[] = {
            27, 0, 0,  0,  27, 1,  0,  31, 1,  1, 1,  1,  0,  27, 4,  0,  1,  27, 5,  0, 0,  20, 7,  3,  27, 6,  0,  0,
            30, 8, 2,  3,  27, 5,  0,  0,  40, 9, 3,  27, 1,  0,  31, 8,  3,  50, 9,  9, 27, 8,  0,  1,  27, 9,  0,  1,
            1,  3, 27, 1,  0,  31, 27, 8,  0,  1, 27, 7,  0,  0,  10, 7,  1,  27, 9,  0, 0,  0,  27, 2,  0,  1,  27, 2,
            0,  7, 27, 8,  0,  1,  27, 9,  0,  0, 2,  1,  27, 10, 0,  27, 12, 0,  19, 1, 27, 8,  0,  1,  27, 11, 0,  27,
            4,  0, 0,  27, 5,  0,  0,  20, 7,  3, 19, 0,  27, 1,  0,  8,  27, 8,  0,  1, 27, 3,  0,  27, 3,  1};
        static constexpr std::uint8_t of_lengths[] = {
            27, 11, 0,  27, 0,  0, 0,  27, 4,  0,  0,  27, 5, 0,  0,  20, 7, 3,  27, 13, 0,  0,  0,  5, 12,
            27, 1,  0,  8,  0,  0, 27, 11, 0,  27, 4,  0,  0, 27, 5,  0,  0, 20, 7,  3,  27, 13, 0,  0, 0,
            5,  5,  27, 1,  0,  8, 0,  0,  27, 11, 0,  27, 4, 0,  0,  27, 5, 0,  0,  20, 7,  3,  27, 1, 0,
            8,  0,  1,  27, 13, 2, 0,  0,  5,  12, 27, 8,  0, 1,  27, 11, 0, 15, 0,  9,  16, 0,  26};
        input_ = services_ ? Input(of_a_service, sizeof of_a_service) : Input(everything, sizeof everything);
        steps();
        if (services_) {
            services_->end();
            input_ = Input(of_lengths, sizeof of_lengths);
            steps();
            services_->end();
        }
        for (auto& job : jobs_) attempt([&] { job.reset(); });
        for (auto& worker : workers_) worker.reset();
        for (auto& publisher : publishers_) publisher.reset();
        for (auto& subscriber : subscribers_) subscriber.reset();
        for (auto& subscriber : lossy_) subscriber.reset();
    }

  private:
    void steps() {
        for (int done = 0; done < 64 && !input_.empty(); ++done) attempt([&] { step(); });
    }

    /// The boot id to run with: 0, but for a service mostly the file's, because calls of another boot are dropped.
    Uuid boot_id() {
        Uuid boot{};
        const detail::Header& shape = file_.shape();
        const std::uint64_t at = shape.control_offset() + layout::CONTROL_BOOT_ID;
        if (shape.kind == Kind::service && at + boot.size() <= file_.size() && input_.below(4) != 3) {
            std::memcpy(boot.data(), file_.data() + at, boot.size());
        }
        return boot;
    }

    void step() {
        switch (input_.below(28)) {
            case 0:
                return file_.poke(input_);
            case 1: {
                auto& place = subscribers_[input_.below(2)];
                const bool kept = input_.below(4) == 1;
                const std::string name = this->name();
                return subscribe(place, name, kept, rings());
            }
            case 2:
            case 3:
                return with_subscriber([&](Subscriber& each) { poll(each); });
            case 4:
                return with_subscriber([&](Subscriber& each) { take(each); });
            case 5:
                return with_subscriber([&](Subscriber& each) { input_.below(2) == 0 ? each.close() : each.forget(); });
            case 6:
                return with_subscriber([&](Subscriber& each) { look(each); });
            case 7: {
                auto& place = publishers_[input_.below(2)];
                const std::string name = this->name();
                return publish(place, name, input_.below(4) == 1 ? capacity_ / 2 : 0);
            }
            case 8:
                return with_publisher([&](Publisher& each) {
                    const Bytes message = payload();
                    offer(each, [&] { each.offer(message, type()); });
                });
            case 9:
                return with_publisher([&](Publisher& each) { offer(each, [&] { claim(each); }); });
            case 10:
                return with_publisher([&](Publisher& each) { offer(each, [&] { batch(each); }); });
            case 11:
                return with_publisher([&](Publisher& each) { held_by(each); });
            case 12:
                return with_publisher([&](Publisher& each) { each.close(); });
            case 13:
                return counters();
            case 14: {
                auto& place = lossy_[input_.below(2)];
                place.reset();
                const Start start = input_.below(2) == 0 ? Start::now : Start::oldest;
                place.emplace(channel_->lossy_subscriber(rings(), start));
                return;
            }
            case 15:
                return with_lossy([&](LossySubscriber& each) { poll(each); });
            case 16:
                return with_lossy([&](LossySubscriber& each) { take(each); });
            case 17:
                return with_lossy([&](LossySubscriber& each) { peek(each); });
            case 18:
                return with_lossy([&](LossySubscriber& each) { look(each); });
            case 19:
                channel_->evict(input_.below(channel_->subscribers() + 1));
                return;
            case 20: {
                const std::uint32_t number = input_.below(2);
                return work(number, this->name());
            }
            case 21:
                return with_worker([&](Worker& each, std::uint32_t) { poll_jobs(each); });
            case 22:
                return with_worker([&](Worker& each, std::uint32_t number) {
                    std::optional<Job> job = each.take();
                    if (!job) return;
                    read(*job);
                    jobs_[number] = std::move(job);
                });
            case 23: {
                auto& job = jobs_[input_.below(2)];
                if (!job) return;
                return keeps_jobs([&] {
                    switch (input_.below(3)) {
                        case 0:
                            return job->done();
                        case 1:
                            job->release();
                            return;
                        default:
                            return job.reset();
                    }
                });
            }
            case 24:
                return with_worker([&](Worker& each, std::uint32_t) {
                    input_.below(8) == 7 ? each.drain() : static_cast<void>(each.ended());
                });
            case 25:
                return with_worker([&](Worker& each, std::uint32_t) { each.close(); });
            case 26:
                return stats();
            default:
                if (services_) services_->step();
        }
    }

    // Two objects of each kind, made at their first use.

    template <typename Action>
    void with_subscriber(Action&& action) {
        auto& each = subscribers_[input_.below(2)];
        if (!each) subscribe(each, "", false, {});
        if (each) action(*each);
    }
    template <typename Action>
    void with_publisher(Action&& action) {
        auto& each = publishers_[input_.below(2)];
        if (!each) publish(each, "", 0);
        if (each) action(*each);
    }
    template <typename Action>
    void with_lossy(Action&& action) {
        auto& each = lossy_[input_.below(2)];
        if (!each) each.emplace(channel_->lossy_subscriber(Start::oldest));
        action(*each);
    }

    void subscribe(std::optional<Subscriber>& place, const std::string& name, bool kept,
                   const std::optional<Rings>& rings) {
        place.reset();
        place.emplace(channel_->subscriber(name, kept, rings));
    }
    void publish(std::optional<Publisher>& place, const std::string& name, std::uint64_t max_lag) {
        place.reset();
        place.emplace(channel_->publisher(name, max_lag));
    }

    void work(std::uint32_t number, const std::string& name) {
        jobs_[number].reset();
        workers_[number].reset();
        keeps_jobs([&] { workers_[number].emplace(channel_->worker(name)); });
    }
    template <typename Action>
    void with_worker(Action&& action) {
        const std::uint32_t number = input_.below(2);
        if (!workers_[number]) work(number, "");
        keeps_jobs([&] { action(*workers_[number], number); });
    }

    /// Checks that a worker writes no producer's ring, whatever the file contains; it may write its slot, gates, and
    /// the returns ring.
    template <typename Action>
    void keeps_jobs(Action&& action) {
        const bool queue = file_.shape().kind == Kind::queue;
        const auto returns = [&](std::uint32_t ring) { return !queue || ring >= file_.shape().producers(); };
        writes_no_other(file_, returns, "a worker wrote a job", action);
    }

    void poll_jobs(Worker& worker) {
        const int limit = input_.next<std::uint8_t>() + 1;
        int handed = 0;
        int consumed = 0;
        const int returned = worker.poll(
            [&](Job& job) {
                ++handed;
                read(job);
                const std::uint32_t end = input_.below(8);
                if (end == 1) job.done();
                if (end == 2) job.release();
                if (end == 3) file_.poke(input_);
                if (end == 4) channel_->evict(worker.slot());
                const auto action = static_cast<Action>(input_.below(4));
                if (action != Action::ABORT || end == 1 || end == 2) ++consumed;
                return action;
            },
            limit);
        if (returned != consumed || handed > limit) found("a poll of jobs miscounted");
    }

    void read(const Job& job) {
        read_all(job.data(), job.size());
        if (job.type() < 1) found("a job without a type");
        if (job.ring() >= channel_->producers() || job.position() < 0) found("a job from nowhere");
        if (job.attempts() < 0 || job.repeat() != (job.attempts() > 0)) found("attempts that cannot be");
        if (job.sender().name.size() > 64 || job.sender().ring != job.ring()) found("a sender that cannot be");
        if (job.size() > capacity_ / 4) found("a job that is too large");
    }

    void stats() {
        const Stats stats = channel_->stats();
        for (const SubscriberStats& each : stats.subscribers) {
            if (each.in_hand && each.in_hand->end <= each.in_hand->position) found("a batch without a job");
        }
    }

    std::string name() {
        static constexpr const char* names[] = {"", "a", "alpha", "inbox", "b"};
        return names[input_.below(5)];
    }

    std::optional<Rings> rings() {
        Rings chosen;
        const std::uint32_t mask = input_.next<std::uint8_t>();
        if (mask == 0) return std::nullopt;
        for (std::uint32_t ring = 0; ring < 8; ++ring) {
            if ((mask >> ring & 1) != 0) chosen.push_back(ring);
        }
        return chosen;
    }

    template <typename AnySubscriber>
    void poll(AnySubscriber& subscriber) {
        const int limit = input_.next<std::uint8_t>() + 1;
        int seen = 0;
        const int returned = subscriber.poll(
            [&](const Message& message) {
                ++seen;
                read(message);
                if constexpr (std::is_same_v<AnySubscriber, Subscriber>) check_place(message);
            },
            limit);
        if (returned != seen || seen > limit) found("a poll miscounted");
    }

    template <typename AnySubscriber>
    void take(AnySubscriber& subscriber) {
        if (const auto message = subscriber.take()) read(*message);
    }

    template <typename AnySubscriber>
    void look(AnySubscriber& subscriber) {
        for (const std::uint32_t ring : subscriber.rings()) {
            if (subscriber.position(ring) < 0) found("a position below 0");
            subscriber.ended(ring);
            if constexpr (std::is_same_v<AnySubscriber, LossySubscriber>) {
                if (subscriber.lost_bytes(ring) < 0) found("less than nothing was lost");
                subscriber.lost_messages(ring);
            }
        }
    }

    void peek(LossySubscriber& subscriber) {
        if (const auto message = subscriber.peek()) {
            if (input_.below(4) == 0) file_.poke(input_);
            read_all(message->data(), message->size());
            check_place(*message);
            subscriber.valid();
        } else {
            subscriber.valid();  // throws InvalidArgument
            found("valid without a message");
        }
    }

    void read(const Message& message) {
        read_all(message.data(), message.size());
        if (message.type() < 1) found("a message without a type");
        const Sender& sender = message.sender();
        if (sender.name.size() > 64 || sender.ring != message.ring()) found("a sender that cannot be");
    }

    /// Checks that a message in place lies within its ring's data.
    void check_place(const Message& message) const {
#ifndef FUZZ_GUARD_PAGES_ALONE
        const Mapped mapped = mapping_of(message.data());
        const std::uint64_t ring = file_.shape().rings_offset() + message.ring() * file_.shape().ring_stride();
        const auto offset = static_cast<std::uint64_t>(message.data() - mapped.data);
        if (mapped.length == 0 || offset < ring + 8 || offset + message.size() > ring + capacity_) {
            found("a message reaches out of its ring");
        }
#else
        (void)message;
#endif
    }

    Bytes payload() {
        static const std::vector<std::byte> bytes(8192, std::byte{0x2a});
        const bool small = input_.below(4) != 0;
        return {bytes.data(), small ? input_.below(200) : input_.below(8192)};
    }
    std::int32_t type() { return input_.next<std::int8_t>() + 120; }

    void claim(Publisher& publisher) {
        Claim claim = publisher.try_claim(payload().size(), type());
        if (!claim) return;
        const Mapped mapped = mapping_of(claim.data());
        if (mapped.length == 0) found("a claim outside the mapping");
        std::fill_n(claim.data(), claim.size(), std::byte{0x2b});
        input_.below(2) == 0 ? claim.commit() : claim.abort();
    }

    void batch(Publisher& publisher) {
        const std::vector<Bytes> messages(input_.below(20), payload());
        if (publisher.offer_batch({messages.data(), messages.size()}) > messages.size()) found("a batch grew");
    }

    void held_by(Publisher& publisher) {
        const auto holder = publisher.held_by();
        if (holder && (holder->slot >= channel_->subscribers() || holder->name.size() > 64)) {
            found("a holder that cannot be");
        }
    }

    /// Checks that a publisher writes only its own ring and trailer, whatever the gates say; when it retires a slot,
    /// also gates and slots.
    template <typename Action>
    void offer(Publisher& publisher, Action&& action) {
        const std::vector<std::byte> before(file_.data(), file_.data() + file_.size());
        const detail::Header& shape = file_.shape();
        try {
            action();
        } catch (...) {
            compare(before, shape, publisher.ring());
            throw;
        }
        compare(before, shape, publisher.ring());
    }

    void compare(const std::vector<std::byte>& before, const detail::Header& shape, std::uint32_t own) const {
        const auto same = [&](std::uint64_t from, std::uint64_t to) {
            if (std::memcmp(before.data() + from, file_.data() + from, to - from) != 0) {
                found("a publisher wrote outside its ring");
            }
        };
        same(0, shape.control_offset());
        same(shape.counter_metadata_offset(), shape.rings_offset());
        for (std::uint32_t ring = 0; ring < shape.publishers; ++ring) {
            const std::uint64_t start = shape.rings_offset() + ring * shape.ring_stride();
            if (ring != own) same(start, start + shape.capacity + layout::TRAILER_GATE);
        }
        same(shape.schema_offset(), file_.size());
    }

    void counters() {
        Counters counters = channel_->counters();
        counters.for_each([&](const Counter& counter) {
            if (counter.label().size() > 380) found("a label is too long");
            read_all(counter.key().data(), counter.key().size());
            counter.get_volatile();
            counter.type_id();
        });
        counters.find("messages");
        Counter counter = input_.below(2) == 0 ? counters.allocate("fuzz", 3, payload().first(20))
                                               : counters.counter(input_.next<std::int8_t>());
        counter.set_release(7);
        counter.get_and_add(INT64_MAX);
        counter.compare_and_set(1, 2);
        if (input_.below(2) == 0) counter.free();
    }

    File& file_;
    Input input_;
    bool read_only_;
    Channel* channel_ = nullptr;
    std::uint64_t capacity_ = 0;
    std::array<std::optional<Subscriber>, 2> subscribers_;
    std::array<std::optional<Publisher>, 2> publishers_;
    std::array<std::optional<LossySubscriber>, 2> lossy_;
    std::array<std::optional<Worker>, 2> workers_;
    std::array<std::optional<Job>, 2> jobs_;  // of take, of each worker
    std::optional<Services> services_;        // of a service
};

}  // namespace

void run(File& file, Input program, bool read_only) {
    Program(file, program, read_only).run();
}

}  // namespace fuzz
