// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include "peer.hpp"

// The messages of the deterministic stream of interop-tests/PEER.md.

namespace peer {

/// SplitMix64, started again for each message.
class Generator {
  public:
    Generator(std::uint64_t seed, std::uint64_t sequence) noexcept
        : state_(seed * 0x9E3779B97F4A7C15 + sequence * 0xD1B54A32D192ED03) {}

    std::uint64_t next() noexcept {
        state_ += 0x9E3779B97F4A7C15;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        return z ^ (z >> 31);
    }

  private:
    std::uint64_t state_;
};

/// The stream that a request describes.
struct Stream {
    std::uint64_t seed;
    std::uint64_t count;
    std::optional<std::uint64_t> first = 0;  // empty: the verifier starts anywhere, and count is the end
    std::uint64_t min;
    std::uint64_t max;
    std::int32_t fixed_type;  // 0: from the generator
    bool numbered;            // the payload begins with the sequence

    explicit Stream(const Json& request)
        : seed(request.at("seed")),
          count(request.at("count")),
          min(request.at("min")),
          max(request.at("max")),
          fixed_type(request.value("type", 0)),
          numbered(request.value("numbered", false)) {
        if (const auto given = request.find("first"); given != request.end()) {
            first.reset();
            if (!given->is_null()) first = given->get<std::uint64_t>();
        }
        if (min > max) throw BadRequest("min is more than max");
        if (numbered && min < sizeof(std::uint64_t)) throw BadRequest("a numbered stream needs a min of at least 8");
        if (!first && !numbered) throw BadRequest("without first the stream must be numbered");
    }

    /// The sequence after the last message.
    std::uint64_t end() const noexcept { return first ? *first + count : count; }
};

/// Message `sequence` of a stream.
class StreamMessage {
  public:
    StreamMessage(const Stream& stream, std::uint64_t sequence) noexcept
        : generator_(stream.seed, sequence), sequence_(sequence), numbered_(stream.numbered) {
        length_ = static_cast<std::size_t>(stream.min + generator_.next() % (stream.max - stream.min + 1));
        type_ = static_cast<std::int32_t>(1 + generator_.next() % 1000);
        if (stream.fixed_type != 0) type_ = stream.fixed_type;
    }

    std::size_t length() const noexcept { return length_; }
    std::int32_t type() const noexcept { return type_; }

    /// Writes the first `size` bytes of the payload.
    void write(std::byte* to, std::size_t size) const {
        each_piece(size, [&](std::size_t at, const void* piece, std::size_t length) {
            std::memcpy(to + at, piece, length);
            return true;
        });
    }
    void write(std::byte* to) const { write(to, length_); }

    bool matches(flyring::Bytes payload) const {
        return payload.size() == length_ &&
               each_piece(length_, [&](std::size_t at, const void* piece, std::size_t size) {
                   return std::memcmp(payload.data() + at, piece, size) == 0;
               });
    }

  private:
    /// Calls use(offset, piece, size) for each piece of the first `size` bytes, until it returns false.
    template <typename Use>
    bool each_piece(std::size_t size, Use&& use) const {
        Generator generator = generator_;
        for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
            const std::uint64_t generated = generator.next();
            const std::uint64_t piece = at == 0 && numbered_ ? sequence_ : generated;
            if (!use(at, &piece, std::min(sizeof piece, size - at))) return false;
        }
        return true;
    }

    Generator generator_;
    std::uint64_t sequence_;
    bool numbered_;
    std::size_t length_ = 0;
    std::int32_t type_ = 0;
};

/// Waits in turns, and reads the clock in every 64th turn.
class Patience {
  public:
    explicit Patience(double seconds) noexcept : seconds_(seconds) {}

    void idle() { wait_.idle(0); }
    void reset() noexcept { wait_.reset(); }
    double passed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
    /// In every 64th call: whether the time is over. Otherwise false.
    bool over() { return ++asked_ % 64 == 0 && passed() > seconds_; }
    /// The time that is left.
    std::chrono::nanoseconds left() const {
        const std::chrono::duration<double> left(std::max(0.0, seconds_ - passed()));
        return std::chrono::duration_cast<std::chrono::nanoseconds>(left);
    }

  private:
    using Clock = std::chrono::steady_clock;

    double seconds_;
    std::uint64_t asked_ = 0;
    flyring::BackoffWait wait_{100, 20, std::chrono::microseconds(1), std::chrono::microseconds(50)};
    Clock::time_point start_ = Clock::now();
};

/// Whether the request has "wait": "block": then the verbs themselves wait, and sleep.
inline bool says_block(const Json& request) {
    const std::string wait = request.value("wait", "backoff");
    if (wait != "backoff" && wait != "block") throw BadRequest("wait: " + wait);
    return wait == "block";
}

/// Sets the object's spin time to the request's `spin`, in ns.
template <typename Object>
void set_spin(Object& object, const Json& request) {
    const auto found = request.find("spin");
    if (found != request.end()) object.set_spin(std::chrono::nanoseconds(found->get<std::int64_t>()));
}

/// Kills this process with SIGKILL.
[[noreturn]] inline void kill_this_process() {
    ::kill(::getpid(), SIGKILL);
    for (;;) ::pause();
}

}  // namespace peer
