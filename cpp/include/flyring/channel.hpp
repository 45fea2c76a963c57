// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "flyring/client.hpp"
#include "flyring/counters.hpp"
#include "flyring/detail/environment.hpp"
#include "flyring/detail/file.hpp"
#include "flyring/detail/state.hpp"
#include "flyring/lossy_subscriber.hpp"
#include "flyring/options.hpp"
#include "flyring/publisher.hpp"
#include "flyring/server.hpp"
#include "flyring/stats.hpp"
#include "flyring/subscriber.hpp"
#include "flyring/worker.hpp"

namespace flyring {

namespace detail {
struct InEnvironment;
}

/// One attached channel (spec/channel.md 3). A name matches [A-Za-z0-9._-]{1,64}; an argument with a `/` is a path. The
/// file stays mapped until close, or until the channel and every object made from it are destroyed. Thread-safe, unlike
/// the objects made from it.
class Channel {
  public:
    /// Creates the channel's file, complete, and attaches to it. Throws ChannelExists, InvalidArgument, NoSpace,
    /// UnsuitableFileSystem, AccessDenied, IoError.
    static Channel create(const std::string& name, const Options& options) { return create(name, options, {}); }

    /// Attaches to an existing channel after full validation; read-only if `options` say so. Throws ChannelDiffers if
    /// the schema is not the required one, NoSuchChannel, NotAChannel, VersionTooNew, Truncated, CorruptHeader,
    /// UnsuitableFileSystem, AccessDenied, InvalidArgument, IoError.
    static Channel open(const std::string& name, const OpenOptions& options = {}) { return open(name, options, {}); }

    /// Opens the channel, or creates it if there is none. Throws ChannelDiffers if the existing channel is not what
    /// `options` ask for; otherwise as open and create do. A schema differs by its id, or if its version is below the
    /// one asked for.
    static Channel open_or_create(const std::string& name, const Options& options) {
        return open_or_create(name, options, {});
    }

    /// Creates a new channel and gives it the name. Processes that are attached to the old channel keep the old one.
    /// Throws as create does, except ChannelExists.
    static Channel replace(const std::string& name, const Options& options) { return replace(name, options, {}); }

