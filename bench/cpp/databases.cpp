// SPDX-License-Identifier: Apache-2.0
// Key-value stores of other libraries, for scenario `map`: LMDB, SQLite, and a
// Redis server by hiredis. Files lie in shared memory, as Flyring's does, and
// no store waits for a disk.
#include <hiredis/hiredis.h>
#include <lmdb.h>
#include <sqlite3.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "contenders.hpp"
#include "map.hpp"
#include "support.hpp"

namespace bench {
namespace {

void must(bool ok, const std::string& what) {
    if (!ok) throw std::runtime_error(what);
}

/// LMDB, opened as its documentation says is fastest: MDB_WRITEMAP and
/// MDB_NOSYNC; the read transaction is renewed for each get, so that it sees
/// the latest value, and reset behind it; a put is a transaction. The value is
/// copied out of the mapped page. A read transaction that stays open keeps all
/// pages that puts replace, until the map is full.
class Lmdb {
  public:
    explicit Lmdb(const Setup& setup) : path_(setup.path("map.lmdb")), keys_(setup.option("keys", std::size_t{0})) {
        if (setup.client()) open();
    }
    ~Lmdb() {
        if (fill_ != nullptr) mdb_txn_abort(fill_);
        if (read_ != nullptr) mdb_txn_abort(read_);
        if (environment_ != nullptr) mdb_env_close(environment_);
    }
    Lmdb(const Lmdb&) = delete;

    void fill(std::int64_t key, const MapValue& value) {
        if (fill_ == nullptr) check(mdb_txn_begin(environment_, nullptr, 0, &fill_));
        store(fill_, key, value);
    }
    void ready(const std::vector<std::int64_t>&) {
        check(mdb_txn_commit(std::exchange(fill_, nullptr)));
        check(mdb_txn_begin(environment_, nullptr, MDB_RDONLY, &read_));
        mdb_txn_reset(read_);
    }
    void join() { open(); }
    bool get(std::size_t, std::int64_t key, MapValue& to) {
        check(mdb_txn_renew(read_));
        MDB_val name{sizeof key, &key}, found;
        const int status = mdb_get(read_, table_, &name, &found);
        if (status == 0) {
            must(found.mv_size == sizeof to, "LMDB: a value of another size");
            std::memcpy(&to, found.mv_data, sizeof to);
        }
        mdb_txn_reset(read_);
        if (status != MDB_NOTFOUND) check(status);
        return status == 0;
    }
    void put(std::size_t, std::int64_t key, const MapValue& value) {
        MDB_txn* change = nullptr;
        check(mdb_txn_begin(environment_, nullptr, 0, &change));
        store(change, key, value);
        check(mdb_txn_commit(change));
    }
    static std::string version() { return mdb_version(nullptr, nullptr, nullptr); }

  private:
    static void check(int status) { must(status == 0, std::string("LMDB: ") + mdb_strerror(status)); }
    void open() {
        check(mdb_env_create(&environment_));
        check(mdb_env_set_mapsize(environment_, std::max<std::size_t>(keys_ * 1024, std::size_t{1} << 26)));
        check(mdb_env_open(environment_, path_.c_str(), MDB_NOSUBDIR | MDB_WRITEMAP | MDB_NOSYNC, 0600));
        MDB_txn* opening = nullptr;
        check(mdb_txn_begin(environment_, nullptr, 0, &opening));
        check(mdb_dbi_open(opening, nullptr, MDB_INTEGERKEY | MDB_CREATE, &table_));
        check(mdb_txn_commit(opening));
    }
    void store(MDB_txn* change, std::int64_t key, const MapValue& value) {
        MDB_val name{sizeof key, &key}, content{sizeof value, const_cast<MapValue*>(&value)};
        check(mdb_put(change, table_, &name, &content, 0));
    }

    std::string path_;
    std::size_t keys_;
    MDB_env* environment_ = nullptr;
    MDB_txn* fill_ = nullptr;
    MDB_txn* read_ = nullptr;
    MDB_dbi table_ = 0;
};

/// SQLite with a write-ahead log and synchronous OFF; prepared statements, each
/// a transaction of its own.
class Sqlite {
  public:
    explicit Sqlite(const Setup& setup) : path_(setup.path("map.sqlite")) {
        if (!setup.client()) return;
        open();
        run("CREATE TABLE map (key INTEGER PRIMARY KEY, value BLOB NOT NULL)");
        run("BEGIN");
        prepare();
    }
    ~Sqlite() {
        sqlite3_finalize(get_);
        sqlite3_finalize(put_);
        sqlite3_close(database_);
    }
    Sqlite(const Sqlite&) = delete;

    void fill(std::int64_t key, const MapValue& value) { put(0, key, value); }
    void ready(const std::vector<std::int64_t>&) { run("COMMIT"); }
    void join() {
        open();
        prepare();
    }
    bool get(std::size_t, std::int64_t key, MapValue& to) {
        sqlite3_bind_int64(get_, 1, key);
        const int status = sqlite3_step(get_);
        must(status == SQLITE_ROW || status == SQLITE_DONE, error());
        if (status == SQLITE_ROW) {
            must(sqlite3_column_bytes(get_, 0) == sizeof to, "SQLite: a value of another size");
            std::memcpy(&to, sqlite3_column_blob(get_, 0), sizeof to);
        }
        sqlite3_reset(get_);
        return status == SQLITE_ROW;
    }
    void put(std::size_t, std::int64_t key, const MapValue& value) {
        sqlite3_bind_int64(put_, 1, key);
        sqlite3_bind_blob(put_, 2, &value, sizeof value, SQLITE_STATIC);
        must(sqlite3_step(put_) == SQLITE_DONE, error());
        sqlite3_reset(put_);
    }
    static std::string version() { return sqlite3_libversion(); }

