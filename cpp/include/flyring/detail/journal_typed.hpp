// SPDX-License-Identifier: Apache-2.0
#pragma once

// Included by flyring/sbe.hpp: typed messages in a journal (spec/messages.md).

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "flyring/errors.hpp"
#include "flyring/journal.hpp"

namespace flyring::sbe {

/// Space in a journal with an encoder over it, made by JournalWriter::claim<T>. The message header is written; the
/// block is not cleared, so write every field. The destructor aborts an open claim.
template <typename T>
class TypedJournalClaim {
  public:
    explicit operator bool() const noexcept { return static_cast<bool>(claim_); }

    /// The encoder. Throws Closed if the claim is not open any more.
    T* operator->() {
        if (claim_.core_ == nullptr) JournalClaim::throw_not_open();
        return &encoder_;
    }
    T& operator*() { return *operator->(); }

    /// Appends the message. Returns and throws as JournalClaim::commit does.
    std::int64_t commit() { return claim_.commit(); }
    /// Discards the claimed space. Returns and throws as JournalClaim::abort does.
    std::int64_t abort() { return claim_.abort(); }

  private:
    friend class flyring::JournalWriter;

    static constexpr std::size_t header = T::messageHeader::encodedLength();
    static constexpr std::size_t fixed = header + T::sbeBlockLength();

    TypedJournalClaim(JournalWriter& writer, std::size_t variable)
        : claim_(*writer.core_, length(variable), static_cast<std::int32_t>(T::sbeTemplateId())) {
        std::memset(claim_.data_, 0, header);  // a schema's own header may have more than the four fields
        encoder_.wrapAndApplyHeader(reinterpret_cast<char*>(claim_.data_), 0, claim_.size_);
    }
    static constexpr std::size_t length(std::size_t variable) noexcept {
        constexpr std::size_t most = std::numeric_limits<std::size_t>::max() - fixed;
        return fixed + (variable < most ? variable : most);
    }

    JournalClaim claim_;
    T encoder_;
};

}  // namespace flyring::sbe

template <typename T>
inline flyring::sbe::TypedJournalClaim<T> flyring::JournalWriter::claim(std::size_t variable_length) {
    static_assert(T::sbeTemplateId() != 0, "a template whose id is 0 cannot be appended: types are 1 or more");
    return {*this, variable_length};
}
