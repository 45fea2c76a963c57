// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "flyring/claim.hpp"
#include "flyring/errors.hpp"
#include "flyring/message.hpp"
#include "flyring/publisher.hpp"
#include "flyring/request.hpp"

// Typed messages (spec/messages.md): the codecs that sbe-tool generates for C++, working on the ring's memory in place.
// `T` is such a codec, of any schema; it defines its own message header and byte order.
//
//   using namespace flyring::sbe;
//   if (auto update = publisher.try_claim<PriceUpdate>()) {
//       update->bid(1).ask(2);
//       update.commit();
//   }
//   subscriber.poll(dispatch(on<PriceUpdate>([&](PriceUpdate& update) { show(update.bid()); }),
//                            on<Trade>([&](Trade& trade, const flyring::Message& message) { ... }),
//                            otherwise([&](const flyring::Message& message) { ... })));
//
// Nothing here allocates or takes a lock. Messages come from other processes: leave SBE_NO_BOUNDS_CHECK undefined, and
// generate codecs by flyring_sbe_generate (cmake/flyringSbe.cmake), which adds bounds checks that sbe-tool leaves out.
// Then a codec never reads beyond a message: it throws a std::runtime_error, which leaves poll.

namespace flyring::sbe {

/// Space in the ring with an encoder over it, made by Publisher::claim<T> or try_claim<T>. Without room, try_claim
/// returns an empty claim, which converts to false. The message header is written; the block is not cleared, so write
/// every field. The destructor aborts an open claim. A claim may be moved until a group is begun, because a group
/// points into its encoder.
template <typename T>
class TypedClaim {
  public:
    explicit operator bool() const noexcept { return claim_.core_ != nullptr; }

    /// The encoder. Throws BackPressured if the claim is empty, Closed if it is not open any more.
    [[gnu::always_inline]] inline T* operator->() {
        if (claim_.core_ == nullptr) Claim::throw_not_open(claim_.data_ == nullptr);
        return &encoder_;
    }
    [[gnu::always_inline]] inline T& operator*() { return *operator->(); }

    /// Publishes the message. Returns and throws as Claim::commit does.
    [[gnu::always_inline]] inline std::int64_t commit() { return claim_.commit(); }

    /// Discards the claimed space. Returns and throws as Claim::abort does.
    std::int64_t abort() { return claim_.abort(); }

  private:
    friend class flyring::Publisher;

    static constexpr std::size_t header = T::messageHeader::encodedLength();
    static constexpr std::size_t fixed = header + T::sbeBlockLength();

    [[gnu::always_inline]] inline TypedClaim(Publisher& publisher, std::size_t variable,
                                             std::chrono::nanoseconds timeout)
        : claim_(*publisher.core_, length(variable), static_cast<std::int32_t>(T::sbeTemplateId()), timeout) {
        encode_header();
    }
    [[gnu::always_inline]] inline TypedClaim(Publisher& publisher, std::size_t variable)
        : claim_(*publisher.core_, length(variable), static_cast<std::int32_t>(T::sbeTemplateId())) {
        if (FLYRING_LIKELY(claim_.data_ != nullptr)) encode_header();
    }

    [[gnu::always_inline]] inline void encode_header() {
        std::memset(claim_.data_, 0, header);  // a schema's own header may have more than the four fields
        encoder_.wrapAndApplyHeader(reinterpret_cast<char*>(claim_.data_), 0, claim_.size_);
    }

    static constexpr std::size_t length(std::size_t variable) noexcept {
        // Cap the sum so that it cannot overflow; a length of this size is MessageTooLarge in any ring.
        constexpr std::size_t most = std::numeric_limits<std::size_t>::max() - fixed;
        return fixed + (variable < most ? variable : most);
    }

