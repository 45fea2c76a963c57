// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "contenders.hpp"
#include "harness.hpp"
#include "support.hpp"

namespace bench {
namespace {

/// A plain file for each direction, to which messages are appended: one write a message, or for `--option batch=N` of
/// them. What is written is in the page cache, so it survives the process, as a journal's messages do.
class PlainFile {
  public:
    explicit PlainFile(const Setup& setup)
        : size_(setup.size), batch_(setup.option("batch", std::size_t{1})), out_(batch_ * size_), in_(65536) {
        only_one_to_one(setup);
        if (!setup.one_way() || !setup.producer()) in_file_ = open_file(setup, setup.producer() ? "b" : "a");
        if (!setup.one_way() || setup.producer()) out_file_ = open_file(setup, setup.producer() ? "a" : "b");
    }
    PlainFile(const PlainFile&) = delete;
    ~PlainFile() {
        if (in_file_ >= 0) ::close(in_file_);
        if (out_file_ >= 0) ::close(out_file_);
    }

    void connect() {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        write(out_.data() + filled_ * size_);
        if (++filled_ == batch_) flush();
    }
    void flush() {
        const auto wanted = static_cast<ssize_t>(filled_ * size_);
        if (wanted != 0 && ::write(out_file_, out_.data(), filled_ * size_) != wanted) failed("write");
        filled_ = 0;
    }

    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        const ssize_t n = ::pread(in_file_, in_.data(), in_.size(), read_);
        if (n < 0) failed("read");
        const auto whole = static_cast<std::size_t>(n) / size_ * size_;
        for (std::size_t at = 0; at < whole; at += size_) read(in_.data() + at);
        read_ += static_cast<off_t>(whole);
    }

    /// Gives back the space of what was read.
    void slice_ends() {
        if (in_file_ >= 0 && read_ != 0) {
            (void)::fallocate(in_file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, read_ & ~off_t{4095});
        }
    }

    static std::string version() { return linux_version(); }

  private:
    static int open_file(const Setup& setup, const std::string& name) {
        const std::string path = setup.option("files", setup.dir) + "/" + name + ".log";
        const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (file < 0) failed(path);
        return file;
    }

    std::size_t size_;
    std::size_t batch_;
    std::size_t filled_ = 0;
    std::vector<std::byte> out_, in_;
    int in_file_ = -1, out_file_ = -1;
    off_t read_ = 0;
};

}  // namespace

void run_file(const Setup& setup) {
    if (setup.size != 32 || !setup.whole) cannot(setup, "32 bytes, every one written and compared");
    Runner<PlainFile, 32, true>(setup).run();
}

}  // namespace bench
