// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstring>
#include <flyring/flyring.hpp>
#include <optional>
#include <stdexcept>
#include <vector>

#include "contenders.hpp"
#include "flyring.hpp"
#include "harness.hpp"
#include "support.hpp"

namespace bench {
namespace {

/// A service with its server and one client. Round trips: a call that waits for its answer. Streams: up to `--option
/// outstanding=N` calls are under way, and every answer is compared. The handler answers with the request's bytes.
class FlyringService {
  public:
    explicit FlyringService(const Setup& setup)
        : size_(setup.size),
          block_(setup.block),
          under_way_(static_cast<std::uint32_t>(setup.option("outstanding", std::size_t{16}))),
          channel_(Flyring::open(setup)),
          message_(setup.size) {
        // A side that spins never sleeps: its waits spin as long as they last.
        const std::chrono::nanoseconds spin = block_ ? std::chrono::nanoseconds(0) : std::chrono::hours(1);
        if (setup.client()) {
            client_.emplace(channel_.client());
            client_->set_spin(spin);
            sent_.resize(under_way_ * size_);
        } else {
            server_.emplace(channel_.server());
            server_->set_spin(spin);
        }
        one_way_ = setup.one_way();
    }

    void connect() {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        if (server_) return;  // the handler has answered
        if (!one_way_) {
            write(message_.data());
            client_->call_into(answer_, {message_.data(), size_}, 1);
            return;
        }
        if (under_way_ == 1) {
            write(message_.data());
            client_->call_into(answer_, {message_.data(), size_}, 1);
            return compare(answer_, message_.data());
        }
        while (client_->outstanding() == under_way_) client_->poll(block_ ? flyring::forever : no_time);
        std::byte* const kept = &sent_[number_ % under_way_ * size_];  // answers come in the order of requests
        ++number_;
        write(kept);
        client_->start({kept, size_}, 1, flyring::forever,
                       [kept, this](flyring::Call& call) { compare(call.result(), kept); });
    }

    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        if (client_) return read(answer_.data());
        server_->poll(
            [&](flyring::Request& request) {
                read(request.data());
                request.reply(request.payload());
            },
            one_way_ ? flyring::layout::DEFAULT_POLL_LIMIT : 1, block_ ? flyring::forever : no_time);
    }

    static std::string version() { return Flyring::version(); }

  private:
    static constexpr std::chrono::nanoseconds no_time = std::chrono::nanoseconds::zero();

    [[gnu::always_inline]] void compare(const flyring::Answer& answer, const std::byte* asked) const {
        if (answer.size() != size_ || std::memcmp(answer.data(), asked, size_) != 0)
            throw std::runtime_error("another call's answer");
    }

    std::size_t size_;
    bool block_;
    bool one_way_ = false;
    std::uint32_t under_way_;
    std::uint64_t number_ = 0;
    flyring::Channel channel_;
    std::vector<std::byte> message_;
    std::vector<std::byte> sent_;
    flyring::Answer answer_;
    std::optional<flyring::Server> server_;
    std::optional<flyring::Client> client_;
};

}  // namespace

void run_flyring_service(const Setup& setup) {
    if (setup.size != 32 || !setup.whole) cannot(setup, "32 bytes, every one written and compared");
    Runner<FlyringService, 32, true>(setup).run();
}

}  // namespace bench