  private:
    std::string error() const { return std::string("SQLite: ") + sqlite3_errmsg(database_); }
    void run(const char* text) { must(sqlite3_exec(database_, text, nullptr, nullptr, nullptr) == SQLITE_OK, error()); }
    void open() {
        must(sqlite3_open(path_.c_str(), &database_) == SQLITE_OK, "SQLite: cannot open " + path_);
        sqlite3_busy_timeout(database_, 10'000);
        run("PRAGMA journal_mode = WAL");
        run("PRAGMA synchronous = OFF");
        run("PRAGMA mmap_size = 17179869184");
    }
    void prepare() {
        const auto make = [this](const char* text, sqlite3_stmt** to) {
            must(sqlite3_prepare_v3(database_, text, -1, SQLITE_PREPARE_PERSISTENT, to, nullptr) == SQLITE_OK, error());
        };
        make("SELECT value FROM map WHERE key = ?", &get_);
        make(
            "INSERT INTO map VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value "
            "= excluded.value",
            &put_);
    }

    std::string path_;
    sqlite3* database_ = nullptr;
    sqlite3_stmt* get_ = nullptr;
    sqlite3_stmt* put_ = nullptr;
};

/// A Redis server on a Unix socket, without persistence. A key is its 8 bytes.
class Redis {
  public:
    explicit Redis(const Setup& setup)
        : path_(setup.path("redis.sock")), pipeline_(setup.option("outstanding", std::size_t{64})) {
        if (setup.client()) join();
    }
    void fill(std::int64_t key, const MapValue& value) {
        send("SET", key, &value);
        if (++sent_ == 256) take();
    }
    void ready(const std::vector<std::int64_t>&) { take(); }
    void join() {
        connection_.reset(redisConnectUnix(path_.c_str()));
        must(connection_ != nullptr && connection_->err == 0, "Redis: cannot connect to " + path_);
    }
    bool get(std::size_t, std::int64_t key, MapValue& to) {
        ask(key);
        return answer(to);
    }
    void put(std::size_t, std::int64_t key, const MapValue& value) {
        send("SET", key, &value);
        reply();
    }
    /// So many questions go out together, and all are answered before the next
    /// ones.
    template <class Next, class Took>
    void lookup(std::uint64_t n, Next&& next, Took&& took) {
        std::vector<std::int64_t> keys(std::min<std::uint64_t>(n, pipeline_));
        for (std::uint64_t i = 0; i < n; i += keys.size()) {
            if (n - i < keys.size()) keys.resize(n - i);
            for (std::int64_t& key : keys) ask(key = next());
            for (const std::int64_t key : keys) {
                MapValue value;
                const bool there = answer(value);
                took(key, there ? &value : nullptr);
            }
        }
    }
    static std::string version() {
        return "hiredis " + std::to_string(HIREDIS_MAJOR) + "." + std::to_string(HIREDIS_MINOR);
    }

  private:
    void ask(std::int64_t key) { send("GET", key, nullptr); }
    bool answer(MapValue& to) {
        const Reply found = reply();
        if (found->type == REDIS_REPLY_NIL) return false;
        must(found->type == REDIS_REPLY_STRING && found->len == sizeof to, "Redis: a value of another size");
        std::memcpy(&to, found->str, sizeof to);
        return true;
    }
    struct Free {
        void operator()(redisContext* it) const { redisFree(it); }
        void operator()(redisReply* it) const { freeReplyObject(it); }
    };
    using Reply = std::unique_ptr<redisReply, Free>;

    void send(const char* verb, std::int64_t key, const MapValue* value) {
        const char* words[] = {verb, reinterpret_cast<const char*>(&key), reinterpret_cast<const char*>(value)};
        const std::size_t lengths[] = {3, sizeof key, sizeof *value};
        must(redisAppendCommandArgv(connection_.get(), value == nullptr ? 2 : 3, words, lengths) == REDIS_OK,
             "Redis: no memory");
    }
    Reply reply() {
        void* found = nullptr;
        must(redisGetReply(connection_.get(), &found) == REDIS_OK, std::string("Redis: ") + connection_->errstr);
        Reply reply(static_cast<redisReply*>(found));
        must(reply->type != REDIS_REPLY_ERROR, std::string("Redis: ") + (reply->str == nullptr ? "" : reply->str));
        return reply;
    }
    void take() {
        for (; sent_ > 0; --sent_) reply();
    }

    std::string path_;
    std::size_t pipeline_;
    std::unique_ptr<redisContext, Free> connection_;
    int sent_ = 0;
};

}  // namespace

void run_lmdb(const Setup& setup) {
    MapRunner<Lmdb>(setup).run();
}
void run_sqlite(const Setup& setup) {
    MapRunner<Sqlite>(setup).run();
}
void run_redis_map(const Setup& setup) {
    MapRunner<Redis>(setup).run();
}

}  // namespace bench
