// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <optional>
#include <vector>

#include "child.hpp"
#include "journal_plan.hpp"

// Operations of a journal's writer and consumers (spec/journal.md), those of spec/golden/journal_files.py.

namespace steps {

namespace {

using flyring::Bytes;
using flyring::Journal;
using flyring::JournalMessage;
using flyring::JournalWriter;

/// A journal whose writer's slot the child holds.
struct Writing {
    explicit Writing(const std::string& path)
        : journal(fixed_journal(child_pid).open(path)), writer(journal.writer("feed", false)), path_(path) {}

    std::int64_t segment_size() const { return static_cast<std::int64_t>(journal.segment_size()); }
    void append(std::size_t length, std::int64_t seed = 9) {
        const std::string value = journal_value(seed, length);
        mark();
        writer.append(value, 2);
        mark();
    }
    /// The files as a helper has them.
    flyring::detail::JournalFile raw() const {
        return flyring::detail::open_journal(path_, {}, fixed_journal(child_pid).environment);
    }

    Journal journal;
    JournalWriter writer;

  private:
    std::string path_;
};

/// Three segments, all of the first two consumed but for the newest message.
void consume_most(const std::string& path, Journal& journal) {
    Writing held(path);
    for (int i = 0; i < 2; ++i) {
        fill_near_end(held.writer, held.segment_size());
        held.writer.append(std::string(300, '\0'), 1);
    }
    held.writer.sync();
    for (const char* name : {"orders", "audit"}) {
        auto consumer = journal.consumer(name);
        while (consumer.size() > 1) consumer.poll([](const JournalMessage&) {}, 1);
    }
}

}  // namespace

TableOperations journaling() {
    TableOperations all;
    all["journal-append"] = [](const std::string& path) { Writing(path).append(20); };
    all["journal-append-long"] = [](const std::string& path) { Writing(path).append(300); };
    all["journal-append-empty"] = [](const std::string& path) { Writing(path).append(0); };
    all["journal-append-check"] = [](const std::string& path) {
        Writing held(path);
        fill_journal(held.writer, held.segment_size(), 65536);
        held.append(300);
    };
    all["journal-append-roll"] = [](const std::string& path) {
        Writing held(path);
        fill_near_end(held.writer, held.segment_size());
        held.append(300);
    };
    all["journal-append-roll-ready"] = [](const std::string& path) {
        Writing held(path);
        fill_near_end(held.writer, held.segment_size());
        flyring::detail::prepare_segment(held.raw(), held.segment_size());
        held.append(300);
    };
    all["journal-append-roll-found"] = [](const std::string& path) {
        Writing held(path);
        fill_near_end(held.writer, held.segment_size());
        const auto raw = held.raw();
        flyring::detail::prepare_segment(raw, held.segment_size());
        flyring::detail::store_release(raw.ready(), held.segment_size());
        held.append(300);
    };
    all["journal-append-wake"] = [](const std::string& path) {
        Writing held(path);
        *held.raw().data().asleep = 1;
        held.append(20);
    };
    all["journal-prepare"] = [](const std::string& path) {
        Writing held(path);
        const auto raw = held.raw();
        mark();
        flyring::detail::prepare_segment(raw, held.segment_size());
        mark();
    };
    all["journal-batch"] = [](const std::string& path) {
        Writing held(path);
        const std::string one = journal_value(9), two = journal_value(10, 100);
        const Bytes messages[] = {flyring::as_bytes(one), flyring::as_bytes(two), Bytes()};
        mark();
        held.writer.append_many(messages, 2);
        mark();
    };
    all["journal-claim"] = [](const std::string& path) {
        Writing held(path);
        const std::string value = journal_value(12, 200);
        mark();
        flyring::JournalClaim claim = held.writer.claim(value.size(), 2);
        std::memcpy(claim.data(), value.data(), value.size());
        claim.commit();
        mark();
    };
    all["journal-abort"] = [](const std::string& path) {
        Writing held(path);
        mark();
        held.writer.claim(200, 2).abort();
        mark();
    };
    all["journal-sync"] = [](const std::string& path) {
        Writing held(path);
        mark();
        held.writer.sync();
        mark();
    };
    all["journal-push"] = [](const std::string& path) {
        Journal journal = fixed_journal(child_pid).open(path);
        const std::string value = journal_value(9);
        mark();
        journal.push(flyring::as_bytes(value), 2);
        mark();
    };
    all["journal-push-roll"] = [](const std::string& path) {
        Journal journal = fixed_journal(child_pid).open(path);
        consume_most(path, journal);
        {
            Writing held(path);
            fill_near_end(held.writer, held.segment_size());
            held.writer.close(false);
        }
        const std::string value = journal_value(9, 300);
        mark();
        journal.push(flyring::as_bytes(value), 2);
        mark();
    };
    all["journal-close"] = [](const std::string& path) {
        Writing held(path);
        mark();
        held.writer.close();
        mark();
    };
    all["journal-join"] = [](const std::string& path) {
        Journal journal = fixed_journal(child_pid).open(path);
        journal.forget("audit");
        mark();
        auto consumer = journal.consumer("new");
        mark();
    };
    all["journal-join-again"] = [](const std::string& path) {
        Journal journal = fixed_journal(child_pid).open(path);
        mark();
        auto consumer = journal.consumer("orders");
        mark();
    };
    all["journal-consume"] = [](const std::string& path) {
        Journal journal = fixed_journal(child_pid).open(path);
        auto consumer = journal.consumer("orders");
        mark();
        consumer.poll([](const JournalMessage&) {}, 3);
        mark();
    };
    all["journal-forget"] = [](const std::string& path) {
        Journal journal = fixed_journal(child_pid).open(path);
        mark();
        journal.forget("orders");
        mark();
    };
    all["journal-trim"] = [](const std::string& path) {
        Journal journal = fixed_journal(child_pid).open(path);
        consume_most(path, journal);
        mark();
        journal.trim(flyring::JournalTrim::consumed());
        mark();
    };
    const auto take = [&all](const char* operation, const char* name) {
        all[operation] = [name](const std::string& path) {
            Journal journal = fixed_journal(child_pid).open(path);
            mark();
            JournalWriter writer = journal.writer(name, false);
            mark();
        };
    };
    take("journal-take", "another");
    take("journal-resume", "heir");
    take("journal-recovery", "mender");
    return all;
}

}  // namespace steps
