// SPDX-License-Identifier: Apache-2.0
// A key-value server: a service in front of a table on disk, so that any number of processes may write.
//
// key_value serve FILE                           answers until SIGTERM or Ctrl-C; waits while another server runs
// key_value get KEY
// key_value put KEY VALUE
// key_value compare-and-put KEY VERSION VALUE    puts if the key has this version (0: is not there)
// key_value remove KEY
#include <keyvalue/Changed.h>
#include <keyvalue/CompareAndPut.h>
#include <keyvalue/Get.h>
#include <keyvalue/Put.h>
#include <keyvalue/Refused.h>
#include <keyvalue/Remove.h>
#include <keyvalue/Value.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <flyring/flyring.hpp>
#include <flyring/sbe.hpp>
#include <flyring/table.hpp>
#include <iostream>
#include <keyvalue/schema.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using flyring::Request;
using flyring::sbe::on;
using keyvalue::Changed;
using keyvalue::CompareAndPut;
using keyvalue::Get;
using keyvalue::Put;
using keyvalue::Refused;
using keyvalue::Remove;
using keyvalue::Value;

volatile std::sig_atomic_t stopping = 0;

flyring::Channel open_service() {
    flyring::Options options;
    options.kind = flyring::Kind::service;
    options.use(keyvalue::schema);
    return flyring::Channel::open_or_create("key-value", options);
}

// Calls use(message) with a new message of the schema, which lives until `use` returns.
template <typename T, typename Use>
void with_message(Use&& use) {
    std::array<char, 16384> room;
    T message;
    message.wrapAndApplyHeader(room.data(), 0, room.size());
    use(message);
}

// The one writer of the table. So nothing changes between its look at a version and its change.
class Store {
  public:
    explicit Store(flyring::Table& table) : table_(table), writer_(table.writer("key-value", flyring::forever)) {}

    void get(Get& get, Request& request) {
        const auto found = table_.get_versioned(get.getKeyAsString());
        with_message<Value>([&](Value& answer) {
            answer.version(found ? found->version : 0).putValue(found ? found->value : "");
            request.reply(answer);
        });
    }
    void put(Put& put, Request& request) {
        const std::string key = put.getKeyAsString(), value = put.getValueAsString();
        const std::int64_t before = version_of(key);
        reply(request, before, writer_.put(key, value));
    }
    void compare_and_put(CompareAndPut& put, Request& request) {
        const std::string key = put.getKeyAsString(), value = put.getValueAsString();
        const std::int64_t before = version_of(key);
        const std::int64_t version = writer_.compare_and_put(key, put.version(), value);
        reply(request, before, version != 0 ? version : before);
    }
    void remove(Remove& remove, Request& request) {
        const std::string key = remove.getKeyAsString();
        const std::int64_t before = version_of(key);
        const bool wanted = remove.version() == 0 || remove.version() == before;
        const bool removed = wanted && writer_.remove(key);
        reply(request, before, removed ? 0 : before);
    }

  private:
    std::int64_t version_of(const std::string& key) const {
        const auto found = table_.get_versioned(key);
        return found ? found->version : 0;
    }
    static void reply(Request& request, std::int64_t before, std::int64_t version) {
        with_message<Changed>([&](Changed& answer) { request.reply(answer.before(before).version(version)); });
    }

    flyring::Table& table_;
    flyring::TableWriter writer_;
};

// A handler of requests T, which answers what the table refuses by the error's code.
template <typename T>
auto answer(Store& store, void (Store::*handler)(T&, Request&)) {
    return on<T>([&store, handler](T& asked, Request& request) {
        try {
            (store.*handler)(asked, request);
        } catch (const flyring::FlyringError& error) {
            with_message<Refused>([&](Refused& refused) {
                refused.putCode(std::string(error.code())).putText(std::string(error.what()));
                request.reply(refused);
            });
        }
    });
}

int serve(const std::string& path) {
    flyring::TableOptions options;
    options.key = flyring::KeyType::text;
    options.key_bytes = 200;
    options.value_bytes = 8000;
    options.capacity = 1000;
    flyring::Table table = flyring::Table::open_or_create(path, options);
    flyring::Channel service = open_service();
    flyring::Server server = service.server("key-value", flyring::forever);
    std::signal(SIGTERM, [](int) { stopping = 1; });
    std::signal(SIGINT, [](int) { stopping = 1; });
    Store store(table);
    auto handler = flyring::sbe::respond(answer(store, &Store::get), answer(store, &Store::put),
                                         answer(store, &Store::compare_and_put), answer(store, &Store::remove));
    std::cout << table.size() << " keys" << std::endl;
    while (stopping == 0) server.poll(handler, 256, 100ms);      // sleeps while there is no request
    while (server.held().in_hand + server.held().waiting > 0) {  // sends the answers that it still holds
        server.poll(handler, 0);
        std::this_thread::sleep_for(1ms);
    }
    table.close(true);  // everything is on the disk: no recovery is needed, even after a power loss
    return 0;
}

template <typename T>
int call(T& request) {
    flyring::Channel service = open_service();
    flyring::Client client = service.client();
    int status = 0;
    try {
        const flyring::Answer answer = client.call(request, 2s);
        flyring::sbe::dispatch(
            on<Value>([&](Value& value) {
                status = value.version() == 0;
                const std::string text = value.getValueAsString();
                if (status == 0) {
                    std::cout << text << " (version " << value.version() << ")\n";
                } else {
                    std::cerr << "there is no such key\n";
                }
            }),
            on<Changed>([&](Changed& changed) {
                const std::string version = "version " + std::to_string(changed.version());
                status = changed.version() == changed.before();
                if (status == 0) {
                    std::cout << (changed.version() != 0 ? version : "removed") << '\n';
                } else {
                    std::cerr << (changed.version() != 0 ? "the key has " + version : "there is no such key") << '\n';
                }
            }),
            on<Refused>([&](Refused& refused) {
                status = 1;
                const std::string code = refused.getCodeAsString();
                std::cerr << "refused: " << code << ": " << refused.getTextAsString() << '\n';
            }))(answer);
    } catch (const flyring::FlyringError& error) {
        std::cerr << "no answer: " << error.what() << '\n';
        return 1;
    }
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const std::string verb = words.empty() ? "" : words[0];
    int status = 0;
    if (verb == "serve" && words.size() == 2) return serve(words[1]);
    if (verb == "get" && words.size() == 2) {
        with_message<Get>([&](Get& get) { status = call(get.putKey(words[1])); });
    } else if (verb == "put" && words.size() == 3) {
        with_message<Put>([&](Put& put) { status = call(put.putKey(words[1]).putValue(words[2])); });
    } else if (verb == "compare-and-put" && words.size() == 4) {
        with_message<CompareAndPut>([&](CompareAndPut& put) {
            status = call(put.version(std::stoll(words[2])).putKey(words[1]).putValue(words[3]));
        });
    } else if (verb == "remove" && words.size() == 2) {
        with_message<Remove>([&](Remove& remove) { status = call(remove.version(0).putKey(words[1])); });
    } else {
        std::cerr << "Use key_value with: serve FILE, get KEY, put KEY VALUE, compare-and-put KEY VERSION VALUE, or "
                     "remove KEY.\n";
        return 2;
    }
    return status;
}