    Claim claim_;
    T encoder_;
};

/// A handler for the messages of one template, made by on.
template <typename T, typename Handler>
struct On {
    Handler handler;
};

/// A handler for all other messages, made by otherwise.
template <typename Handler>
struct Otherwise {
    Handler handler;
};

/// Calls handler(T& decoder) or handler(T& decoder, const Message& message) for messages of T. Both arguments are valid
/// until the handler returns, and so are views and groups got from them. Do not write through the decoder, although
/// sbe-tool's decoders have setters: a subscriber maps its rings read-only, so a write ends the process with SIGSEGV.
template <typename T, typename Handler>
On<T, std::decay_t<Handler>> on(Handler&& handler) {
    static_assert(T::sbeTemplateId() != 0, "a template whose id is 0 cannot be published: types are 1 or more");
    return {std::forward<Handler>(handler)};
}

/// Calls handler(const Message&) for messages that no other handler takes. Without it such messages are skipped.
template <typename Handler>
Otherwise<std::decay_t<Handler>> otherwise(Handler&& handler) {
    return {std::forward<Handler>(handler)};
}

}  // namespace flyring::sbe

namespace flyring::detail {

/// The message header, read once, because another process may change it. The payload must be long enough to hold it.
template <typename T>
struct TypedHeader {
    explicit TypedHeader(const Message& message) {
        // sbe-tool's headers take no constant buffer.
        const typename T::messageHeader header(const_cast<char*>(reinterpret_cast<const char*>(message.data())), 0,
                                               message.size(), 0);
        schema_id = header.schemaId();
        template_id = header.templateId();
        version = header.version();
        block_length = header.blockLength();
    }

