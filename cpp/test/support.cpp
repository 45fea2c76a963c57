// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace support {

ChannelTest::ChannelTest() : folder_("/dev/shm/flyring-test-XXXXXX") {
    if (::mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("cannot make " + folder_);
    ::setenv("FLYRING_DIR", folder_.c_str(), 1);
}

ChannelTest::~ChannelTest() {
    std::filesystem::remove_all(folder_);
}

static flyring::Options dimensions(flyring::Kind kind, std::uint32_t publishers, std::uint32_t subscribers,
                                   std::uint32_t capacity, std::uint32_t alignment) {
    flyring::Options options;
    options.kind = kind;
    options.publishers = publishers;
    options.subscribers = subscribers;
    options.capacity = capacity;
    options.alignment = alignment;
    options.counters = 4;
    return options;
}

flyring::Options broadcast(std::uint32_t publishers, std::uint32_t subscribers, std::uint32_t capacity,
                           std::uint32_t alignment) {
    return dimensions(flyring::Kind::broadcast, publishers, subscribers, capacity, alignment);
}

flyring::Options inbox(std::uint32_t publishers, std::uint32_t subscribers, std::uint32_t capacity,
                       std::uint32_t alignment) {
    return dimensions(flyring::Kind::inbox, publishers, subscribers, capacity, alignment);
}

flyring::Options queue(std::uint32_t producers, std::uint32_t workers, std::uint32_t capacity,
                       std::uint32_t alignment) {
    flyring::Options options;
    options.kind = flyring::Kind::queue;
    options.producers = producers;
    options.workers = workers;
    options.capacity = capacity;
    options.alignment = alignment;
    options.counters = 4;
    return options;
}

std::string work_off(flyring::Worker& worker, int limit) {
    std::string seen;
    while (worker.poll([&](flyring::Job& job) { seen += text(job) + " "; }, limit) > 0) {
    }
    return seen;
}

flyring::detail::ChannelFile raw(const std::string& name) {
    return flyring::detail::open_file(name, {});
}

int fill(flyring::Publisher& publisher) {
    int sent = 0;
    while (publisher.offer(bytes("x")) != flyring::back_pressured) ++sent;
    return sent;
}

void fill_up_to(flyring::Publisher& publisher, std::int64_t position) {
    while (publisher.position() < position) ASSERT_GT(publisher.offer(bytes("x")), 0);
}

void sleep_past_a_look() {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

int status_of(pid_t child) {
    int status = -1;
    return ::waitpid(child, &status, 0) == child ? status : -1;
}

static std::uint64_t word_of(std::uint64_t number, std::uint64_t index) {
    return index == 0 ? number : (number + index) * 0x9E3779B97F4A7C15;
}

std::vector<std::uint64_t> numbered(std::uint64_t number, std::uint64_t most) {
    std::vector<std::uint64_t> words(1 + number * 7 % most);
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = word_of(number, i);
    return words;
}

flyring::Bytes bytes(const std::vector<std::uint64_t>& words) {
    return {reinterpret_cast<const std::byte*>(words.data()), words.size() * sizeof(std::uint64_t)};
}

std::optional<std::uint64_t> number_of(const flyring::Message& message, std::uint64_t most) {
    if (message.size() < sizeof(std::uint64_t)) return std::nullopt;
    const auto number = message.as<std::uint64_t>();
    if (message.size() != (1 + number * 7 % most) * sizeof number) return std::nullopt;
    for (std::size_t i = 0; i < message.size() / sizeof number; ++i) {
        std::uint64_t word = 0;
        std::memcpy(&word, message.data() + i * sizeof word, sizeof word);
        if (word != word_of(number, i)) return std::nullopt;
    }
    return number;
}

bool is_locked(const std::string& path, std::uint64_t offset) {
    const flyring::detail::Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    return flyring::detail::byte_is_locked(fd, offset, path);
}

void race(const std::function<void()>& first, const std::function<void()>& second) {
    std::atomic<int> missing{2};
    const auto start = [&](const std::function<void()>& action) {
        --missing;
        while (missing > 0) std::this_thread::yield();
        action();
    };
    std::thread other([&] { start(second); });
    start(first);
    other.join();
}

std::string text(const flyring::Job& job) {
    return text(job.message());
}

std::string text(const flyring::Message& message) {
    return {reinterpret_cast<const char*>(message.data()), message.size()};
}

flyring::Bytes bytes(std::string_view text) {
    return flyring::as_bytes(text);
}

std::vector<std::byte> read_file(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    if (!stream) throw std::runtime_error("cannot read " + path);
    const std::string content((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    const auto* first = reinterpret_cast<const std::byte*>(content.data());
    return {first, first + content.size()};
}

void write_file(const std::string& path, const std::vector<std::byte>& content) {
    std::ofstream stream(path, std::ios::binary | std::ios::trunc);
    stream.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
    if (!stream.flush()) throw std::runtime_error("cannot write " + path);
}

Child::Child(const std::function<bool(const Ready&)>& body) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("fork");
    if (pid_ == 0) {
        ::close(ends[0]);
        bool good = false;
        try {
            good = body([&] {
                const char ready = 1;
                if (::write(ends[1], &ready, 1) != 1) ::_exit(3);
            });
        } catch (const std::exception& error) {
            std::cerr << "child: " << error.what() << std::endl;
        }
        ::_exit(good ? 0 : 1);
    }
    ::close(ends[1]);
    pipe_ = ends[0];
}

Child::~Child() {
    if (pid_ > 0) kill();
    ::close(pipe_);
}

void Child::wait_until_ready() {
    char ready = 0;
    if (::read(pipe_, &ready, 1) != 1) throw std::runtime_error("the child ended before it was ready");
}

void Child::kill() {
    signal(SIGKILL);
    wait();
}

void Child::signal(int number) const {
    ::kill(pid_, number);
}

int Child::wait() {
    int status = 0;
    if (::waitpid(std::exchange(pid_, -1), &status, 0) < 0) throw std::runtime_error("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void refuse(long call, int error) {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        throw std::runtime_error("no seccomp filter");
    }
}

std::string code_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const flyring::FlyringError& error) {
        return std::string(error.code());
    }
    return "none";
}

std::string spec_folder() {
    return FLYRING_SPEC_DIR;
}

std::vector<Table> read_layout() {
    std::ifstream stream(spec_folder() + "/layout.toml");
    if (!stream) throw std::runtime_error("cannot read layout.toml");
    const auto trim = [](std::string word) {
        const auto first = word.find_first_not_of(" \"[]");
        return first == std::string::npos ? "" : word.substr(first, word.find_last_not_of(" \"[]") - first + 1);
    };
    std::vector<Table> tables;
    for (std::string line; std::getline(stream, line);) {
        line.resize(std::min(line.size(), line.find('#')));
        const auto equals = line.find('=');
        if (!line.empty() && line[0] == '[') {
            tables.push_back({trim(line), {}});
        } else if (equals != std::string::npos) {
            const auto offset = line.find("{ offset =");  // a field; its type is not needed here
            const auto value = line.substr(offset == std::string::npos ? equals + 1 : line.find('=', offset) + 1);
            tables.back().values[trim(line.substr(0, equals))] = trim(value.substr(0, value.find(',')));
        }
    }
    return tables;
}

}  // namespace support
