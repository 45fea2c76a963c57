// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "faults.hpp"
#include "support.hpp"

namespace {

using flyring::Channel;
using support::broadcast;
using support::code_of;
using support::inbox;

constexpr unsigned nobody = 65534;  // the unprivileged user "nobody", and its group

class Create : public support::ChannelTest {};

TEST_F(Create, create_and_open_show_the_same_channel) {
    flyring::Options options = inbox(3, 1, 8192, 8);
    options.schema = "<messageSchema/>";
    options.schema_id = 17;
    options.schema_version = 3;
    Channel made = Channel::create("made", options);
    Channel opened = Channel::open("made");
    EXPECT_EQ(opened.path(), file("made"));
    EXPECT_EQ(opened.id(), made.id());
    EXPECT_EQ(opened.kind(), flyring::Kind::inbox);
    EXPECT_EQ(opened.capacity(), 8192U);
    EXPECT_EQ(opened.publishers(), 3U);
    EXPECT_EQ(opened.subscribers(), 1U);
    EXPECT_EQ(opened.alignment(), 8U);
    EXPECT_EQ(opened.counter_count(), 4U);
    EXPECT_EQ(opened.created_at(), made.created_at());
    EXPECT_EQ(opened.schema(), "<messageSchema/>");
    EXPECT_EQ(opened.schema_id(), 17U);
    EXPECT_EQ(opened.schema_version(), 3U);
    struct stat status{};
    ASSERT_EQ(::stat(made.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
    EXPECT_EQ(static_cast<std::uint64_t>(status.st_size), made.file_length());
}

TEST_F(Create, defaults_are_those_of_the_spec) {
    flyring::Options options;
    EXPECT_EQ(code_of([&] { Channel::create("no-kind", options); }), "invalid-argument");
    options.kind = flyring::Kind::broadcast;
    const Channel channel = Channel::create("defaults", options);
    EXPECT_EQ(channel.capacity(), 1U << 20);
    EXPECT_EQ(channel.publishers(), 4U);
    EXPECT_EQ(channel.subscribers(), 4U);
    EXPECT_EQ(channel.alignment(), 64U);
    EXPECT_EQ(channel.counter_count(), 64U);
    EXPECT_EQ(channel.file_length(), 4259840U);
    options.kind = flyring::Kind::inbox;
    EXPECT_EQ(Channel::create("inbox", options).subscribers(), 1U);
}

TEST_F(Create, bad_options_name_the_argument) {
    const auto argument = [](auto change) -> std::string {
        flyring::Options options = broadcast();
        change(options);
        try {
            Channel::create("bad", options);
        } catch (const flyring::InvalidArgument& error) {
            return error.argument();
        }
        return "none";
    };
    EXPECT_EQ(argument([](auto& options) { options.capacity = 5000; }), "capacity");
    EXPECT_EQ(argument([](auto& options) { options.capacity = 2048; }), "capacity");
    EXPECT_EQ(argument([](auto& options) { options.capacity = 1U << 31; }), "capacity");
    EXPECT_EQ(argument([](auto& options) { options.publishers = 0; }), "publishers");
    EXPECT_EQ(argument([](auto& options) { options.publishers = 1025; }), "publishers");
    EXPECT_EQ(argument([](auto& options) { options.subscribers = 1025; }), "subscribers");
    EXPECT_EQ(argument([](auto& options) { options.alignment = 16; }), "alignment");
    EXPECT_EQ(argument([](auto& options) { options.counters = 65537; }), "counters");
    EXPECT_EQ(argument([](auto& options) { options.schema.resize((1U << 24) + 1); }), "schema");
    EXPECT_EQ(argument([](auto& options) { options.schema_id = 65536; }), "schema_id");
    EXPECT_EQ(argument([](auto& options) { options.mode = 01777; }), "mode");
    EXPECT_EQ(argument([](auto& options) {
                  options.kind = flyring::Kind::inbox;
                  options.subscribers = 0;
              }),
              "subscribers");
    EXPECT_EQ(argument([](auto& options) {
                  options.kind = flyring::Kind::inbox;
                  options.subscribers = 2;
              }),
              "subscribers");
    EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

TEST_F(Create, an_existing_name_is_exists_and_a_missing_one_no_such_channel) {
    Channel::create("there", broadcast());
    EXPECT_EQ(code_of([] { Channel::create("there", broadcast()); }), "exists");
    EXPECT_EQ(code_of([] { Channel::open("gone"); }), "no-such-channel");
    EXPECT_EQ(code_of([] { Channel::unlink("gone"); }), "no-such-channel");
}

TEST_F(Create, open_or_create_names_the_first_field_that_differs) {
    flyring::Options options = broadcast(2, 2);
    options.schema = "a";
    options.schema_version = 3;
    const Channel made = Channel::open_or_create("one", options);
    EXPECT_EQ(Channel::open_or_create("one", options).id(), made.id());
    const auto field = [&](auto change) -> std::string {
        flyring::Options asked = options;
        change(asked);
        try {
            Channel::open_or_create("one", asked);
        } catch (const flyring::ChannelDiffers& error) {
            return error.field() + " " + error.expected() + " " + error.actual();
        }
        return "none";
    };
    EXPECT_EQ(field([](auto& asked) { asked.kind = flyring::Kind::inbox, asked.subscribers = 1; }),
              "kind inbox broadcast");
    EXPECT_EQ(field([](auto& asked) { asked.capacity = 8192; }), "capacity 8192 4096");
    EXPECT_EQ(field([](auto& asked) { asked.publishers = 3, asked.subscribers = 3; }), "publishers 3 2");
    EXPECT_EQ(field([](auto& asked) { asked.subscribers = 3; }), "subscribers 3 2");
    EXPECT_EQ(field([](auto& asked) { asked.alignment = 8; }), "alignment 8 64");
    EXPECT_EQ(field([](auto& asked) { asked.counters = 5; }), "counters 5 4");
    EXPECT_EQ(field([](auto& asked) { asked.schema_id = 5; }), "schema_id 5 0");
    EXPECT_EQ(field([](auto& asked) { asked.schema_version = 5; }), "schema_version 5 3");
    EXPECT_EQ(field([](auto& asked) { asked.schema_version = 2; }), "none");
    EXPECT_EQ(field([](auto& asked) { asked.schema = "b"; }), "none");  // the text may differ
}

TEST_F(Create, replace_gives_the_name_to_a_new_channel_and_the_old_one_goes_on) {
    Channel old = Channel::create("name", broadcast());
    flyring::Subscriber subscriber = old.subscriber();
    flyring::Publisher publisher = old.publisher();
    const Channel fresh = Channel::replace("name", broadcast());
    EXPECT_NE(fresh.id(), old.id());
    EXPECT_EQ(Channel::open("name").id(), fresh.id());
    EXPECT_EQ(code_of([&] { publisher.offer(support::bytes("x")); }), "replaced");  // once; then it works as before
    publisher.offer(support::bytes("still here"));
    EXPECT_EQ(support::text(*subscriber.take()), "still here");
}

TEST_F(Create, an_unlinked_channel_still_gives_slots) {
    Channel channel = Channel::create("name", broadcast());
    Channel::unlink("name");
    flyring::Subscriber subscriber = channel.subscriber();
    channel.publisher().offer(support::bytes("x"));
    EXPECT_TRUE(subscriber.take().has_value());
}

TEST_F(Create, twenty_creates_and_unlinks_leave_no_file_behind) {
    for (int i = 0; i < 20; ++i) {
        Channel channel = i % 2 == 0 ? Channel::create("again", broadcast()) : Channel::replace("again", broadcast());
        channel.publisher().offer(support::bytes("x"));
        Channel::unlink("again");
    }
    EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

TEST_F(Create, a_channel_being_created_is_there_whole_or_not_at_all) {
    std::atomic<int> round{0};
    std::atomic<int> attached{0};
    std::atomic<int> missing{0};
    std::string surprise;
    constexpr int rounds = 1000;
    std::thread opener([&] {
        for (int i = 1; i <= rounds; ++i) {
            while (round.load() < i) flyring::detail::cpu_relax();
            for (bool done = false; !done && surprise.empty();) {
                const std::string code = code_of([&] {
                    done = Channel::open("race").capacity() == 4096;
                    if (!done) throw flyring::CorruptHeader("race", "capacity", "half a header");
                });
                if (code == "no-such-channel") {
                    ++missing;
                } else if (code != "none") {
                    surprise = code;
                }
            }
            ++attached;
            round.store(-i);
            while (round.load() == -i) flyring::detail::cpu_relax();
        }
    });
    for (int i = 1; i <= rounds; ++i) {
        round.store(i);
        if (i % 3 == 0) std::this_thread::yield();
        Channel channel = Channel::create("race", broadcast());
        while (round.load() != -i) std::this_thread::yield();
        Channel::unlink("race");
        if (i == rounds) round.store(rounds + 1);
    }
    opener.join();
    EXPECT_EQ(surprise, "");
    EXPECT_EQ(attached.load(), rounds);
    EXPECT_GT(missing.load(), 0);
}

TEST_F(Create, of_two_that_open_or_create_at_once_both_get_the_same_channel) {
    for (int i = 0; i < 100; ++i) {
        flyring::Uuid ids[2];
        std::thread other([&] { ids[0] = Channel::open_or_create("both", broadcast()).id(); });
        ids[1] = Channel::open_or_create("both", broadcast()).id();
        other.join();
        EXPECT_EQ(ids[0], ids[1]);
        Channel::unlink("both");
    }
}

TEST_F(Create, a_full_file_system_is_no_space_with_the_bytes_needed_and_free) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can mount a tmpfs of 1 MiB";
    constexpr int not_allowed = 77;
    support::Child child([&](const auto&) {
        const std::string small = folder() + "/small";
        std::filesystem::create_directory(small);
        if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=1m") != 0) {
            if (errno == EPERM || errno == EACCES) ::_exit(not_allowed);
            std::perror("mount");
            return false;
        }
        ::setenv("FLYRING_DIR", small.c_str(), 1);
        try {
            Channel::create("big", broadcast(1, 1, 1 << 20));
        } catch (const flyring::NoSpace& error) {
            flyring::Options fits = broadcast();
            Channel::create("fits", fits);
            return error.needed() > (1U << 20) && error.free() <= (1U << 20) && error.free() > (1U << 19) &&
                   std::distance(std::filesystem::directory_iterator(small), {}) == 1;
        }
        return false;
    });
    const int status = child.wait();
    if (status == not_allowed) GTEST_SKIP() << "root may not mount a tmpfs here (a container)";
    EXPECT_EQ(status, 0);
}

TEST_F(Create, a_file_size_limit_is_no_space_and_leaves_nothing_behind) {
    support::Child child([&](const auto&) {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{65536, 65536};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        return code_of([] { Channel::create("big", broadcast(1, 1, 1 << 20)); }) == "no-space" &&
               std::filesystem::is_empty(folder());
    });
    EXPECT_EQ(child.wait(), 0);
}

TEST_F(Create, another_user_is_denied_access) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    Channel::create("mine", broadcast());
    std::filesystem::permissions(folder(), std::filesystem::perms(0711));
    support::Child child([&](const auto&) {
        if (::setgid(nobody) != 0 || ::setuid(nobody) != 0) return false;
        return code_of([] { Channel::open("mine"); }) == "access-denied" &&
               code_of([] { Channel::create("other", broadcast()); }) == "access-denied" &&
               code_of([] { Channel::unlink("mine"); }) == "access-denied";
    });
    EXPECT_EQ(child.wait(), 0);
}

TEST_F(Create, a_default_folder_that_others_may_write_to_or_own_is_refused) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become a user whose default folder is free";
    constexpr unsigned user = 54321;
    const std::string place = "/dev/shm/flyring-" + std::to_string(user);
    ASSERT_FALSE(std::filesystem::exists(place));
    support::Child child([&](const auto&) {
        ::unsetenv("FLYRING_DIR");
        if (::mkdir(place.c_str(), 0755) != 0) return false;
        const auto denied = [] { return code_of([] { Channel::create("x", broadcast()); }) == "access-denied"; };
        if (::seteuid(user) != 0) return false;
        const bool foreign = denied();
        if (::seteuid(0) != 0 || ::chown(place.c_str(), user, user) != 0 || ::seteuid(user) != 0) return false;
        ::chmod(place.c_str(), 0775);
        const bool writable = denied() && code_of([] { Channel::open("x"); }) == "access-denied";
        ::rmdir(place.c_str());
        if (::seteuid(0) != 0) return false;
        std::filesystem::remove_all(place);
        if (::symlink("/dev/shm", place.c_str()) != 0 || ::seteuid(user) != 0) return false;
        const bool link = denied();
        if (::seteuid(0) != 0) return false;
        std::filesystem::remove(place);
        if (::seteuid(user) != 0) return false;
        const bool works = code_of([] { Channel::create("x", broadcast()); }) == "none";
        struct stat status{};
        ::stat(place.c_str(), &status);
        if (::seteuid(0) != 0) return false;
        return foreign && writable && link && works && (status.st_mode & 07777) == 0700;
    });
    EXPECT_EQ(child.wait(), 0);
    std::filesystem::remove_all(place);
}

TEST_F(Create, a_limit_on_the_size_of_files_is_no_space) {
    support::Child child([](const auto&) {
        const struct rlimit limit{8192, 8192};
        if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
        try {
            Channel::create("c", broadcast());
        } catch (const flyring::NoSpace& error) {
            return error.free() == 8192 && error.needed() > 8192;
        }
        return false;
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_FALSE(std::filesystem::exists(file("c")));
}

TEST_F(Create, a_path_is_kept_as_an_absolute_one) {
    const std::string before = std::filesystem::current_path();
    std::filesystem::current_path(folder());
    Channel channel = Channel::create("./x.ring", broadcast());
    std::filesystem::current_path(before);
    EXPECT_EQ(channel.path(), folder() + "/./x.ring");
    EXPECT_EQ(channel.publisher().ring(), 0U);
    Channel::unlink(channel.path());
}

TEST_F(Create, btrfs_is_refused_by_name) {
    const auto reason_of = [](const auto& action) {
        try {
            action();
        } catch (const flyring::UnsuitableFileSystem& error) {
            return error.reason().substr(0, error.reason().find(':'));
        }
        return std::string("none");
    };
    EXPECT_EQ(reason_of([] { Channel::create("c", broadcast()); }), "none");
    const faults::FileSystem place(0x9123683e);
    EXPECT_EQ(reason_of([] { Channel::open("c"); }), "btrfs");
    EXPECT_EQ(reason_of([] { Channel::create("d", broadcast()); }), "btrfs");
    EXPECT_FALSE(std::filesystem::exists(file("d")));
    flyring::Options any = broadcast();
    any.any_file_system = true;
    EXPECT_EQ(reason_of([&] { Channel::create("d", any); }), "none");
}

TEST_F(Create, on_overlay_a_file_is_not_opened_for_reading_alone) {
    const faults::FileSystem place(0x794c7630);
    const Channel channel = Channel::create("c", broadcast());
    flyring::OpenOptions reading;
    reading.read_only = true;
    EXPECT_EQ(code_of([&] { Channel::open("c", reading); }), "file-system");
    EXPECT_EQ(code_of([&] { Channel::open("c"); }), "none");
    reading.any_file_system = true;
    EXPECT_EQ(code_of([&] { Channel::open("c", reading); }), "none");
}

TEST_F(Create, a_relative_folder_is_made_absolute) {
    support::Child child([&](const auto&) {
        if (::chdir(folder().c_str()) != 0) return false;
        ::setenv("FLYRING_DIR", "relative", 1);
        const std::string path = file("relative/c");
        return Channel::create("c", broadcast()).path() == path && std::filesystem::exists(path);
    });
    EXPECT_EQ(child.wait(), 0);
}

TEST_F(Create, an_unknown_file_system_is_refused_unless_overridden) {
    // proc is not on the list. No file can be created on it, so the test calls the check itself.
    constexpr auto write = flyring::detail::Purpose::write;
    const flyring::detail::Fd proc(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(code_of([&] { flyring::detail::check_file_system(proc, "x", false, write); }), "file-system");
    EXPECT_EQ(code_of([&] { flyring::detail::check_file_system(proc, "x", true, write); }), "none");
}

}  // namespace
