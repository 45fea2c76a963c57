// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "file.hpp"
#include "plan.hpp"

namespace steps {

/// What a message must be.
struct Expected {
    std::size_t length;
    std::int32_t type;
};
using Streams = std::array<std::vector<Expected>, 2>;  // by ring, then by sequence

Counts counts(const Streams& streams);

/// A file's bytes, and what was published in it and consumed of it.
struct Situation {
    Bytes bytes;
    Streams streams;
    Counts keeper{};  // messages that "keeper" has consumed, by ring
    Counts reader{};  // the same of "reader"
    Counts live{};
};

/// A subscriber that verifies every message it gets.
class Party {
  public:
    Party(flyring::Subscriber subscriber, std::string name, Counts next);

    /// Takes all there is. Throws at the first message that is not the next one, or that is not whole.
    void poll(const Streams& streams);
    /// Throws unless it has everything.
    void require_all(const Streams& streams) const;
    flyring::Subscriber& subscriber() { return subscriber_; }
    /// The next message of each ring is `next`, or any from `earliest` on.
    void set_next(Counts next, Counts earliest) {
        next_ = next;
        earliest_ = earliest;
    }

  private:
    flyring::Subscriber subscriber_;
    std::string name_;
    Counts next_;
    Counts earliest_{-1, -1};
};

/// A channel in the tracer, with the subscriber that stays alive while the child is killed.
struct Stage {
    /// Writes the file again from its first bytes.
    Stage(const std::string& path, const Situation& situation);

    std::string path;
    flyring::Channel channel;
    Party live;
};

/// What the file that a killed child left must be like.
struct Verdict {
    Streams streams;  // all that is committed
    Counts keeper;
    Counts reader;
    Counts reader_done{};               // messages that the child's handler has seen
    std::vector<std::string> given_up;  // kept slots that the child gives up, or takes away
    bool joined = false;                // it was taken away before the child began to join
    std::string fourth;                 // the name of one more kept slot, if the child makes one
};

/// After the kill, through the public interface, as a second process: everything of `verdict` is delivered once and
/// whole, the live processes go on, every slot can be taken again. `contender`: the publisher that got ring 0 in the
/// meantime. Throws what is wrong. `before`: the file's bytes after the kill.
void check(Stage& stage, Verdict verdict, const Bytes& before, std::unique_ptr<flyring::Publisher> contender = nullptr);

}  // namespace steps
