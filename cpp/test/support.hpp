// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <flyring/flyring.hpp>
#include <flyring/table.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace support {

/// Gives each test its own folder in shared memory, to which FLYRING_DIR points.
class ChannelTest : public ::testing::Test {
  protected:
    ChannelTest();
    ~ChannelTest() override;

    const std::string& folder() const { return folder_; }
    std::string file(const std::string& name) const { return folder_ + "/" + name + ".ring"; }

  private:
    std::string folder_;
};

flyring::Options broadcast(std::uint32_t publishers = 1, std::uint32_t subscribers = 1, std::uint32_t capacity = 4096,
                           std::uint32_t alignment = 64);
flyring::Options inbox(std::uint32_t publishers = 1, std::uint32_t subscribers = 1, std::uint32_t capacity = 4096,
                       std::uint32_t alignment = 64);

flyring::Options queue(std::uint32_t producers = 1, std::uint32_t workers = 1, std::uint32_t capacity = 4096,
                       std::uint32_t alignment = 64);

/// The file of a channel, mapped, for direct changes.
flyring::detail::ChannelFile raw(const std::string& name);

/// Publishes until the publisher is held back. Returns how many messages were published.
int fill(flyring::Publisher& publisher);
/// Publishes "x" until the end of what is published reaches `position`.
void fill_up_to(flyring::Publisher& publisher, std::int64_t position);

/// Sleeps for longer than the intervals at which a publisher tests locks, and at which any object checks for a
/// successor.
void sleep_past_a_look();

/// Consumes all available messages. Returns their texts, each followed by a space.
template <typename Subscriber>
std::string drain(Subscriber& subscriber);

/// Finishes all available jobs. Returns their texts, each followed by a space. `limit`: that of each poll.
std::string work_off(flyring::Worker& worker, int limit = 1);

/// Message `number` of a stream of messages that can be checked: 1 to `most` words. The first word is the number; the
/// others follow from it.
std::vector<std::uint64_t> numbered(std::uint64_t number, std::uint64_t most);
flyring::Bytes bytes(const std::vector<std::uint64_t>& words);
/// The number of such a message; empty if the message is not intact.
std::optional<std::uint64_t> number_of(const flyring::Message& message, std::uint64_t most);

std::string text(const flyring::Message& message);
std::string text(const flyring::Job& job);
flyring::Bytes bytes(std::string_view text);

std::vector<std::byte> read_file(const std::string& path);
void write_file(const std::string& path, const std::vector<std::byte>& content);

/// Overwrites one word of a file in place, as a hostile or broken process would.
template <typename T>
void poke(const std::string& path, std::uint64_t offset, T value) {
    flyring::detail::Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::pwrite(fd.get(), &value, sizeof value, static_cast<off_t>(offset)), static_cast<ssize_t>(sizeof value));
}

template <typename T>
T peek(const std::string& path, std::uint64_t offset) {
    flyring::detail::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    T value{};
    EXPECT_EQ(::pread(fd.get(), &value, sizeof value, static_cast<off_t>(offset)), static_cast<ssize_t>(sizeof value));
    return value;
}

/// A forked process that runs `body` and exits with 0 if body returns true. `body` calls its argument, `ready`, to tell
/// the parent through a pipe.
class Child {
  public:
    using Ready = std::function<void()>;
    explicit Child(const std::function<bool(const Ready&)>& body);
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child();

    void wait_until_ready();
    /// Sends SIGKILL and waits for the end.
    void kill();
    void signal(int number) const;
    /// Waits for the end. Returns the exit status, or 128 + the signal.
    int wait();
    pid_t pid() const { return pid_; }

  private:
    pid_t pid_ = -1;
    int pipe_ = -1;
};

/// Waits for a child that was forked without Child. Returns waitpid's status, or -1 if there is no child.
int status_of(pid_t child);

/// Makes this system call fail in this process from now on: only for children.
void refuse(long call, int error);

/// Whether the byte at `offset` of the file is locked.
bool is_locked(const std::string& path, std::uint64_t offset);

/// Calls first() and second() in two threads that start at the same time.
void race(const std::function<void()>& first, const std::function<void()>& second);

template <typename Subscriber>
std::string drain(Subscriber& subscriber) {
    std::string seen;
    while (subscriber.poll([&](const flyring::Message& message) { seen += text(message) + " "; }) > 0) {
    }
    return seen;
}

/// The code of the FlyringError that `action` throws; "none" if it throws nothing.
std::string code_of(const std::function<void()>& action);

/// One table of layout.toml. Strings are without their quotes.
struct Table {
    std::string name;
    std::map<std::string, std::string> values;

    std::int64_t number(const std::string& key) const { return std::stoll(values.at(key)); }
};

/// The tables of spec/layout.toml, in their order.
std::vector<Table> read_layout();

/// The path of the project's folder spec/.
std::string spec_folder();

}  // namespace support
