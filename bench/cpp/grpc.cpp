// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/grpcpp.h>

#include <cstring>
#include <memory>
#include <vector>

#include "contenders.hpp"
#include "echo.grpc.pb.h"
#include "support.hpp"

namespace bench {
namespace {

/// gRPC over a Unix socket, one unary method with generated code. The client calls through the blocking stub; with
/// several calls under way (`--option outstanding=N`), and on the server, through a completion queue, which is what
/// gRPC's guide to performance says is fastest. So handlers run in the thread that is measured; those of the library
/// share its core.
class Grpc {
  public:
    explicit Grpc(const Setup& setup)
        : size_(setup.size), one_way_(setup.one_way()), under_way_(setup.option("outstanding", std::size_t{1})) {
        if (!setup.block) cannot(setup, "it sleeps (--wait block)");
        const std::string address = "unix:" + setup.path("grpc");
        if (setup.client()) {
            channel_ = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
            stub_ = flyring::bench::Echo::NewStub(channel_);
            asked_.resize(under_way_);
            return;
        }
        grpc::ServerBuilder builder;
        builder.AddListeningPort(address, grpc::InsecureServerCredentials());
        builder.RegisterService(&service_);
        events_ = builder.AddCompletionQueue();
        server_ = builder.BuildAndStart();
        if (server_ == nullptr) throw std::runtime_error("gRPC: cannot listen on " + address);
        for (std::size_t i = 0; i < under_way_ + 1; ++i) {
            served_.push_back(std::make_unique<Served>());
            request(*served_.back());
        }
    }
    Grpc(const Grpc&) = delete;
    ~Grpc() {
        if (server_ == nullptr) {
            calls_.Shutdown();
            drain(calls_);
            return;
        }
        server_->Shutdown(std::chrono::system_clock::now());
        events_->Shutdown();
        drain(*events_);
    }

    void connect() {}  // the first call does: a server answers only while its completion queue is looked at

    template <class Write>
    void send(Write&& write) {
        if (server_ != nullptr) return answer();
        if (one_way_ && under_way_ > 1) return start(write);
        question_.mutable_payload()->resize(size_);
        write(reinterpret_cast<std::byte*>(question_.mutable_payload()->data()));
        grpc::ClientContext context;
        context.set_wait_for_ready(true);
        check(stub_->Call(&context, question_, &answer_));
        if (one_way_ && answer_.payload() != question_.payload()) throw std::runtime_error("another call's answer");
    }

    template <class Read>
    void receive(Read&& read) {
        if (server_ == nullptr) return read(bytes_of(answer_));
        now_ = next_request();
        if (!one_way_) return read(bytes_of(now_->question));
        hand_out_in_order(now_->question.payload(), read);
        answer();
    }

    static std::string version() { return "gRPC " + grpc::Version(); }

  private:
    struct Asked {
        flyring::bench::Bytes question, answer;
        grpc::Status status;
        std::unique_ptr<grpc::ClientContext> context;
        std::unique_ptr<grpc::ClientAsyncResponseReader<flyring::bench::Bytes>> reader;
    };
    struct Served {
        flyring::bench::Bytes question;
        std::unique_ptr<grpc::ServerContext> context;
        std::unique_ptr<grpc::ServerAsyncResponseWriter<flyring::bench::Bytes>> writer;
        bool answered = false;
    };

    static void check(const grpc::Status& status) {
        if (!status.ok()) throw std::runtime_error("gRPC: " + status.error_message());
    }
    const std::byte* bytes_of(const flyring::bench::Bytes& message) const {
        if (message.payload().size() != size_)
            throw std::runtime_error("received " + std::to_string(message.payload().size()) + " bytes");
        return reinterpret_cast<const std::byte*>(message.payload().data());
    }
    static void drain(grpc::CompletionQueue& queue) {
        void* tag;
        bool fine;
        while (queue.Next(&tag, &fine)) {
        }
    }

    // The client, several calls under way.

