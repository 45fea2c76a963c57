// SPDX-License-Identifier: Apache-2.0
// A hostile publisher's message must not lead its decoder to anything but BadMessage and the codec's own error
// (spec/messages.md 1). An input is a message. It lies at the end of a read-only mapping with inaccessible pages behind
// it, and then in memory of its own with AddressSanitizer's guards around it.

#include <odd/Tree.h>
#include <orders_v3/Ack.h>
#include <orders_v3/Fill.h>
#include <prices/Book.h>
#include <prices/PriceUpdate.h>
#include <prices/Trade.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <flyring/flyring.hpp>
#include <flyring/sbe.hpp>
#include <sstream>
#include <string>

#include "input.hpp"

namespace {

using flyring::Message;
using flyring::sbe::on;

constexpr std::size_t most = 65536;

[[noreturn]] void found(const char* what) {
    std::fprintf(stderr, "FOUND: %s\n", what);
    std::abort();
}

template <typename T>
void use(const T& value) {
    asm volatile("" : : "r"(&value) : "memory");
}

/// Reads every byte of a text.
void use(std::string_view text) {
    unsigned char sum = 0;
    for (const char each : text) sum = static_cast<unsigned char>(sum ^ static_cast<unsigned char>(each));
    use(sum);
}

std::uint8_t how;  // selects one of the ways to read variable-length data

// X: the name of the data as it appears in sbe-tool's accessors.
#define READ_DATA(from, x, X)                                                 \
    switch (how % 6) {                                                        \
        case 0:                                                               \
            use(std::string_view((from).get##X##AsString()));                 \
            break;                                                            \
        case 1:                                                               \
            use((from).get##X##AsStringView());                               \
            break;                                                            \
        case 2: {                                                             \
            const std::size_t length = (from).x##Length();                    \
            use(std::string_view((from).x(), length));                        \
            break;                                                            \
        }                                                                     \
        case 3:                                                               \
            use((from).skip##X());                                            \
            break;                                                            \
        case 4: {                                                             \
            char bytes[8];                                                    \
            use(std::string_view(bytes, (from).get##X(bytes, sizeof bytes))); \
            break;                                                            \
        }                                                                     \
        default:                                                              \
            use(std::string_view((from).get##X##AsJsonEscapedString()));      \
    }

template <typename T>
void read_instrument(T& message) {
    auto& instrument = message.instrument();
    use(instrument.id());
    use(instrument.getSymbolAsStringView());
    use(std::string_view(instrument.getExchangeAsString()));
    use(instrument.getCurrencyAsStringView());
    use(instrument.kindRaw());
    use(message.timestamp());
}

/// Prints a whole message with the codec's own operator.
template <typename T>
void print(T& message) {
    std::ostringstream text;
    text << message;
    use(std::string_view(text.str()));
}

void read(prices::PriceUpdate& update) {
    read_instrument(update);
    use(std::array{update.bid(), update.ask()});
    use(std::array{update.bidSize(), update.askSize(), update.sequence()});
    auto& flags = update.flags();
    use(std::array{flags.opening(), flags.closing(), flags.halted()});
    use(update.lastSideRaw());
    print(update);
}

void read(prices::Trade& trade) {
    read_instrument(trade);
    use(trade.price());
    use(std::array<std::int64_t, 3>{trade.size(), trade.sideRaw(), trade.venueFee()});
    print(trade);
}

void read(prices::Book& book) {
    if (how >= 128) return print(book);
    if (how >= 120) return use(book.decodeLength());
    read_instrument(book);
    book.levels().forEach([](prices::Book::Levels& level) {
        use(level.price());
        use(level.size());
        use(level.sideRaw());
    });
    READ_DATA(book, remark, Remark)
}

void read(orders::v3::Ack& ack) {
    use(ack.order());
    use(ack.delay());
    use(ack.hops());
}

void read(orders::v3::Fill& fill) {
    if (how >= 128) return print(fill);
    if (how >= 120) return use(fill.decodeLength());
    use(fill.order());
    use(fill.fee());
    fill.parts().forEach([](orders::v3::Fill::Parts& part) {
        use(part.size());
        use(part.price());
    });
    READ_DATA(fill, venue, Venue)
    READ_DATA(fill, remark, Remark)
}

void read(odd::Tree& tree) {
    if (how >= 128) return print(tree);
    if (how >= 120) return use(tree.decodeLength());
    use(tree.root());
    use(tree.class_());
    tree.branches().forEach([](odd::Tree::Branches& branch) {
        use(branch.weight());
        branch.leaves().forEach([](odd::Tree::Branches::Leaves& leaf) {
            use(leaf.colour());
            READ_DATA(leaf, note, Note)
        });
        READ_DATA(branch, label, Label)
    });
    READ_DATA(tree, picture, Picture)
}

/// Two mappings of the same pages: one to write the message, one to read it.
struct Pages {
    Pages() {
        const int fd = ::memfd_create("message", MFD_CLOEXEC);
        if (fd < 0 || ::ftruncate(fd, most) != 0) std::abort();
        writable = static_cast<std::byte*>(::mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
        readable = static_cast<const std::byte*>(::mmap(nullptr, most, PROT_READ, MAP_SHARED, fd, 0));
        if (writable == MAP_FAILED || readable == MAP_FAILED) std::abort();
    }
    std::byte* writable;
    const std::byte* readable;
};

template <typename... Messages>
void dispatch(const Message& message) {
    try {
        flyring::sbe::dispatch(on<Messages>([](Messages& each) { read(each); })...)(message);
    } catch (const flyring::BadMessage&) {
    } catch (const flyring::FlyringError&) {
        found("an error that no message can lead to");
    } catch (const std::runtime_error&) {
        // The codec's own error.
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        found("another exception");
    }
}

void decode(const Message& message, std::uint8_t schema) {
    if (schema == 0) dispatch<odd::Tree>(message);
    if (schema == 1) dispatch<orders::v3::Ack, orders::v3::Fill>(message);
    if (schema >= 2) dispatch<prices::PriceUpdate, prices::Trade, prices::Book>(message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static Pages pages;
    fuzz::Input input(data, size);
    const auto schema = static_cast<std::uint8_t>(input.below(4));
    const bool right = input.below(4) != 0;  // valid ids, to get past the checks of the header
    how = input.next<std::uint8_t>();
    const std::size_t length = std::min(input.left(), most);
    std::byte* const at = pages.writable + (most - length);
    if (length != 0) std::memcpy(at, input.rest(), length);
    std::int32_t type = schema == 0 ? 65535 : 1 + how % 3;
    if (right && schema == 0 && length >= 12) {
        std::memset(at + 6, 0xff, 4);
        at[10] = std::byte{0};
    } else if (right && schema != 0 && length >= 8) {
        const std::uint16_t ids[2] = {static_cast<std::uint16_t>(type),
                                      static_cast<std::uint16_t>(schema == 1 ? 21 : 7)};
        std::memcpy(at + 2, ids, sizeof ids);
        at[1] = std::byte{0};  // a short block
        at[7] = std::byte{0};
    }
    static const flyring::Sender sender;
    const Message message(pages.readable + (most - length), length, type, 64, sender);
    decode(message, schema);
    decode(flyring::OwnedMessage(message), schema);
    return 0;
}
