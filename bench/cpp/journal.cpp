// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include <flyring/flyring.hpp>
#include <flyring/journal.hpp>
#include <optional>
#include <string>

#include "contenders.hpp"
#include "harness.hpp"
#include "support.hpp"

namespace bench {
namespace {

/// A Flyring journal for each direction. Options: `segment`, bytes of a segment; `helper`, 0 for none; `ahead`, how
/// many segments the helper keeps ready; `files`, another folder.
class FlyringJournal {
  public:
    explicit FlyringJournal(const Setup& setup)
        : size_(setup.size), limit_(setup.one_way() ? flyring::layout::DEFAULT_POLL_LIMIT : 1), message_(setup.size) {
        only_one_to_one(setup);
        const bool sends = !setup.one_way() || setup.producer();
        const bool receives = !setup.one_way() || !setup.producer();
        if (receives) {
            in_ = open(setup, setup.producer() ? "b" : "a");
            reader_.emplace(in_->reader(flyring::JournalStart::newest()));
        }
        if (sends) {
            out_ = open(setup, setup.producer() ? "a" : "b");
            const Unpinned unpinned(setup);  // for the helper's thread, which inherits the cores
            writer_.emplace(out_->writer("bench", setup.option("helper", std::size_t{1}) != 0,
                                         static_cast<std::uint32_t>(setup.option("ahead", std::size_t{1}))));
        }
    }

    void connect() {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        write(message_.data());
        writer_->append({message_.data(), size_});
    }

    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        const int handed = reader_->poll([&](const flyring::JournalMessage& message) { read(message.data()); }, limit_);
        if (limit_ > 1) {
            batch_spin_.idle(handed);
        } else {
            spin_.idle(handed);
        }
    }

    /// Removes what was read, so that files do not grow without end.
    void slice_ends() {
        if (writer_) writer_->sync();
        if (reader_) in_->trim(flyring::JournalTrim::position(reader_->position()));
    }

    static std::string version() { return "0.1.0"; }

  protected:
    std::optional<flyring::JournalWriter> writer_;
    std::size_t size_;

  private:
    /// Lets the threads that are made meanwhile run on all cores.
    class Unpinned {
      public:
        explicit Unpinned(const Setup& setup) : core_(setup.core) {
            cpu_set_t all;
            CPU_ZERO(&all);
            for (int core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &all);
            if (sched_setaffinity(0, sizeof all, &all) != 0) failed("sched_setaffinity");
        }
        Unpinned(const Unpinned&) = delete;
        ~Unpinned() {
            if (core_ >= 0) bench_pin(core_);
        }

      private:
        int core_;
    };

    static flyring::Journal open(const Setup& setup, const std::string& name) {
        flyring::JournalOptions options;
        options.segment_size = setup.option("segment", std::size_t{64} << 20);
        return flyring::Journal::open_or_create(setup.option("files", setup.dir) + "/" + name + ".journal", options);
    }

    int limit_;
    flyring::SpinWait spin_;
    flyring::BatchSpinWait batch_spin_;  // a reader that follows stands back, as the ring's does
    std::vector<std::byte> message_;
    std::optional<flyring::Journal> in_, out_;
    std::optional<flyring::JournalReader> reader_;
};

/// Made in the journal.
class FlyringJournalClaim : public FlyringJournal {
  public:
    using FlyringJournal::FlyringJournal;

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        flyring::JournalClaim claim = writer_->claim(size_);
        write(claim.data());
        claim.commit();
    }
};

/// So many messages a call.
class FlyringJournalBatch : public FlyringJournal {
  public:
    explicit FlyringJournalBatch(const Setup& setup)
        : FlyringJournal(setup), batch_(setup.option("batch", std::size_t{16})), content_(batch_ * setup.size) {
        for (std::size_t i = 0; i < batch_; ++i) messages_.emplace_back(content_.data() + i * size_, size_);
    }

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        write(content_.data() + filled_ * size_);
        if (++filled_ == batch_) flush();
    }
    void flush() {
        if (writer_->append_many({messages_.data(), filled_}) != filled_) throw std::runtime_error("no room");
        filled_ = 0;
    }

  private:
    std::size_t batch_;
    std::size_t filled_ = 0;
    std::vector<std::byte> content_;
    std::vector<flyring::Bytes> messages_;
};

}  // namespace

void run_flyring_journal(const Setup& setup) {
    if (setup.size != 32 || !setup.whole) cannot(setup, "32 bytes, every one written and compared");
    const std::string by = setup.option("by", std::string("append"));
    if (by == "batch") return Runner<FlyringJournalBatch, 32, true>(setup).run();
    if (by == "claim") return Runner<FlyringJournalClaim, 32, true>(setup).run();
    Runner<FlyringJournal, 32, true>(setup).run();
}

}  // namespace bench
