// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <flyring/flyring.hpp>
#include <string>
#include <vector>

#include "input.hpp"

namespace fuzz {

/// The channel's file as a hostile process has it: it may write anything at any time. One file in shared memory serves
/// all inputs.
class File {
  public:
    File();
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File();

    const std::string& path() const noexcept { return path_; }
    std::size_t size() const noexcept { return size_; }
    std::byte* data() const noexcept { return data_; }

    /// Whole files, from spec/golden; none: a failure.
    std::size_t goldens() const noexcept { return goldens_.size(); }
    void load_golden(std::size_t index);
    void load(const std::uint8_t* bytes, std::size_t size);
    void resize(std::size_t size);
    void mend_crc();

    /// Writes one word, chosen by the input, mostly where words mean something.
    void poke(Input& input);
    /// The same, in the first record of a ring that was not read (of a service): its header, or its prefix.
    void poke_unread(Input& input);
    /// How often these were done.
    std::uint32_t pokes() const noexcept { return pokes_; }

    /// The dimensions that the file has now; all 0 if it is no channel.
    void note_shape();
    /// As they were noted last: when the file was loaded, and when it was attached.
    const flyring::detail::Header& shape() const noexcept { return shape_; }
    flyring::detail::Ring ring(std::uint32_t index) const noexcept;

  private:
    struct Place {
        std::uint64_t offset;
        std::size_t size;
    };
    /// Nothing but padding in a ring: who follows it goes round.
    void pad_for_ever(std::uint32_t index);
    Place place(Input& input) const;
    std::int64_t value(Input& input, std::int64_t now) const;

    std::string folder_;
    std::string path_;
    int fd_ = -1;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::uint32_t pokes_ = 0;
    std::vector<std::vector<std::byte>> goldens_;
    flyring::detail::Header shape_;
};

}  // namespace fuzz
