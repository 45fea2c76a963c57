// SPDX-License-Identifier: Apache-2.0
#include <sqlite3.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "contenders.hpp"
#include "harness.hpp"
#include "support.hpp"

namespace bench {
namespace {

/// A table of SQLite for each direction, with a write-ahead log and synchronous OFF, to which messages are appended: a
/// transaction a message, or for `--option batch=N` of them. A reader asks for what follows the last row that it has.
class SqliteLog {
  public:
    explicit SqliteLog(const Setup& setup) : size_(setup.size), batch_(setup.option("batch", std::size_t{1})) {
        only_one_to_one(setup);
        const bool sends = !setup.one_way() || setup.producer();
        const bool receives = !setup.one_way() || !setup.producer();
        if (receives) in_.open(setup, setup.producer() ? "b" : "a");
        if (sends) out_.open(setup, setup.producer() ? "a" : "b");
        if (receives) {
            in_.prepare("SELECT at, message FROM log WHERE at > ? ORDER BY at LIMIT 256", &select_);
            in_.prepare("DELETE FROM log WHERE at < ?", &remove_);
        }
        if (sends) out_.prepare("INSERT INTO log (message) VALUES (?)", &insert_);
    }
    SqliteLog(const SqliteLog&) = delete;
    ~SqliteLog() {
        for (sqlite3_stmt* one : {insert_, select_, remove_}) sqlite3_finalize(one);
    }

    void connect() {}

    template <class Write>
    void send(Write&& write) {
        std::byte message[32];
        write(static_cast<std::byte*>(message));
        if (batch_ > 1 && filled_ == 0) out_.run("BEGIN IMMEDIATE");
        sqlite3_bind_blob(insert_, 1, static_cast<const void*>(message), static_cast<int>(size_), SQLITE_STATIC);
        out_.must(sqlite3_step(insert_) == SQLITE_DONE);
        sqlite3_reset(insert_);
        if (batch_ > 1 && ++filled_ == batch_) flush();
    }
    void flush() {
        if (filled_ != 0) out_.run("COMMIT");
        filled_ = 0;
    }

    template <class Read>
    void receive(Read&& read) {
        sqlite3_bind_int64(select_, 1, last_);
        int status = sqlite3_step(select_);
        for (; status == SQLITE_ROW; status = sqlite3_step(select_)) {
            last_ = sqlite3_column_int64(select_, 0);
            if (sqlite3_column_bytes(select_, 1) != static_cast<int>(size_))
                throw std::runtime_error("SQLite: a message of another size");
            read(static_cast<const std::byte*>(sqlite3_column_blob(select_, 1)));
        }
        in_.must(status == SQLITE_DONE);
        sqlite3_reset(select_);
    }

    void slice_ends() {
        if (remove_ == nullptr) return;
        sqlite3_bind_int64(remove_, 1, last_);
        in_.must(sqlite3_step(remove_) == SQLITE_DONE);
        sqlite3_reset(remove_);
    }

    static std::string version() { return sqlite3_libversion(); }

  private:
    class Database {
      public:
        Database() = default;
        Database(const Database&) = delete;
        ~Database() { sqlite3_close_v2(database_); }

        void open(const Setup& setup, const std::string& name) {
            const std::string path = setup.option("files", setup.dir) + "/" + name + ".sqlite";
            if (sqlite3_open(path.c_str(), &database_) != SQLITE_OK) throw std::runtime_error("SQLite: " + path);
            sqlite3_busy_timeout(database_, 10'000);
            run("PRAGMA journal_mode = WAL");
            run("PRAGMA synchronous = OFF");
            run("CREATE TABLE IF NOT EXISTS log (at INTEGER PRIMARY KEY AUTOINCREMENT, message BLOB NOT NULL)");
        }
        void prepare(const char* text, sqlite3_stmt** to) {
            must(sqlite3_prepare_v3(database_, text, -1, SQLITE_PREPARE_PERSISTENT, to, nullptr) == SQLITE_OK);
        }
        void run(const char* text) { must(sqlite3_exec(database_, text, nullptr, nullptr, nullptr) == SQLITE_OK); }
        void must(bool done) const {
            if (!done) throw std::runtime_error(std::string("SQLite: ") + sqlite3_errmsg(database_));
        }

      private:
        sqlite3* database_ = nullptr;
    };

    std::size_t size_;
    std::size_t batch_;
    std::size_t filled_ = 0;
    std::int64_t last_ = 0;
    Database in_, out_;
    sqlite3_stmt* insert_ = nullptr;
    sqlite3_stmt* select_ = nullptr;
    sqlite3_stmt* remove_ = nullptr;
};

}  // namespace

void run_sqlite_log(const Setup& setup) {
    if (setup.size != 32 || !setup.whole) cannot(setup, "32 bytes, every one written and compared");
    Runner<SqliteLog, 32, true>(setup).run();
}

}  // namespace bench
