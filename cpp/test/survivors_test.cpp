// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <iostream>
#include <new>
#include <thread>

#include "allocations.hpp"
#include "faults.hpp"
#include "support.hpp"

// Runs each operation with each of its system calls and allocations failing once. Checks what another process sees
// afterwards, and whether the object still works. The test counts these points while an operation runs; there is no
// list of them.

namespace {

using flyring::Channel;
using flyring::Message;
using support::broadcast;
using support::bytes;
using support::drain;

class Survivors : public support::ChannelTest {};

int entries(const std::string& folder) {
    DIR* const stream = ::opendir(folder.c_str());
    int count = 0;
    while (stream != nullptr && ::readdir(stream) != nullptr) ++count;
    ::closedir(stream);
    return count;
}

/// Mappings of files in `folder`.
int mappings(const std::string& folder) {
    std::ifstream stream("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(stream, line);) count += line.find(folder) != std::string::npos ? 1 : 0;
    return count;
}

/// Whether any description has a lock on any byte of the file.
bool has_lock(const std::string& path) {
    const flyring::detail::Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    struct flock all{};
    all.l_type = F_WRLCK;
    all.l_whence = SEEK_SET;
    return ::fcntl(fd.get(), F_OFD_GETLK, &all) != 0 || all.l_type != F_UNLCK;
}

/// The objects that an operation uses.
struct Stage {
    Channel channel = Channel::open("c");
    std::optional<flyring::Publisher> publisher;
    std::optional<flyring::Subscriber> subscriber;
    std::optional<flyring::LossySubscriber> lossy;
    std::optional<flyring::Counter> counter;
};

struct Operation {
    const char* name;
    /// Runs before the operation, without faults.
    std::function<void(Stage&)> prepare;
    std::function<void(Stage&)> act;
};

void die_as_a_subscriber() {
    support::Child child([](const auto&) -> bool {
        Channel own = Channel::open("c");
        const flyring::Subscriber subscriber = own.subscriber();
        ::_exit(0);
    });
    child.wait();
}

void hold_back(Stage& stage) {
    die_as_a_subscriber();
    stage.publisher = stage.channel.publisher();
    support::fill(*stage.publisher);
    support::sleep_past_a_look();
}

void both(Stage& stage) {
    stage.subscriber = stage.channel.subscriber();
    stage.publisher = stage.channel.publisher();
    for (int i = 0; i < 3; ++i) stage.publisher->offer(bytes("x"));
}

void kept(Stage& stage) {
    stage.subscriber = stage.channel.subscriber("kept", true);
}

const Operation operations[] = {
    {"open", [](Stage&) {}, [](Stage&) { Channel::open("c"); }},
    {"open read-only", [](Stage&) {},
     [](Stage&) {
         flyring::OpenOptions reading;
         reading.read_only = true;
         Channel::open("c", reading).lossy_subscriber(flyring::Start::oldest).take();
     }},
    {"create", [](Stage&) {}, [](Stage&) { Channel::create("new", broadcast()); }},
    {"open_or_create", [](Stage&) {}, [](Stage&) { Channel::open_or_create("new", broadcast()); }},
    {"replace", [](Stage&) {}, [](Stage&) { Channel::replace("new", broadcast()); }},
    {"unlink", [](Stage&) { Channel::create("new", broadcast()); }, [](Stage&) { Channel::unlink("new"); }},
    {"publisher", [](Stage&) {}, [](Stage& stage) { stage.publisher = stage.channel.publisher("p"); }},
    {"no free publisher", [](Stage& stage) { stage.publisher = stage.channel.publisher("p"); },
     [](Stage& stage) {
         try {
             stage.channel.publisher("p");
         } catch (const flyring::NoFreeSlot&) {
         }
     }},
    {"subscriber", [](Stage&) {},
     [](Stage& stage) { stage.subscriber = stage.channel.subscriber("a-long-name-of-it"); }},
    {"kept subscriber", [](Stage&) {}, kept},
    {"resume",
     [](Stage& stage) {
         kept(stage);
         stage.subscriber.reset();
     },
     kept},
    {"lossy subscriber", both,
     [](Stage& stage) { stage.lossy = stage.channel.lossy_subscriber(flyring::Start::oldest); }},
    {"offer", both, [](Stage& stage) { stage.publisher->offer(bytes("y")); }},
    {"offer and retire", hold_back, [](Stage& stage) { stage.publisher->offer(bytes("y")); }},
    {"offer and evict",
     [](Stage& stage) {
         stage.subscriber = stage.channel.subscriber();
         stage.publisher = stage.channel.publisher("", 4096);
         for (int i = 0; i < 62; ++i) stage.publisher->offer(bytes("x"));
     },
     [](Stage& stage) { stage.publisher->offer(bytes("y")); }},
    {"offer in a replaced channel",
     [](Stage& stage) {
         Channel::create("other", broadcast());
         stage.channel = Channel::open("other");
         stage.subscriber = stage.channel.subscriber();
         stage.publisher = stage.channel.publisher();
         support::fill(*stage.publisher);
         Channel::replace("other", broadcast());
         support::sleep_past_a_look();
     },
     [](Stage& stage) {
         try {
             stage.publisher->offer(bytes("y"));
         } catch (const flyring::ChannelReplaced&) {
         }
     }},
    {"offer_batch", both,
     [](Stage& stage) { stage.publisher->offer_batch(std::vector<flyring::Bytes>(3, bytes("y"))); }},
    {"claim", both, [](Stage& stage) { stage.publisher->claim(3).commit(); }},
    {"held_by", both, [](Stage& stage) { stage.publisher->held_by(); }},
    {"poll", both, [](Stage& stage) { stage.subscriber->poll([](const Message&) {}); }},
    {"take", both, [](Stage& stage) { stage.subscriber->take(); }},
    {"take of a lost slot",
     [](Stage& stage) {
         both(stage);
         stage.channel.evict(0);
     },
     [](Stage& stage) {
         try {
             stage.subscriber->take();
         } catch (const flyring::SlotLost&) {
         }
     }},
    {"wait for a message", both,
     [](Stage& stage) {
         drain(*stage.subscriber);
         stage.subscriber->take(std::chrono::milliseconds(2));
     }},
    {"wait for a message without a slot", [](Stage& stage) { stage.lossy = stage.channel.lossy_subscriber(); },
     [](Stage& stage) { stage.lossy->take(std::chrono::milliseconds(2)); }},
    {"wait for room",
     [](Stage& stage) {
         both(stage);
         support::fill(*stage.publisher);
     },
     [](Stage& stage) {
         try {
             stage.publisher->send(bytes("y"), std::chrono::milliseconds(2));
         } catch (const flyring::BackPressured&) {
         }
     }},
    {"flush", both,
     [](Stage& stage) {
         try {
             stage.publisher->flush(std::chrono::milliseconds(2));
         } catch (const flyring::TimedOut&) {
         }
     }},
    {"wait of a wait set", both,
     [](Stage& stage) {
         drain(*stage.subscriber);
         flyring::WaitSet set;
         set.add(*stage.subscriber);
         set.wait(std::chrono::milliseconds(2));
     }},
    {"lossy poll",
     [](Stage& stage) {
         both(stage);
         stage.lossy = stage.channel.lossy_subscriber(flyring::Start::oldest);
     },
     [](Stage& stage) { stage.lossy->poll([](const Message&) {}); }},
    {"forget", kept, [](Stage& stage) { stage.subscriber->forget(); }},
    {"close of a publisher", both, [](Stage& stage) { stage.publisher->close(); }},
    {"close of a subscriber", both, [](Stage& stage) { stage.subscriber->close(); }},
    {"close of a lost subscriber",
     [](Stage& stage) {
         both(stage);
         stage.channel.evict(0);
     },
     [](Stage& stage) { stage.subscriber->close(); }},
    {"close of a channel", both, [](Stage& stage) { stage.channel.close(); }},
    {"evict", both, [](Stage& stage) { stage.channel.evict(0); }},
    {"allocate", [](Stage&) {}, [](Stage& stage) { stage.counter = stage.channel.counters().allocate("n"); }},
    {"find", [](Stage& stage) { stage.channel.counters().allocate("n"); },
     [](Stage& stage) { stage.channel.counters().find("n"); }},
    {"free", [](Stage& stage) { stage.counter = stage.channel.counters().allocate("n"); },
     [](Stage& stage) { stage.counter->free(); }},
};

/// What is wrong with the channel for another process; empty if nothing is.
std::string trouble_of_another_process() {
    std::string trouble;
    try {
        Channel channel = Channel::open("c");
        if (has_lock(channel.path())) trouble += " a lock is left";
        flyring::Subscriber kept = channel.subscriber("kept", true);  // resumes if the slot was kept
        kept.forget();
        std::optional<flyring::Subscriber> subscriber = channel.subscriber();
        flyring::Publisher publisher = channel.publisher();
        for (int i = 0; i < 100; ++i) {
            const bool went = publisher.offer(bytes("z")) > 0;
            if (!went) std::this_thread::sleep_for(std::chrono::microseconds(1100));  // a dead gate may be left
            if (!went && publisher.offer(bytes("z")) < 0) return trouble + " a publisher is held back";
            if (drain(*subscriber) != "z ") return trouble + " a subscriber misses a message";
        }
        channel.counters().allocate("other").free();
    } catch (const flyring::FlyringError& error) {
        trouble += std::string(" another process: ") + error.what();
    }
    return trouble;
}

/// Runs the operation once, with the fault of make_fault() active. Returns what is wrong afterwards for another process
/// or for its own; empty if nothing is.
template <typename MakeFault>
std::string trouble_of(const Operation& operation, const std::string& folder, MakeFault&& make_fault) {
    for (const char* name : {"c", "new", "other"}) ::unlink((folder + "/" + name + ".ring").c_str());
    Channel::create("c", broadcast(1, 1)).close();
    const int descriptors = entries("/proc/self/fd");
    const int mapped = mappings(folder);
    std::string trouble;
    {
        Stage stage;
        operation.prepare(stage);
        const int files = entries(folder);
        bool failed = false;
        try {
            const auto fault = make_fault();
            operation.act(stage);
        } catch (const flyring::FlyringError&) {
            failed = true;
        } catch (const std::bad_alloc&) {
            failed = true;
        }
        const std::string name = operation.name;
        if (failed && name != "unlink" && entries(folder) != files) trouble += " a file is left";
        // Whatever failed, the object throws that it is closed or lost, or works.
        try {
            if (stage.publisher) stage.publisher->offer(bytes("w"));
            if (stage.subscriber) stage.subscriber->poll([](const Message&) {});
            if (stage.lossy) stage.lossy->poll([](const Message&) {});
            if (failed && name != "create" && name != "open_or_create" && name != "unlink") operation.act(stage);
        } catch (const flyring::Closed&) {
        } catch (const flyring::SlotLost&) {
        } catch (const flyring::ChannelReplaced&) {
        } catch (const flyring::FlyringError& error) {
            trouble += std::string(" afterwards: ") + error.what();
        }
    }
    if (entries("/proc/self/fd") != descriptors) trouble += " descriptors";
    if (mappings(folder) != mapped) trouble += " mappings";
    return trouble + trouble_of_another_process();
}

TEST_F(Survivors, of_a_system_call_that_fails_leave_everything_right) {
    int points = 0;
    for (const Operation& operation : operations) {
        for (const int error : {EINTR, ENOMEM, EMFILE, EIO}) {
            for (int at = 0;; ++at) {
                int calls = 0;
                std::string failed;
                const std::string trouble = trouble_of(operation, folder(), [&] {
                    return std::make_unique<faults::Hook>([&](const faults::Call& call) {
                        // lseek for the current offset of an open file cannot fail.
                        if (std::string_view(call.name) == "lseek" && call.command == SEEK_CUR) return 0;
                        if (calls++ != at) return 0;
                        failed = call.name;
                        return error;
                    });
                });
                EXPECT_EQ(trouble, "") << operation.name << ": errno " << error << " of call " << at << ", " << failed;
                if (calls <= at) break;
                ++points;
            }
        }
    }
    std::cout << "system calls that failed: " << points << '\n';
    EXPECT_GT(points, 500);
}

TEST_F(Survivors, of_an_allocation_that_fails_leave_everything_right) {
    if (!support::counts_allocations()) GTEST_SKIP() << "a sanitizer replaces malloc";
    int points = 0;
    for (const Operation& operation : operations) {
        for (int at = 0;; ++at) {
            bool came = false;
            const std::string trouble =
                trouble_of(operation, folder(), [&] { return std::make_unique<support::FailingAllocation>(at, came); });
            EXPECT_EQ(trouble, "") << operation.name << ": allocation " << at;
            if (!came) break;
            ++points;
        }
    }
    std::cout << "allocations that failed: " << points << '\n';
    EXPECT_GT(points, 100);
}

}  // namespace
