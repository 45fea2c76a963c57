// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <flyring/journal.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "peer.hpp"

namespace peer {

/// The ops of journals (interop-tests/PEER.md). Some have the names of ops of channels and tables.
class Journals {
  public:
    /// Whether a request is for these ops: it names a journal, or what was made from one.
    bool concerns(const Json& request) const;
    Json answer(const std::string& op, const Json& request);
    static std::vector<std::string> names();

  private:
    using Op = Json (Journals::*)(const Json&);
    static const std::map<std::string, Op>& ops();

    Json create(const Json& request);
    Json open_or_create(const Json& request);
    Json open(const Json& request);
    Json info(const Json& request);
    Json stats(const Json& request);
    Json unlink(const Json& request);
    Json writer(const Json& request);
    Json append(const Json& request);
    Json append_many(const Json& request);
    Json claim(const Json& request);
    Json commit(const Json& request);
    Json abort(const Json& request);
    Json push(const Json& request);
    Json sync(const Json& request);
    Json reader(const Json& request);
    Json consumer(const Json& request);
    Json positions(const Json& request);
    Json seek(const Json& request);
    Json poll(const Json& request);
    Json take(const Json& request);
    Json pop(const Json& request);
    Json peek(const Json& request);
    Json ended(const Json& request);
    Json size(const Json& request);
    Json forget(const Json& request);
    Json trim(const Json& request);
    Json change(const Json& request);
    Json close(const Json& request);
    Json append_stream(const Json& request);
    Json read_stream(const Json& request);

    Json kept(const Json& request, flyring::Journal journal);
    flyring::Journal& journal_of(const Json& request);
    flyring::JournalWriter& writer_of(const Json& request);
    /// Calls use(reader) for the handle's reader or consumer.
    template <typename Use>
    Json with_reading(const Json& request, Use&& use);

    // Destroyed from last to first.
    std::map<std::string, flyring::Journal> journals_;
    std::map<std::string, flyring::JournalWriter> writers_;
    std::map<std::string, flyring::JournalReader> readers_;
    std::map<std::string, flyring::JournalConsumer> consumers_;
    std::map<std::string, flyring::JournalClaim> claims_;
};

Json append_stream(flyring::JournalWriter& writer, const Json& request);
Json read_stream(flyring::JournalReader& reader, const Json& request);
Json read_stream(flyring::JournalConsumer& consumer, const Json& request);

}  // namespace peer
