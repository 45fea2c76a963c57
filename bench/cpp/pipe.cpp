// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include <fstream>

#include "byte_stream.hpp"
#include "contenders.hpp"

namespace bench {
namespace {

/// A named pipe each way, as large as the system allows an unprivileged process: pipe(7), F_SETPIPE_SZ.
class Pipe {
  public:
    explicit Pipe(const Setup& setup) : stream_(setup.size) {
        only_one_consumer(setup);
        if (several_producers(setup) && setup.size > PIPE_BUF)
            cannot(setup, "writes above PIPE_BUF of several writers mix");
        to_b_ = open_fifo(setup, "to-b");
        to_a_ = open_fifo(setup, "to-a");
        out_ = setup.producer() ? to_b_ : to_a_;
        in_ = setup.producer() ? to_a_ : to_b_;
    }
    Pipe(const Pipe&) = delete;
    ~Pipe() {
        close(to_b_);
        close(to_a_);
    }
    void connect() {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        stream_.send(out_, write);
    }
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        stream_.receive(in_, read);
    }
    static std::string version() { return linux_version(); }

  private:
    static int open_fifo(const Setup& setup, const std::string& name) {
        const std::string path = setup.path(name);
        if (mkfifo(path.c_str(), 0600) != 0 && errno != EEXIST) failed("mkfifo " + path);
        const int fd =
            open(path.c_str(), O_RDWR | O_CLOEXEC | (setup.block ? 0 : O_NONBLOCK));  // O_RDWR: does not wait
        if (fd < 0) failed("open " + path);
        int length = 0;
        if (!(std::ifstream("/proc/sys/fs/pipe-max-size") >> length) || fcntl(fd, F_SETPIPE_SZ, length) < 0)
            failed("F_SETPIPE_SZ");
        return fd;
    }

    ByteStream stream_;
    int to_b_, to_a_;
    int out_, in_;
};

}  // namespace

void run_pipe(const Setup& setup) {
    run<Pipe>(setup);
}

}  // namespace bench
