// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "journal_plan.hpp"
#include "journal_scenario.hpp"

namespace steps {

namespace layout = flyring::layout;
using flyring::Journal;
using flyring::JournalMessage;
using flyring::JournalStart;

namespace {

constexpr std::int32_t heir_pid = 1003;

void require(bool good, const std::string& what) {
    if (!good) throw Wrong(what);
}

/// What a reader finds. Numbers must follow each other.
template <typename Reader>
Messages read_with(Reader& reader) {
    Messages found;
    while (reader.poll([&](const JournalMessage& message) {
        require(found.empty() || found.rbegin()->first + 1 == message.number(), "numbers do not follow each other");
        const std::string payload(reinterpret_cast<const char*>(message.data()), message.size());
        found[message.number()] = {message.position(), payload};
    }) > 0) {
    }
    return found;
}

Messages read_all(const Journal& journal, const JournalStart& start = JournalStart::oldest()) {
    auto reader = journal.reader(start);
    Messages found = read_with(reader);
    require(reader.lost() == 0, "a reader has lost messages");
    return found;
}

bool begins_with(const Messages& longer, const Messages& shorter) {
    return std::all_of(shorter.begin(), shorter.end(), [&](const auto& one) {
        const auto same = longer.find(one.first);
        return same != longer.end() && same->second == one.second;
    });
}

/// Consumes so many messages, in one poll.
void skip(flyring::JournalConsumer& consumer, int count) {
    require(consumer.poll([](const JournalMessage&) {}, count) == count, "a message is missing");
}

/// The files are of another boot. `whole`: the writer had closed before. Else there are two segments: the check of the
/// second one, and all before it, may be proven; a gate is behind that.
void lose_power(const std::string& path, bool whole) {
    Bytes left;
    {
        Journal journal = fixed_journal(child_pid).open(path);
        flyring::JournalWriter writer = journal.writer("feed", false);
        if (whole) {
            writer.close();
        } else {
            pad_near_end(writer, static_cast<std::int64_t>(journal.segment_size()));
            for (int i = 0; i < 3; ++i) writer.append(journal_value(i, 300), 1);
            auto orders = journal.consumer("orders");
            auto audit = journal.consumer("audit");
            skip(orders, 3);
            skip(audit, 2);
            while (orders.size() > 0) skip(orders, 1);
        }
        left = read_file(path);
    }
    write_file(path, left);
    const flyring::Uuid other_boot = flyring::detail::parse_uuid("ffeeddcc-bbaa-4988-b766-554433221100");
    std::fstream control(path + "/control", std::ios::binary | std::ios::in | std::ios::out);
    control.seekp(layout::HEADER_LENGTH + layout::JOURNAL_CONTROL_BOOT_ID);
    control.write(reinterpret_cast<const char*>(other_boot.data()), static_cast<std::streamsize>(other_boot.size()));
    if (!control.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace

Bytes make_journal_base(const std::string& path, const JournalScenario& scenario) {
    std::filesystem::remove_all(path);
    flyring::JournalOptions options;
    options.segment_size = static_cast<std::uint64_t>(scenario.segment_size);
    options.consumers = 2;
    if (scenario.sync_each) options.sync = flyring::JournalSync::each();
    options.trim_consumed = scenario.trims && scenario.operation == "journal-push-roll";
    Bytes made;
    {
        Journal journal = fixed_journal(tracer_pid).create(path, options);
        flyring::JournalWriter writer = journal.writer("feed", false);
        auto orders = journal.consumer("orders");
        auto audit = journal.consumer("audit");
        for (int i = 0; i < 3; ++i) writer.append(journal_value(i), 1);
        writer.sync();
        for (int i = 3; i < 6; ++i) writer.append(journal_value(i, 100), 1);
        skip(orders, 2);
        skip(audit, 4);
        made = read_file(path);  // with the writer alive, as a kill leaves it
    }
    if (!scenario.power_loss) return made;
    write_file(path, made);
    lose_power(path, scenario.whole);
    return read_file(path);
}

JournalCase::JournalCase(const Setup& setup, const JournalScenario& scenario, const Bytes& base,
                         const std::string& child)
    : setup_(setup), scenario_(scenario), base_(base), child_(child.empty() ? setup.child : child) {
    recorder_.emplace(setup, command(), scenario.python, [this] {
        write_file(setup_.path, base_);
        return std::shared_ptr<void>();
    });
    const auto contents_of = [&](const Bytes& bytes) {
        write_file(setup_.path, bytes);
        return found();
    };
    before_ = contents_of(recording().states.front());
    after_ = contents_of(recording().states.back());
    require(!scenario_.appends || after_.size() > before_.size(), "the child has appended nothing");
    seen_ = before_;
}

std::vector<std::string> JournalCase::command() const {
    if (scenario_.python) return {setup_.python, "-s", setup_.script, scenario_.operation, setup_.path, "0"};
    return {child_, scenario_.operation, setup_.path, "0"};
}

const Bytes& JournalCase::state(JournalScenario::At at) const {
    using At = JournalScenario::At;
    const std::vector<Bytes>& states = recording().states;
    const auto segments = [&](std::size_t i) {
        auto files = files_in(states[i]);
        files.erase("control");
        return files;
    };
    const auto published = [&](std::size_t i) {
        std::int64_t word = 0;
        const Bytes control = files_in(states[i]).at("control");
        std::memcpy(&word, &control.at(layout::HEADER_LENGTH + layout::JOURNAL_CONTROL_PUBLISHED), sizeof word);
        return word;
    };
    std::size_t i = 1;
    if (at == At::segment) {
        for (i = states.size() - 1; segments(i) == segments(i - 1);) --i;
        return states.at(i);
    }
    while (published(i) == published(i - 1)) ++i;
    return states.at(i - (at == At::published ? 0U : at == At::commit ? 1U : 2U));
}

/// What a reader finds that may not write.
Messages JournalCase::found() const {
    flyring::OpenJournalOptions options;
    options.read_only = true;
    return read_all(fixed_journal(heir_pid).open(setup_.path, options));
}

/// What a reader finds, then what the next owners of the slots find and do.
void JournalCase::check_left() const {
    try {
        const Messages now = found();
        Messages all = before_;
        all.insert(after_.begin(), after_.end());
        require(
            now == before_ || now == after_ || (scenario_.trims && begins_with(all, now) && begins_with(now, after_)),
            "the messages have neither their old state nor their new one");
        const auto lowest = now.empty() ? std::int64_t{0} : now.begin()->first;
        for (const auto& [number, one] : seen_) {
            const auto same = now.find(number);
            require(number < lowest || (same != now.end() && same->second == one),
                    "message " + std::to_string(number) + ", which a reader has seen, is gone or another one");
        }
        check_gates(setup_.path);
        check_heir();
    } catch (const flyring::FlyringError& error) {
        throw Wrong(error.what());
    }
}

/// The next owners: they find what readers have seen, and go on through a roll, a sync, a trim and a power loss.
void JournalCase::check_heir() const {
    Messages all = found();
    const std::int64_t next = all.empty() ? 0 : all.rbegin()->first + 1;
    {
        Journal journal = fixed_journal(heir_pid).open(setup_.path);
        flyring::JournalWriter writer = journal.writer("heir", false);
        require(read_all(journal) == all, "the next owner has changed what readers had seen");
        require(writer.number() == next, "the next owner counts otherwise");
        check_journal(setup_.path);
        check_gates(setup_.path);
        const auto append = [&](std::size_t length) {
            const std::int64_t number = writer.number();
            const std::string value = journal_value(number, length);
            const std::int64_t position = writer.append(value, 5);
            require(all.empty() || position > all.rbegin()->second.first, "a position is used again");
            all[number] = {position, value};
        };
        for (const std::size_t length : {11, 0, 300, 5000, 16368, 16368, 16368, 16368, 20}) append(length);
        check_journal(setup_.path);
        require(read_all(journal) == all, "the next owner's messages");
        for (const auto& [number, one] : all) {
            if (number % 3 != 0) continue;
            Messages rest(all.find(number), all.end());
            require(read_all(journal, JournalStart::position(one.first)) == rest, "a position leads elsewhere");
            require(read_all(journal, JournalStart::number(number)) == rest, "a number leads elsewhere");
        }
        std::vector<std::string> names;
        for (const auto& one : journal.stats().consumers) names.push_back(one.name);
        if (names.size() < 2) names.push_back("fresh");
        for (const std::string& name : names) {
            auto consumer = journal.consumer(name);
            const std::int64_t number = consumer.number();
            const Messages rest(all.lower_bound(number), all.end());
            require(consumer.size() == static_cast<std::int64_t>(rest.size()), "a consumer's length");
            require(read_with(consumer) == rest, "a consumer does not go on at its gate");
            consumer.close();
            require(journal.consumer(name).size() == 0, "a consumer does not go on behind what it consumed");
        }
        check_gates(setup_.path);
        writer.sync();
        journal.trim(flyring::JournalTrim::consumed());
        const Messages kept = read_all(journal);
        require(begins_with(all, kept) && !kept.empty() && kept.rbegin()->first == all.rbegin()->first,
                "a trim removes more than whole segments at the beginning");
        all = kept;
        check_journal(setup_.path);
    }
    {  // everything was synced
        Journal journal = fixed_journal(heir_pid, std::byte{0x77}).open(setup_.path);
        flyring::JournalWriter writer = journal.writer("mender", false);
        require(read_all(journal) == all, "a recovery has changed what was synced");
        require(writer.recovery() && writer.recovery()->reached == writer.recovery()->position,
                "something was cut off");
        check_journal(setup_.path);
    }
}

void JournalCase::check_copy(std::size_t k) {
    write_file(setup_.path, recording().bytes(k));
    check_left();
    write_file(setup_.path, recording().bytes(k));
    seen_ = found();
}

void JournalCase::check_kill(std::size_t k) const {
    write_file(setup_.path, base_);
    recorder_->clear_page();
    Tracee child(recorder_->command());
    recorder_->reach(child, k);
    const Bytes left = read_file(setup_.path);
    if (left != recording().bytes(k))
        throw Wrong("expected the files as after this instruction of the recording, found them changed " +
                    difference(recording().bytes(k), left));
    child.kill();
    check_left();
}

const std::vector<JournalScenario>& journal_scenarios() {
    static const std::vector<JournalScenario> all = [] {
        std::vector<JournalScenario> list;
        const auto add = [&](const std::string& name, const std::string& operation = "") -> JournalScenario& {
            JournalScenario scenario;
            scenario.name = "journal-" + name;
            scenario.operation = "journal-" + (operation.empty() ? name : operation);
            list.push_back(std::move(scenario));
            return list.back();
        };
        for (const char* name : {"append", "append-long", "append-empty", "append-roll", "append-roll-ready",
                                 "append-roll-found", "append-wake", "batch", "claim", "push"}) {
            JournalScenario& scenario = add(name);
            scenario.appends = true;
            scenario.only_full = std::string_view(name) == "append-roll-found";
        }
        JournalScenario& check = add("append-check");
        check.segment_size = 131072;
        check.appends = true;
        JournalScenario& synced = add("append-sync", "append");
        synced.sync_each = synced.appends = true;
        for (const char* name : {"abort", "sync", "take", "join", "join-again", "consume", "forget"}) add(name);
        add("trim").trims = true;
        JournalScenario& push = add("push-roll");  // it syncs and trims
        push.trims = push.only_full = true;
        for (const char* name : {"close", "prepare"}) add(name).only_full = true;  // thousands of instructions
        using At = JournalScenario::At;
        const auto resume = [&](const char* name, const char* of, At at) {
            JournalScenario& scenario = add(name, "resume");
            scenario.base_of = std::string("journal-") + of;
            scenario.base_at = at;
            scenario.only_full = std::string_view(name) != "resume-long";
        };
        resume("resume", "append", At::before_commit);
        resume("resume-long", "append-long", At::before_commit);
        resume("resume-committed", "append", At::commit);
        resume("resume-batch", "batch", At::before_commit);
        resume("resume-roll", "append-roll", At::published);
        add("recovery").power_loss = true;
        JournalScenario& again = add("recovery-again", "recovery");
        again.power_loss = again.only_full = true;
        again.base_of = "journal-recovery";
        again.base_at = At::segment;
        JournalScenario& whole = add("recovery-whole", "recovery");
        whole.power_loss = whole.whole = whole.only_full = true;
        for (const char* name : {"append", "batch", "consume"}) {
            JournalScenario& python = add(name);
            python.name = std::string("python-journal-") + name;
            python.python = true;
            python.only_full = std::string_view(name) == "batch";
        }
        return list;
    }();
    return all;
}

const std::vector<Fault>& journal_faults() {
    static const std::vector<Fault> all = {
        {"journal-length-first", "journal-append-long"},
        {"journal-claimed-late", "journal-append-long"},
        {"journal-resume-without-zero", "journal-resume-long"},
        {"journal-checked-first", "journal-append-check"},
        {"journal-gate-first", "journal-consume"},
        {"journal-unlink-first", "journal-trim"},
        {"journal-boot-first", "journal-recovery"},
    };
    return all;
}

}  // namespace steps
