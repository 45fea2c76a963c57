// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "flyring/channel.hpp"
#include "flyring/detail/watch.hpp"
#include "flyring/heartbeat.hpp"

namespace flyring {

/// A thread that names what runs late: the heartbeats of a channel, of all processes, that miss their promised
/// interval, and the canaries of this process. Time that the watchdog itself slept too long counts against none of
/// them; it reports itself instead. Close it before the channel. In a forked child it does not run, and close() does
/// nothing. (spec/api.md, "Watchdog")
class Watchdog {
  public:
    using OnMissed = std::function<void(const Missed&)>;

    /// `on_missed` runs in the thread of the watchdog; if it throws, the watchdog says so on standard error and goes
    /// on. By default it writes to standard error. `every`: the time between two looks. `repeat`: how long the same
    /// thread or stretch is not reported again. Throws InvalidArgument, and Closed if the channel is closed.
    explicit Watchdog(const Channel& channel, OnMissed on_missed = to_stderr,
                      std::chrono::nanoseconds every = std::chrono::milliseconds(100),
                      std::chrono::nanoseconds repeat = std::chrono::seconds(10))
        : watch_(detail::Watch::start(channel, std::move(on_missed), every, repeat)) {}
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;
    ~Watchdog() { watch_->end(); }

    /// Reports the stretches that have ended too late and were not reported yet, and ends the thread. A second close
    /// does nothing. From within the callback, the thread ends after the callback.
    void close() { watch_->close(); }

    /// Writes a line to standard error.
    static void to_stderr(const Missed& missed) { std::fprintf(stderr, "%s\n", missed.text().c_str()); }

  private:
    friend class Canary;
    std::shared_ptr<detail::Watch> watch_;
};

/// Watches a stretch of code that has an expected duration. Make it once, because the watchdog keeps each canary until
/// its own end; then begin() the stretch, in one thread at a time, and not nested. A stretch that takes longer is
/// reported to the callback of the watchdog: while it runs, and again when it has ended. It costs two reads of the
/// clock. `Canary::Off` takes its place where nothing is to be watched, and compiles to nothing:
///
///     using Watched = std::conditional_t<watch, flyring::Canary, flyring::Canary::Off>;
class Canary {
  public:
    /// Runs from begin() to its end.
    class [[nodiscard]] Stretch {
      public:
        Stretch(const Stretch&) = delete;
        Stretch& operator=(const Stretch&) = delete;
        ~Stretch() { canary_.end(); }

      private:
        friend class Canary;
        explicit Stretch(Canary& canary) noexcept : canary_(canary) { canary_.stretch_->begin(); }
        Canary& canary_;
    };

    /// Does nothing.
    class Off {
      public:
        class [[nodiscard]] Stretch {
          public:
            ~Stretch() {}  // NOLINT: user-provided, so that an unused variable is no warning
        };
        constexpr Off() noexcept = default;
        template <typename... Arguments>
        constexpr explicit Off(Arguments&&...) noexcept {}
        Stretch begin() const noexcept { return {}; }
    };

    /// `expected`: the longest duration that is expected. Throws InvalidArgument, and Closed if the watchdog is closed.
    Canary(Watchdog& watchdog, const std::string& label, std::chrono::nanoseconds expected)
        : stretch_(watchdog.watch_->add(label, expected)) {}
    Canary(const Canary&) = delete;
    Canary& operator=(const Canary&) = delete;

    Stretch begin() noexcept { return Stretch(*this); }

    const std::string& label() const noexcept { return stretch_->label; }
    std::chrono::nanoseconds expected() const noexcept { return std::chrono::nanoseconds(stretch_->expected); }

  private:
    void end() noexcept { stretch_->end(); }

    std::shared_ptr<detail::Stretch> stretch_;
};

}  // namespace flyring