    /// Opens the channel as soon as there is one of that name. Looks every millisecond, after a second every 10 ms.
    /// Throws TimedOut, otherwise as open does, except NoSuchChannel.
    static Channel wait_for(const std::string& name, std::chrono::nanoseconds timeout = forever,
                            const OpenOptions& options = {}) {
        detail::check_timeout(timeout);
        const std::int64_t start = detail::clock_ns(CLOCK_MONOTONIC);
        const std::int64_t deadline = detail::later(start, timeout.count());
        for (;;) {
            try {
                return open(name, options);
            } catch (const NoSuchChannel& error) {
                const std::int64_t now = detail::clock_ns(CLOCK_MONOTONIC);
                if (now >= deadline) throw TimedOut("channel " + error.path() + " to be created");
                const std::int64_t nap = now - start < 1'000'000'000 ? 1'000'000 : 10'000'000;
                std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(nap, deadline - now)));
            }
        }
    }

    /// Removes the name; attached processes keep working. Throws NoSuchChannel, NotAChannel (nothing is removed then),
    /// AccessDenied, IoError.
    static void unlink(const std::string& name) { detail::unlink_file(name); }

    /// The path of the file that `name` stands for. Throws InvalidArgument.
    static std::string path_of(const std::string& name) { return detail::channel_path(name); }

    /// Takes a publisher slot; with a name, the slot that had this name before, if any. `max_lag`, in bytes from
    /// capacity / 2 to capacity: a subscriber that is further behind is evicted instead of waited for. 0: none is
    /// evicted. A foreign publisher's slot cannot be taken, and a foreign subscriber cannot be evicted: both are
    /// InvalidArgument (spec/channel.md 6.15). Throws NoFreeSlot, CorruptRing, InvalidArgument, AccessDenied
    /// (read-only), Closed, IoError. (5.2, 6.2)
    Publisher publisher(const std::string& name = "", std::uint64_t max_lag = 0) {
        check_writable();
        file().check_foreign(foreign() != Foreign::publisher, "the publisher slot is the foreign writer's");
        file().check_foreign(foreign() == Foreign::none || max_lag == 0, "a foreign subscriber cannot be evicted");
        refuse_service("publishers; take a client, or a server");
        if (kind() == Kind::queue && max_lag != 0) {
            throw InvalidArgument("max_lag", "the workers of a queue share its jobs, so none of them lags behind");
        }
        return Publisher(std::make_unique<detail::PublisherCore>(state_, name, max_lag));
    }

    /// Takes a subscriber slot that reads `rings`; without `rings`, all. `kept`: messages wait for this name while no
    /// subscriber has the slot. An inbox's only slot is always kept: any name gets it and becomes its label. `timeout`:
    /// how long to wait for a free slot. Throws as publisher does, ChannelDiffers (rings) if the kept slot of that name
    /// has other rings, InvalidArgument also if `rings` is empty or the slot is a foreign reader's. (spec/channel.md
    /// 5.3)
    Subscriber subscriber(const std::string& name = "", bool kept = false,
                          const std::optional<Rings>& rings = std::nullopt,
                          std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        check_writable();
        file().check_foreign(foreign() != Foreign::subscriber, "the subscriber slot is the foreign reader's");
        if (kind() == Kind::queue) {
            throw InvalidArgument("kind",
                                  "a queue has no subscribers; take a worker, or a lossy subscriber to look on");
        }
        refuse_service("subscribers; take a client, a server, or a lossy subscriber to look on");
        return Subscriber(std::make_unique<detail::SubscriberCore>(state_, name, kept, rings, timeout));
    }
    Subscriber subscriber(const std::string& name, bool kept, std::initializer_list<std::uint32_t> rings,
                          std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        return subscriber(name, kept, Rings(rings), timeout);
    }

    /// Takes a worker slot of a queue. `timeout`: how long to wait for a free slot. A job that the slot's last owner
    /// had in hand comes first. Throws NoFreeSlot, InvalidArgument (also on another kind), AccessDenied (read-only),
    /// Closed, IoError. (spec/queue.md)
    Worker worker(const std::string& name = "", std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        check_writable();
        if (kind() != Kind::queue) {
            throw InvalidArgument("kind", std::string("a channel of kind ") + detail::kind_name(kind()) +
                                              " has no workers; create a queue");
        }
        return Worker(std::make_unique<detail::WorkerCore>(state_, name, timeout));
    }

    /// Makes the server of a service. `timeout`: how long to wait while another server lives. Throws NoFreeSlot,
    /// CorruptRing, InvalidArgument (also on another kind), AccessDenied (read-only), Closed, IoError.
    /// (spec/service.md 4)
    Server server(const std::string& name = "", std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        check_service("server");
        return Server(std::make_unique<detail::ServerCore>(state_, name, timeout));
    }

    /// Makes a client of a service. `timeout`: how long to wait for a free place. Throws as server does.
    /// (spec/service.md 3)
    Client client(const std::string& name = "", std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        check_service("clients");
        return Client(std::make_unique<detail::ClientCore>(state_, name, timeout));
    }

    /// Makes a reader of `rings` without a slot: publishers do not wait for it, and it counts what it lost. Without
    /// `rings` it reads all; of a queue, all but the ring of released jobs. `start`: at the next message, or at the
    /// oldest one that is still in the ring. `when_lapped`: where it continues after publishers have overwritten its
    /// next message. Throws InvalidArgument (also if `rings` is empty, or with a foreign publisher), Closed.
    /// (spec/channel.md 6.10)
    LossySubscriber lossy_subscriber(const std::optional<Rings>& rings = std::nullopt, Start start = Start::now,
                                     WhenLapped when_lapped = WhenLapped::oldest) {
        state_->check_open();
        file().check_foreign(foreign() != Foreign::publisher,
                             "a foreign writer does not announce what it overwrites; take the subscriber slot");
        return LossySubscriber(std::make_unique<detail::LossyCore>(state_, rings, start, when_lapped));
    }
    LossySubscriber lossy_subscriber(std::initializer_list<std::uint32_t> rings, Start start = Start::now,
                                     WhenLapped when_lapped = WhenLapped::oldest) {
        return lossy_subscriber(Rings(rings), start, when_lapped);
    }
    LossySubscriber lossy_subscriber(Start start, WhenLapped when_lapped = WhenLapped::oldest) {
        return lossy_subscriber(std::nullopt, start, when_lapped);
    }

    /// Takes subscriber slot `slot` from its owner, alive or dead, and stops it from holding publishers back. The
    /// owner's next poll throws SlotLost. A kept slot stays kept, but its next owner joins at the current end. Returns
    /// how many messages the victim had not read, or -1 if that is not known. A worker's job goes to another worker:
    /// the result is 1 if the worker had one, otherwise 0. Throws InvalidArgument (also if the channel has a foreign
    /// slot, or for slot 0 of a queue), AccessDenied (read-only), Closed, IoError. (spec/channel.md 6.11)
    std::int64_t evict(std::uint32_t slot) {
        check_writable();
        file().check_foreign(foreign() == Foreign::none, "the gate of a channel with a foreign slot must stay");
        if (slot >= subscribers()) {
            throw InvalidArgument("slot", "there is no subscriber slot " + std::to_string(slot) + ", the channel has " +
                                              std::to_string(subscribers()));
        }
        if (kind() == Kind::queue && slot == 0) {
            throw InvalidArgument("slot", "slot 0 of a queue has no owner; its workers have the other slots");
        }
        std::int64_t unread = 0;
        state_->with_lock([&] {
            state_->check_open();
            const detail::Fd description = detail::open_description(file().fd, path());
            const detail::ControlLock control(description, file());
            if (kind() == Kind::queue) {
                unread = detail::in_hand_of(file(), slot) ? 1 : 0;
                return detail::evict_worker(file(), slot);
            }
            unread = detail::count_unread(file(), slot);
            if (file().always_kept(slot)) return detail::evict_server(file());
            detail::evict_slot(file(), slot);
        });
        return unread;
    }

    Counters counters() const {
        state_->check_open();
        return Counters(state_);
    }

    /// A snapshot of the channel's slots, rings and counters. Works on a read-only channel too; takes no lock and
    /// writes nothing. Throws Closed, IoError.
    Stats stats() const {
        state_->check_open();
        Stats made = detail::stats_of(file());
        counters().for_each([&](const Counter& counter) { made.counters.push_back(counter.stats()); });
        return made;
    }

    const std::string& path() const noexcept { return file().path; }
    const Uuid& id() const noexcept { return file().header.channel_id; }
    Kind kind() const noexcept { return file().header.kind; }
    /// The size of one ring in bytes.
    std::uint32_t capacity() const noexcept { return file().header.capacity; }
    std::uint32_t publishers() const noexcept { return file().header.publishers; }
    std::uint32_t subscribers() const noexcept { return file().header.subscribers; }
    /// Only for a queue; otherwise 0. Its file has one publisher slot and one subscriber slot more than these.
    std::uint32_t producers() const noexcept { return kind() == Kind::queue ? file().header.producers() : 0; }
    std::uint32_t workers() const noexcept { return file().header.workers(); }
    /// Only for a service; otherwise 0.
    std::uint32_t clients() const noexcept { return file().header.clients(); }
    Delivery delivery() const noexcept { return file().header.delivery; }
    std::uint32_t max_outstanding() const noexcept { return file().header.max_outstanding; }
    /// Bytes.
    std::uint32_t alignment() const noexcept { return file().header.alignment; }
    Foreign foreign() const noexcept { return file().header.foreign; }
    std::uint32_t counter_count() const noexcept { return file().header.counters; }
    /// Nanoseconds since 1970-01-01 UTC.
    std::int64_t created_at() const noexcept { return file().header.created_at; }
    /// UTF-8; empty if there is none.
    const std::string& schema() const noexcept { return file().schema; }
    std::uint32_t schema_id() const noexcept { return file().header.schema_id; }
    std::uint32_t schema_version() const noexcept { return file().header.schema_version; }
    /// Bytes.
    std::uint64_t file_length() const noexcept { return file().length; }
    bool read_only() const noexcept { return file().read_only; }

    /// Closes the channel and every object made from it. Does nothing if closed already. Throws ViewAlive if one of
    /// these objects is in use; then none is closed. A message that another thread publishes at the same moment may be
    /// lost; the ring stays intact.
    void close() { state_->close_all(); }

  private:
    friend struct detail::InEnvironment;

    explicit Channel(detail::ChannelFile file) : state_(std::make_shared<detail::ChannelState>(std::move(file))) {}

    static Channel create(const std::string& name, const Options& options, const detail::Environment& environment) {
        return detail::create_file(name, options, environment, false,
                                   [](detail::ChannelFile file) { return Channel(std::move(file)); });
    }
    static Channel replace(const std::string& name, const Options& options, const detail::Environment& environment) {
        return detail::create_file(name, options, environment, true,
                                   [](detail::ChannelFile file) { return Channel(std::move(file)); });
    }
    static Channel open(const std::string& name, const OpenOptions& options, const detail::Environment& environment) {
        if (options.min_schema_version > 65535) {
            throw InvalidArgument("min_schema_version", "it must be 0 to 65535");
        }
        Channel channel(detail::open_file(name, options, environment));
        channel.check_schema(options);
        return channel;
    }
    static Channel open_or_create(const std::string& name, const Options& options,
                                  const detail::Environment& environment) {
        detail::check_options(options);
        for (;;) {
            try {
                OpenOptions opening;
                opening.any_file_system = options.any_file_system;
                opening.wake = options.wake;
                Channel channel = open(name, opening, environment);
                channel.compare(options);
                return channel;
            } catch (const NoSuchChannel&) {
                // Create it below; another process may be faster.
            }
            try {
                return create(name, options, environment);
            } catch (const ChannelExists&) {
                // Another process was faster: open its channel.
            }
        }
    }

    const detail::ChannelFile& file() const noexcept { return state_->file; }

    void check_writable() const {
        state_->check_open();
        file().check_writable();
    }

    void refuse_service(const char* what) const {
        if (kind() == Kind::service) throw InvalidArgument("kind", std::string("a service has no ") + what);
    }
    void check_service(const char* what) const {
        check_writable();
        if (kind() == Kind::service) return;
        throw InvalidArgument("kind", std::string("a channel of kind ") + detail::kind_name(kind()) + " has no " +
                                          what + "; create a service");
    }

    /// Throws ChannelDiffers if the channel's schema is not the required one (spec/messages.md 2).
    void check_schema(const OpenOptions& required) const {
        const auto differs = [this](const char* field, std::uint32_t expected, const std::string& actual) {
            throw ChannelDiffers(path(), field, std::to_string(expected), actual);
        };
        if (required.schema && schema().empty()) differs("schema", required.schema->id, "none");
        if (required.schema && schema_id() != required.schema->id) {
            differs("schema_id", required.schema->id, std::to_string(schema_id()));
        }
        if (schema_version() < required.min_schema_version) {
            differs("schema_version", required.min_schema_version, std::to_string(schema_version()));
        }
    }

    /// Throws ChannelDiffers for the first property that is not as asked, in the order of spec/channel.md 3.2.
    void compare(const Options& asked) const {
        const auto foreign_name = [](Foreign end) {
            return std::string(end == Foreign::none ? "none" : end == Foreign::publisher ? "publisher" : "subscriber");
        };
        const auto same = [this](const char* field, const std::string& expected, const std::string& actual) {
            if (expected != actual) throw ChannelDiffers(path(), field, expected, actual);
        };
        same("kind", detail::kind_name(asked.kind), detail::kind_name(kind()));
        same("capacity", std::to_string(detail::capacity_of(asked)), std::to_string(capacity()));
        const std::uint32_t more = kind() == Kind::queue ? 1 : 0;  // the slots that a queue has on top of its options
        const bool service = kind() == Kind::service;
        if (service) {
            same("clients", std::to_string(detail::publishers_of(asked) / 2), std::to_string(clients()));
        } else {
            same(more != 0 ? "producers" : "publishers", std::to_string(detail::publishers_of(asked) - more),
                 std::to_string(publishers() - more));
            same(more != 0 ? "workers" : "subscribers", std::to_string(detail::subscribers_of(asked) - more),
                 std::to_string(subscribers() - more));
        }
        same("alignment", std::to_string(asked.alignment), std::to_string(alignment()));
        same("foreign", foreign_name(asked.foreign), foreign_name(foreign()));
        same("counters", std::to_string(asked.counters), std::to_string(counter_count()));
        if (service) {
            const auto number = [](Delivery which) { return std::to_string(static_cast<std::int32_t>(which)); };
            same("delivery", number(asked.delivery.value_or(Delivery::at_most_once)), number(delivery()));
            same("max_outstanding", std::to_string(asked.max_outstanding.value_or(layout::DEFAULT_MAX_OUTSTANDING)),
                 std::to_string(max_outstanding()));
        }
        same("schema_id", std::to_string(asked.schema_id), std::to_string(schema_id()));
        if (schema_version() < asked.schema_version) {
            same("schema_version", std::to_string(asked.schema_version), std::to_string(schema_version()));
        }
    }

    std::shared_ptr<detail::ChannelState> state_;
};

namespace detail {

/// Creates and opens channels with injected values instead of the system's (spec/channel.md 10). For tests.
struct InEnvironment {
    Environment environment;

    Channel create(const std::string& name, const Options& options) const {
        return Channel::create(name, options, environment);
    }
    Channel replace(const std::string& name, const Options& options) const {
        return Channel::replace(name, options, environment);
    }
    Channel open(const std::string& name, const OpenOptions& options = {}) const {
        return Channel::open(name, options, environment);
    }
    Channel open_or_create(const std::string& name, const Options& options) const {
        return Channel::open_or_create(name, options, environment);
    }
    /// Sets the injected clock.
    static void set_clock(Channel& channel, std::int64_t monotonic) {
        channel.state_->file.environment.monotonic = monotonic;
    }
};

}  // namespace detail
}  // namespace flyring