    template <class Write>
    void start(Write&& write) {
        Asked* free = nullptr;
        for (Asked& asked : asked_) {
            if (asked.context == nullptr) free = &asked;
        }
        if (free == nullptr) free = &end_one();
        free->question.mutable_payload()->resize(size_);
        write(reinterpret_cast<std::byte*>(free->question.mutable_payload()->data()));
        // Calls may overtake each other: the end is the last one.
        if (word0(free->question) == end_word) {
            while (pending_ > 0) end_one();
        }
        free->context = std::make_unique<grpc::ClientContext>();
        free->context->set_wait_for_ready(true);
        free->reader = stub_->AsyncCall(free->context.get(), free->question, &calls_);
        free->reader->Finish(&free->answer, &free->status, free);
        ++pending_;
    }
    Asked& end_one() {
        void* tag;
        bool fine;
        if (!calls_.Next(&tag, &fine) || !fine) throw std::runtime_error("gRPC: a call did not end");
        Asked& ended = *static_cast<Asked*>(tag);
        check(ended.status);
        if (ended.answer.payload() != ended.question.payload()) throw std::runtime_error("another call's answer");
        ended.context.reset();
        --pending_;
        return ended;
    }
    static std::uint64_t word0(const flyring::bench::Bytes& message) {
        std::uint64_t word;
        std::memcpy(&word, message.payload().data(), sizeof word);
        return word;
    }

    // The server.

    void request(Served& served) {
        served.context = std::make_unique<grpc::ServerContext>();
        served.writer = std::make_unique<grpc::ServerAsyncResponseWriter<flyring::bench::Bytes>>(served.context.get());
        served.answered = false;
        service_.RequestCall(served.context.get(), &served.question, served.writer.get(), events_.get(), events_.get(),
                             &served);
    }
    Served* next_request() {
        for (;;) {
            void* tag;
            bool fine;
            if (!events_->Next(&tag, &fine)) throw std::runtime_error("gRPC: the server has ended");
            auto* const served = static_cast<Served*>(tag);
            if (!served->answered) {
                if (!fine) throw std::runtime_error("gRPC: a call did not come");
                return served;
            }
            request(*served);
        }
    }
    void answer() {
        if (now_ == nullptr) return;
        now_->answered = true;
        now_->writer->Finish(now_->question, grpc::Status::OK, now_);
        now_ = nullptr;
    }
    /// Those that came too early wait: at most so many as are under way.
    template <class Read>
    void hand_out_in_order(const std::string& payload, Read&& read) {
        bytes_of(now_->question);
        if (word0(now_->question) == end_word) {
            if (early_ != 0) throw std::runtime_error("a message is missing");
            next_ = 0;
            return read(reinterpret_cast<const std::byte*>(payload.data()));
        }
        std::string& place = waiting_[word0(now_->question) % 64];
        if (!place.empty()) throw std::runtime_error("a message came twice");
        place = payload;
        ++early_;
        for (; !waiting_[next_].empty(); next_ = (next_ + 1) % 64, --early_) {
            read(reinterpret_cast<const std::byte*>(waiting_[next_].data()));
            waiting_[next_].clear();
        }
    }

    std::size_t size_;
    bool one_way_;
    std::size_t under_way_;
    std::shared_ptr<grpc::Channel> channel_;
    std::unique_ptr<flyring::bench::Echo::Stub> stub_;
    flyring::bench::Bytes question_, answer_;
    grpc::CompletionQueue calls_;
    std::vector<Asked> asked_;
    std::size_t pending_ = 0;
    flyring::bench::Echo::AsyncService service_;
    std::unique_ptr<grpc::ServerCompletionQueue> events_;
    std::unique_ptr<grpc::Server> server_;
    std::vector<std::unique_ptr<Served>> served_;
    Served* now_ = nullptr;
    std::string waiting_[64];
    std::size_t next_ = 0, early_ = 0;
};

}  // namespace

void run_grpc(const Setup& setup) {
    if (setup.size != 32 || !setup.whole) cannot(setup, "32 bytes, every one written and compared");
    Runner<Grpc, 32, true>(setup).run();
}

}  // namespace bench
