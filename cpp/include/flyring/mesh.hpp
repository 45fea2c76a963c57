// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "flyring/channel.hpp"

namespace flyring {

namespace detail {

/// When a member received a beat of another one (spec/channel.md 8.2).
struct Receipt {
    std::int32_t ring = 0;
    std::int64_t sequence = 0;
    std::int64_t sent = 0;
    std::int64_t received = 0;
};

/// A message of a mesh: a beat, or with sequence -1 only receipts (spec/channel.md 8.2).
struct Beat {
    std::int64_t sequence = -1;
    std::int64_t every = 0;
    std::int64_t due = 0;
    std::int64_t woke = 0;
    std::int64_t sent = 0;

    std::vector<std::byte> encode(const std::vector<Receipt>& receipts) const {
        using namespace layout;
        std::vector<std::byte> bytes(BEAT_LENGTH + RECEIPT_LENGTH * receipts.size());
        put(bytes.data() + BEAT_SEQUENCE, sequence);
        put(bytes.data() + BEAT_EVERY, every);
        put(bytes.data() + BEAT_DUE, due);
        put(bytes.data() + BEAT_WOKE, woke);
        put(bytes.data() + BEAT_SENT, sent);
        put(bytes.data() + BEAT_RECEIPTS, static_cast<std::int32_t>(receipts.size()));
        std::byte* at = bytes.data() + BEAT_LENGTH;
        for (const Receipt& receipt : receipts) {
            put(at + RECEIPT_RING, receipt.ring);
            put(at + RECEIPT_SEQUENCE, receipt.sequence);
            put(at + RECEIPT_SENT, receipt.sent);
            put(at + RECEIPT_RECEIVED, receipt.received);
            at += RECEIPT_LENGTH;
        }
        return bytes;
    }
};

}  // namespace detail

/// Makes this process a member of a mesh: one thread beats in the channel, and notes when it received the beats of the
/// other members. `flyring monitor --mesh` shows how late each member wakes and how long beats take between each two,
/// and names members that are tardy, stopped or dead. Close it, or let it end, before the channel. The thread ends when
/// the channel is closed or replaced. In a forked child there is no member, and close() does nothing. (spec/channel.md
/// 8.2)
class Mesh {
  public:
    /// `channel`: a broadcast channel that has no other use, with a publisher slot for each member and no subscribers.
    /// `name`: the member's, valid as a channel's name. `every`: the time between two beats. Throws InvalidArgument,
    /// NoFreeSlot, AccessDenied (read-only), Closed.
    Mesh(Channel& channel, const std::string& name, std::chrono::nanoseconds every = std::chrono::milliseconds(10))
        : name_(name),
          every_(every),
          publisher_(join(channel, name, every)),
          ring_(publisher_.ring()),
          reader_(others(channel, ring_)) {
        const std::size_t fits = (publisher_.max_message_length() - layout::BEAT_LENGTH) / layout::RECEIPT_LENGTH;
        most_ = std::min<std::size_t>(layout::BEAT_MAX_RECEIPTS, fits);
        receipts_.reserve(most_);
        thread_ = std::thread([this] { run(); });
    }
    Mesh(const Mesh&) = delete;
    Mesh& operator=(const Mesh&) = delete;
    ~Mesh() {
        close();
        if (thread_.joinable()) thread_.detach();  // a forked child has no such thread
    }

    const std::string& name() const noexcept { return name_; }
    std::chrono::nanoseconds every() const noexcept { return every_; }
    /// The member's number: that of its ring.
    std::uint32_t ring() const noexcept { return ring_; }
    /// How often it has beaten.
    std::int64_t beats() const noexcept { return beats_.load(std::memory_order_relaxed); }

    /// Leaves the mesh, and ends the thread within 50 ms. A second close does nothing.
    void close() {
        if (::getpid() != pid_) return;
        stop_.store(true, std::memory_order_relaxed);
        if (thread_.joinable()) thread_.join();
    }

