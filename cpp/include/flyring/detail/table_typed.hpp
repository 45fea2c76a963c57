// SPDX-License-Identifier: Apache-2.0
#pragma once

// Included by flyring/sbe.hpp: the values of a table as messages of a schema (spec/messages.md).

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "flyring/message.hpp"
#include "flyring/table.hpp"

namespace flyring::detail {

/// Throws InvalidArgument if the table was created for messages of another template than T's.
template <typename T>
void check_template(const TableHeader& header) {
    if (header.value_template == 0 || header.value_template == T::sbeTemplateId()) return;
    throw InvalidArgument("T", "the values of this table are messages with template id " +
                                   std::to_string(header.value_template) + ", but that of the codec is " +
                                   std::to_string(T::sbeTemplateId()));
}

/// Calls handler(T& decoder) over a value. Throws BadMessage (ring 0, position 0) if it is no message of `T`.
template <typename T, typename Handler>
decltype(auto) decode_value(Bytes value, Handler&& handler) {
    constexpr std::size_t header_length = T::messageHeader::encodedLength();
    std::byte copy[header_length + T::sbeBlockLength()];
    const Message message(value.data(), value.size(), static_cast<std::int32_t>(T::sbeTemplateId()), 0, no_sender());
    const Block block = block_of<T>(message, copy);
    // sbe-tool's decoders take no constant buffer.
    T decoder(const_cast<char*>(reinterpret_cast<const char*>(block.data)), header_length, value.size(), block.length,
              block.version);
    return handler(decoder);
}

/// Lets handler(T& encoder) write a value, then calls put(bytes) with it and returns what put returns.
template <typename T, typename Handler, typename Put>
std::int64_t encode_value(const TableHeader& header, Handler&& handler, Put&& put) {
    check_template<T>(header);
    constexpr std::size_t header_length = T::messageHeader::encodedLength();
    constexpr std::size_t least = header_length + T::sbeBlockLength();
    if (header.value_bytes < least) throw MessageTooLarge("a value", least, header.value_bytes);
    constexpr std::size_t usual = 512;
    std::byte on_stack[usual];
    std::string larger;
    if (header.value_bytes > usual) larger.resize(header.value_bytes);
    char* const at = larger.empty() ? reinterpret_cast<char*>(on_stack) : larger.data();
    std::memset(at, 0, least);
    T encoder;
    encoder.wrapAndApplyHeader(at, 0, header.value_bytes);
    handler(encoder);
    const std::size_t length = header_length + encoder.encodedLength();
    return put(Bytes(reinterpret_cast<const std::byte*>(at), length));
}

/// Lets handler(T& flyweight) change the fields of a value. Throws BadMessage if the value is of an older schema
/// version.
template <typename T, typename Handler>
void change_value(std::string& value, Handler&& handler) {
    const auto* const data = reinterpret_cast<const std::byte*>(value.data());
    decode_value<T>(Bytes(data, value.size()), [&](T& flyweight) {
        if (flyweight.buffer() != value.data()) {
            throw BadMessage(0, 0, static_cast<std::int32_t>(T::sbeTemplateId()),
                             "the value has an older schema version, whose block is shorter; put the value again");
        }
        handler(flyweight);
    });
}

template <typename T, typename Handler>
using TypedResult = InPlace<std::decay_t<std::invoke_result_t<Handler&, T&>>>;

/// Calls handler(T& decoder), and keeps what this call returned.
template <typename T, typename Handler, typename Result>
void hand_typed(Handler& handler, Bytes value, Result& result) {
    if constexpr (std::is_void_v<std::invoke_result_t<Handler&, T&>>) {
        decode_value<T>(value, handler);
        result = true;
    } else {
        result.emplace(decode_value<T>(value, handler));
    }
}

}  // namespace flyring::detail

namespace flyring {

template <typename T, typename Handler>
auto Table::get(const Key& key, Handler&& handler) const {
    detail::check_template<T>(header());
    typename detail::TypedResult<T, Handler>::type result{};
    const std::optional<std::string> value = get(key);
    if (value) detail::hand_typed<T>(handler, as_bytes(std::string_view(*value)), result);
    return result;
}

template <typename T, typename Handler>
auto Table::read(const Key& key, Handler&& handler) const {
    detail::check_template<T>(header());
    typename detail::TypedResult<T, Handler>::type result{};
    const bool found = read(key, [&](Bytes value) { detail::hand_typed<T>(handler, value, result); });
    return found ? std::move(result) : typename detail::TypedResult<T, Handler>::type{};
}

template <typename T, typename Handler>
std::int64_t Table::put(const Key& key, Handler&& handler, std::chrono::nanoseconds timeout) {
    return detail::encode_value<T>(header(), handler, [&](Bytes value) { return put(key, value, timeout); });
}

template <typename T, typename Handler>
std::int64_t Table::update(const Key& key, Handler&& handler, std::chrono::nanoseconds timeout) {
    detail::check_template<T>(header());
    return update(key, [&](std::string& value) { detail::change_value<T>(value, handler); }, timeout);
}

template <typename T, typename Handler>
auto Entry::read(Handler&& handler) {
    detail::check_template<T>(state_->current().file.header);
    typename detail::TypedResult<T, Handler>::type result{};
    const bool found = read([&](Bytes value) { detail::hand_typed<T>(handler, value, result); });
    return found ? std::move(result) : typename detail::TypedResult<T, Handler>::type{};
}

template <typename T, typename Handler>
std::int64_t TableWriter::put(const Key& key, Handler&& handler) {
    return detail::encode_value<T>(core_->state().current().file.header, handler,
                                   [&](Bytes value) { return put(key, value); });
}

template <typename T, typename Handler>
std::int64_t TableWriter::put(Entry& entry, Handler&& handler) {
    return detail::encode_value<T>(core_->state().current().file.header, handler,
                                   [&](Bytes value) { return put(entry, value); });
}

template <typename T, typename Handler>
std::int64_t TableWriter::update(const Key& key, Handler&& handler) {
    detail::check_template<T>(core_->state().current().file.header);
    return update(key, [&](std::string& value) { detail::change_value<T>(value, handler); });
}

}  // namespace flyring
