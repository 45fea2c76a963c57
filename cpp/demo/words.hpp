// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <flyring/flyring.hpp>
#include <string>

#include "loop.hpp"

// The two demos without a channel: `counter` (both sides raise one mapped counter in turn) and `line` (two raw cache
// lines).

namespace demo {

constexpr std::uint64_t page_size = 4096;

/// The mapped page that both sides share. Ping creates the file and removes it at the end; pong waits for it.
class Page {
  public:
    template <typename Strategy>
    Page(const Options& options, const char* suffix, Waiter<Strategy>& waiter)
        : path_(path_of(options.channel, suffix)), owner_(options.ping) {
        if (owner_) {
            flyring::detail::make_folder(options.channel);
            const std::string temporary = path_ + "." + std::to_string(::getpid());
            file_ = flyring::detail::Fd(::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
            if (!file_) flyring::detail::throw_errno("open", temporary);
            if (::ftruncate(file_.get(), page_size) != 0) flyring::detail::throw_errno("ftruncate", temporary);
            mapping_ = flyring::detail::Mapping(file_, page_size, flyring::detail::Access::write, path_);
            if (::rename(temporary.c_str(), path_.c_str()) != 0) flyring::detail::throw_errno("rename", path_);
        } else {
            while (!attach()) waiter.idle();
        }
    }

    Page(const Page&) = delete;
    Page& operator=(const Page&) = delete;
    ~Page() {
        if (owner_) ::unlink(path_.c_str());
    }

    /// For pong, before the first word arrives: if the name now stands for another file, maps that one and returns
    /// true.
    bool replaced() {
        struct stat named{};
        struct stat ours{};
        if (::stat(path_.c_str(), &named) != 0 || ::fstat(file_.get(), &ours) != 0) return false;
        return named.st_ino != ours.st_ino && attach();
    }

    std::byte* data() const noexcept { return mapping_.data(); }

  private:
    static std::string path_of(const std::string& channel, const char* suffix) {
        const std::string path = flyring::Channel::path_of(channel);
        return (channel.find('/') == std::string::npos ? path.substr(0, path.rfind(".ring")) : path) + suffix;
    }

    bool attach() {
        flyring::detail::Fd file(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
        if (!file) return false;
        mapping_ = flyring::detail::Mapping(file, page_size, flyring::detail::Access::write, path_);
        file_ = std::move(file);
        return true;
    }

    std::string path_;
    bool owner_;
    flyring::detail::Fd file_;
    flyring::detail::Mapping mapping_;
};

/// Waits until `ready()`. While `first`, it checks at times whether `page` is still the file of that name.
template <typename Strategy, typename Ready>
void wait_until(Waiter<Strategy>& waiter, Page& page, bool first, Ready&& ready) {
    constexpr std::uint32_t look_interval = 1U << 16;
    for (std::uint32_t turn = 1; !ready(); ++turn) {
        if (first && turn % look_interval == 0) page.replaced();
        waiter.idle();
    }
    waiter.progress();
}

template <typename Strategy>
Result counter(const Options& options) {
    Waiter<Strategy> waiter(options);
    Page page(options, ".counter", waiter);
    const auto counter = [&] { return flyring::detail::word_at<std::int64_t>(page.data(), 0); };
    const auto raise = [&](std::int64_t from) {
        return __atomic_compare_exchange_n(counter(), &from, from + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
    };
    if (options.ping) {
        Result result = measure(options, [&](std::int64_t sequence, std::int64_t, auto clock) {
            const std::int64_t even = 2 * (sequence - 1);
            if (!raise(even)) throw std::runtime_error("wrong answer: counter of sequence " + std::to_string(sequence));
            wait_until(waiter, page, false, [&] { return flyring::detail::load_acquire(counter()) == even + 2; });
            return clock();
        });
        __atomic_store_n(counter(), -1, __ATOMIC_SEQ_CST);
        return result;
    }
    for (std::int64_t odd = 1;; odd += 2) {
        std::int64_t value = 0;
        wait_until(waiter, page, odd == 1, [&] {
            value = flyring::detail::load_acquire(counter());
            return value >= odd || value < 0;
        });
        if (value < 0) return {};
        if (value != odd || !raise(odd)) throw std::runtime_error("wrong counter: " + std::to_string(value));
    }
}

constexpr std::uint64_t ping_line = 0;
constexpr std::uint64_t pong_line = 128;

inline void write_line(std::byte* line, std::int64_t sequence, const std::int64_t (&payload)[3]) noexcept {
    std::memcpy(line + 8, payload, sizeof payload);
    flyring::detail::store_release(flyring::detail::word_at<std::int64_t>(line, 0), sequence);
}

template <typename Strategy>
Result line(const Options& options) {
    Waiter<Strategy> waiter(options);
    Page page(options, ".line", waiter);
    const auto sequence_of = [&](std::uint64_t offset) {
        return flyring::detail::load_acquire(flyring::detail::word_at<std::int64_t>(page.data(), offset));
    };
    if (options.ping) {
        Result result = measure(options, [&](std::int64_t sequence, std::int64_t send_time, auto clock) {
            const std::int64_t payload[3] = {send_time, sequence, sequence * 10};
            write_line(page.data() + ping_line, sequence, payload);
            wait_until(waiter, page, false, [&] { return sequence_of(pong_line) == sequence; });
            const std::int64_t arrived = clock();
            if (std::memcmp(page.data() + pong_line + 8, payload, sizeof payload) != 0) {
                throw std::runtime_error("wrong answer: payload of sequence " + std::to_string(sequence));
            }
            return arrived;
        });
        write_line(page.data() + ping_line, -1, {});
        return result;
    }
    for (std::int64_t expected = 1;; ++expected) {
        std::int64_t sequence = 0;
        wait_until(waiter, page, expected == 1, [&] {
            sequence = sequence_of(ping_line);
            return sequence >= expected || sequence < 0;
        });
        if (sequence < 0) return {};
        std::int64_t payload[3];
        std::memcpy(payload, page.data() + ping_line + 8, sizeof payload);
        write_line(page.data() + pong_line, sequence, payload);
    }
}

}  // namespace demo
