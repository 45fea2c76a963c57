// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "check.hpp"

namespace steps {

/// What the file holds when the child starts.
enum class Base {
    plain,    // a lap and a half; two kept readers, "keeper" and "reader", a few messages behind
    wrapped,  // the same, and padding, a long message and an owner record are among what they have not read
    dead,     // the same as plain, and a subscriber that was killed holds ring 0 back most
};

/// One thing that a child does between its marks, and what is committed by it.
struct Scenario {
    std::string name;
    std::string operation;
    /// Lengths of the messages that it publishes, bytes. They come together or not at all.
    std::vector<std::size_t> lengths;
    /// False: it does not get as far as committing them.
    bool commits = true;
    /// It writes into ring 0.
    bool publishes = false;
    /// Kept slots that are not kept, or not where they were, afterwards.
    std::vector<std::string> gives_up{};
    std::uint32_t alignment = 64;
    Base base = Base::plain;
    /// Not empty: the state of this scenario's file to begin with instead, and which.
    std::string base_of;
    enum class At { first_change, before_commit, commit, after_commit } base_at = At::first_change;
    /// Another process tries to get the slot at the same time.
    bool contested = false;
    bool python = false;
};

const std::vector<Scenario>& scenarios();

/// Makes the base's file. What is in it depends on nothing but `base` and `alignment`. `child`: the C++ child.
Situation make_base(const std::string& path, Base base, std::uint32_t alignment, const std::string& child);

/// A mistake planted in the headers that one more child is built with (CMakeLists.txt), and where it must be seen.
struct Fault {
    std::string name;
    std::string scenario;
};

const std::vector<Fault>& faults();

}  // namespace steps