    std::uint64_t schema_id;
    std::uint64_t template_id;
    std::uint64_t version;
    std::uint64_t block_length;
};

/// Does all checks of spec/messages.md 1, in that order, and throws BadMessage at the first that fails.
template <typename T>
TypedHeader<T> check(const Message& message) {
    const auto refuse = [&](const std::string& reason) {
        throw BadMessage(message.ring(), message.position(), message.type(), reason);
    };
    const auto text = [](std::uint64_t number) { return std::to_string(number); };
    constexpr std::size_t length = T::messageHeader::encodedLength();
    const auto payload = [&] { return "the payload of " + text(message.size()) + " bytes"; };
    if (message.size() < length) refuse(payload() + " holds no message header, which has " + text(length));
    const TypedHeader<T> header(message);
    if (header.schema_id != T::sbeSchemaId()) {
        refuse("the schema id is " + text(header.schema_id) + ", the codec's is " + text(T::sbeSchemaId()));
    }
    if (header.template_id != T::sbeTemplateId()) {
        refuse("the template id is " + text(header.template_id) + ", not the message's type");
    }
    const auto block = [&] { return "a block of " + text(header.block_length) + " bytes"; };
    if (header.block_length > message.size() - length) refuse(payload() + " does not hold " + block());
    if (header.block_length < T::sbeBlockLength() && header.version >= T::sbeSchemaVersion()) {
        refuse(block() + " is too short for version " + text(header.version) + ", which has at least " +
               text(T::sbeBlockLength()));
    }
    return header;
}

/// What the decoder is wrapped around.
struct Block {
    const std::byte* data;  // header and block
    std::uint64_t length;
    std::uint64_t version;
};

/// The slow path of block_of: for a message whose block has another length than the codec's (its publisher has another
/// schema version), or that is bad (throws BadMessage). A decoder does not check its fixed fields against the end of
/// the block. So a payload that is shorter than the codec's block is copied in front of zeros, and the decoder reads
/// the copy. Takes a Message's parts, so that the Message need not exist in memory.
template <typename T, std::size_t Size>
[[gnu::noinline]] Block other_block(std::byte (&copy)[Size], const std::byte* data, std::size_t size, std::int32_t type,
                                    std::int64_t position, const Sender& sender) {
    const Message message(data, size, type, position, sender);
    const TypedHeader<T> header = check<T>(message);
    if (size >= Size) return {data, header.block_length, header.version};
    std::memcpy(copy, data, size);
    std::memset(copy + size, 0, Size - size);
    return {copy, header.block_length, header.version};
}

/// The fast path: one combined check for the usual message; everything else goes to other_block.
template <typename T, std::size_t Size>
[[gnu::always_inline]] inline Block block_of(const Message& message, std::byte (&copy)[Size]) {
    if (FLYRING_LIKELY(message.size() >= Size)) {
        const TypedHeader<T> header(message);
        const std::uint64_t wrong = (header.schema_id ^ T::sbeSchemaId()) | (header.template_id ^ T::sbeTemplateId()) |
                                    (header.block_length ^ T::sbeBlockLength());
        if (FLYRING_LIKELY(wrong == 0)) {
            return {message.data(), T::sbeBlockLength(), header.version};
        }
    }
    return other_block<T>(copy, message.data(), message.size(), message.type(), message.position(), message.sender());
}

/// The type that a handler of messages of T returns.
template <typename T, typename Handler, bool WithMessage = std::is_invocable_v<Handler&, T&, const Message&>>
struct ResultOf {
    using type = std::decay_t<std::invoke_result_t<Handler&, T&, const Message&>>;
};
template <typename T, typename Handler>
struct ResultOf<T, Handler, false> {
    using type = std::decay_t<std::invoke_result_t<Handler&, T&>>;
};

/// Calls a handler, and stores its action if it returns one.
template <typename Call>
[[gnu::always_inline]] inline void run(Action& action, Call&& call) {
    if constexpr (std::is_same_v<std::decay_t<decltype(call())>, Action>) {
        action = call();
    } else {
        call();
    }
}

/// Hands a message of T's type to its handler. The handler is called in this one place only, so that compilers inline
/// it.
template <typename T, typename Handler>
[[gnu::always_inline]] inline void handle(Handler& handler, const Message& message, Action& action) {
    constexpr std::size_t header_length = T::messageHeader::encodedLength();
    std::byte copy[header_length + T::sbeBlockLength()];
    const Block block = block_of<T>(message, copy);
    // sbe-tool's decoders take no constant buffer.
    T decoder(const_cast<char*>(reinterpret_cast<const char*>(block.data)), header_length, message.size(), block.length,
              block.version);
    run(action, [&]() __attribute__((always_inline)) {
        if constexpr (std::is_invocable_v<Handler&, T&, const Message&>) {
            return handler(decoder, message);
        } else {
            return handler(decoder);
        }
    });
}

template <typename T, typename Handler>
[[gnu::always_inline]] inline bool offer_to(sbe::On<T, Handler>& on, const Message& message, Action& action) {
    if (message.type() != static_cast<std::int32_t>(T::sbeTemplateId())) return false;
    handle<T>(on.handler, message, action);
    return true;
}
template <typename Handler>
[[gnu::always_inline]] inline bool offer_to(sbe::Otherwise<Handler>&, const Message&, Action&) {
    return false;
}

template <typename T, typename Handler>
[[gnu::always_inline]] inline void hand_rest(sbe::On<T, Handler>&, const Message&, Action&) {}
template <typename Handler>
[[gnu::always_inline]] inline void hand_rest(sbe::Otherwise<Handler>& otherwise, const Message& message,
                                             Action& action) {
    run(action, [&]() __attribute__((always_inline)) { return otherwise.handler(message); });
}

template <typename Part>
struct PartOf;
template <typename T, typename Handler>
struct PartOf<sbe::On<T, Handler>> {
    static constexpr std::int64_t id = T::sbeTemplateId();
    using Result = typename ResultOf<T, Handler>::type;
};
template <typename Handler>
struct PartOf<sbe::Otherwise<Handler>> {
    static constexpr std::int64_t id = -1;
    using Result = std::decay_t<std::invoke_result_t<Handler&, const Message&>>;
};

template <typename... Parts>
constexpr bool all_different() {
    const std::int64_t ids[] = {PartOf<Parts>::id..., -2};
    for (std::size_t i = 0; i < sizeof...(Parts); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            if (ids[i] == ids[j]) return false;
        }
    }
    return true;
}

}  // namespace flyring::detail