  private:
    /// The thread checks at least this often whether it must end.
    static constexpr std::int64_t LONGEST_WAIT = 50'000'000;  // ns

    static Publisher join(Channel& channel, const std::string& name, std::chrono::nanoseconds every) {
        detail::check_name("name", name);
        if (every.count() <= 0) throw InvalidArgument("every", "it must be above 0");
        if (channel.kind() != Kind::broadcast) {
            throw InvalidArgument("kind", "a mesh needs a broadcast channel, and " + channel.path() + " is none");
        }
        if (channel.publishers() < 2) {
            throw InvalidArgument("publishers", "a mesh needs a channel with 2 publishers or more");
        }
        return channel.publisher(name);
    }

    static LossySubscriber others(Channel& channel, std::uint32_t own) {
        Rings rings;
        for (std::uint32_t ring = 0; ring < channel.publishers(); ++ring) {
            if (ring != own) rings.push_back(ring);
        }
        return channel.lossy_subscriber(rings);
    }

    static std::int64_t now() noexcept { return detail::clock_ns(CLOCK_MONOTONIC); }

    void run() {
        try {
            beat_and_receive();
        } catch (const Closed&) {  // the channel is closed
        } catch (const ChannelReplaced&) {
        } catch (const std::exception& error) {
            std::fprintf(stderr, "flyring: %s has left the mesh: %s\n", name_.c_str(), error.what());
        }
        try {
            reader_.close();
            publisher_.close();
        } catch (const std::exception& error) {
            std::fprintf(stderr, "flyring: %s has left the mesh: %s\n", name_.c_str(), error.what());
        }
    }

    void beat_and_receive() {
        const std::int64_t every = every_.count();
        std::int64_t due = now();
        while (!stop_.load(std::memory_order_relaxed)) {
            const std::int64_t woke = now();
            if (woke >= due) {
                send({beats_.load(std::memory_order_relaxed), every, due, woke, 0});
                beats_.fetch_add(1, std::memory_order_relaxed);
                due = woke - due < every ? due + every : woke + every;
            } else {
                receive(std::chrono::nanoseconds(std::min(due - woke, LONGEST_WAIT)));
                if (receipts_.size() == most_) send({-1, every, 0, 0, 0});
            }
        }
    }

    /// Publishes the beat, or drops it if the ring has no room.
    void send(detail::Beat beat) {
        beat.sent = now();
        const std::vector<std::byte> bytes = beat.encode(receipts_);
        publisher_.offer(Bytes(bytes.data(), bytes.size()), static_cast<std::int32_t>(layout::BEAT_TYPE));
        receipts_.clear();
    }

    void receive(std::chrono::nanoseconds timeout) {
        try {
            reader_.poll([this](const Message& message) { note(message); }, static_cast<int>(most_ - receipts_.size()),
                         timeout);
        } catch (const CorruptRing&) {  // the other rings go on
        }
    }

    void note(const Message& message) {
        const std::int64_t received = now();
        if (message.type() != static_cast<std::int32_t>(layout::BEAT_TYPE) || message.size() < layout::BEAT_LENGTH) {
            return;
        }
        const auto sequence = detail::get<std::int64_t>(message.data() + layout::BEAT_SEQUENCE);
        if (sequence < 0) return;
        const auto sent = detail::get<std::int64_t>(message.data() + layout::BEAT_SENT);
        receipts_.push_back({static_cast<std::int32_t>(message.ring()), sequence, sent, received});
    }

    const std::string name_;
    const std::chrono::nanoseconds every_;
    const std::int32_t pid_ = ::getpid();
    Publisher publisher_;
    const std::uint32_t ring_;
    LossySubscriber reader_;
    std::size_t most_ = 0;
    std::vector<detail::Receipt> receipts_;  // only the thread uses them
    std::atomic<std::int64_t> beats_{0};
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

}  // namespace flyring