namespace flyring::sbe {

/// A handler for the poll of Subscriber and LossySubscriber, and for a message from take; made by dispatch. Returns an
/// Action if one of its handlers does. Throws BadMessage before a handler is called, and what handler and codec throw;
/// the message is then consumed.
template <typename... Parts>
class Dispatcher {
    static_assert(detail::all_different<Parts...>(), "one handler for a template id, and one otherwise");

  public:
    explicit Dispatcher(Parts... parts) : parts_(std::move(parts)...) {}

    [[gnu::always_inline]] inline auto operator()(const Message& message) {
        Action action = Action::CONTINUE;
        std::apply(
            [&](Parts&... parts) __attribute__((always_inline)) {
                if (!(detail::offer_to(parts, message, action) || ...))
                    (detail::hand_rest(parts, message, action), ...);
            },
            parts_);
        if constexpr ((std::is_same_v<typename detail::PartOf<Parts>::Result, Action> || ...)) return action;
    }

  private:
    std::tuple<Parts...> parts_;
};

/// Chooses the handler by the message's type: dispatch(on<PriceUpdate>(f), on<Trade>(g), otherwise(h)).
template <typename... Parts>
Dispatcher<Parts...> dispatch(Parts... parts) {
    return Dispatcher<Parts...>(std::move(parts)...);
}

/// A handler for Server::poll and Server::serve, made by respond. The handler of on gets (T& decoder, Request&
/// request), that of otherwise (Request& request). Without otherwise, a request that no handler takes fails. A
/// BadMessage is thrown before a handler is called, and ends the call with ServiceError.
template <typename... Parts>
class Responder {
  public:
    explicit Responder(Parts... parts) : parts_(std::move(parts)...) {}

    void operator()(Request& request) {
        const bool handled = std::apply([&](Parts&... parts) { return (offer(parts, request) || ...); }, parts_);
        if (handled) return;
        if (!std::apply([&](Parts&... parts) { return (hand_rest(parts, request) || ...); }, parts_)) {
            request.fail("no handler for messages of type " + std::to_string(request.type()));
        }
    }

  private:
    template <typename T, typename Handler>
    static bool offer(On<T, Handler>& on, Request& request) {
        if (request.type() != static_cast<std::int32_t>(T::sbeTemplateId())) return false;
        constexpr std::size_t header = T::messageHeader::encodedLength();
        std::byte copy[header + T::sbeBlockLength()];
        const detail::Block block = detail::block_of<T>(request.message(), copy);
        // sbe-tool's decoders take no constant buffer.
        T decoder(const_cast<char*>(reinterpret_cast<const char*>(block.data)), header, request.size(), block.length,
                  block.version);
        on.handler(decoder, request);
        return true;
    }
    template <typename Handler>
    static bool offer(Otherwise<Handler>&, Request&) {
        return false;
    }
    template <typename T, typename Handler>
    static bool hand_rest(On<T, Handler>&, Request&) {
        return false;
    }
    template <typename Handler>
    static bool hand_rest(Otherwise<Handler>& otherwise, Request& request) {
        otherwise.handler(request);
        return true;
    }

    std::tuple<Parts...> parts_;
};

/// Chooses the handler by the request's type: respond(on<Ask>([](Ask& ask, Request& request) { ... }), otherwise(g)).
template <typename... Parts>
Responder<Parts...> respond(Parts... parts) {
    return Responder<Parts...>(std::move(parts)...);
}

}  // namespace flyring::sbe

template <typename T>
inline flyring::sbe::TypedClaim<T> flyring::Publisher::claim(std::size_t variable_length,
                                                             std::chrono::nanoseconds timeout) {
    static_assert(T::sbeTemplateId() != 0, "a template whose id is 0 cannot be published: types are 1 or more");
    return {*this, variable_length, timeout};
}

template <typename T>
inline flyring::sbe::TypedClaim<T> flyring::Publisher::try_claim(std::size_t variable_length) {
    static_assert(T::sbeTemplateId() != 0, "a template whose id is 0 cannot be published: types are 1 or more");
    return {*this, variable_length};
}

#include "flyring/detail/journal_typed.hpp"  // messages of a journal
#include "flyring/detail/table_typed.hpp"    // values of a table
