// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <flyring/detail/file.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support.hpp"

// What the tests of golden files share (spec/golden/README.md).

namespace golden {

using Json = nlohmann::json;

inline std::vector<std::byte> from_hex(const std::string& text) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
        bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
    }
    return bytes;
}

inline std::vector<std::byte> payload(const Json& data) {
    if (data.is_string()) return from_hex(data);
    std::vector<std::byte> bytes(data.at("length").get<std::size_t>());
    const auto pattern = data.at("pattern").get<std::size_t>();
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(pattern + 7 * i);
    return bytes;
}

inline flyring::Options options(const Json& golden) {
    flyring::Options made;
    const Json& create = golden.at("create");
    made.kind = create.at("kind") == "inbox"     ? flyring::Kind::inbox
                : create.at("kind") == "queue"   ? flyring::Kind::queue
                : create.at("kind") == "service" ? flyring::Kind::service
                                                 : flyring::Kind::broadcast;
    for (const auto& [key, member] :
         {std::pair{"capacity", &flyring::Options::capacity}, std::pair{"publishers", &flyring::Options::publishers},
          std::pair{"clients", &flyring::Options::clients},
          std::pair{"max_outstanding", &flyring::Options::max_outstanding},
          std::pair{"producers", &flyring::Options::producers}, std::pair{"workers", &flyring::Options::workers}}) {
        if (create.contains(key)) made.*member = create.at(key).get<std::uint32_t>();
    }
    if (create.contains("subscribers")) made.subscribers = create.at("subscribers").get<std::uint32_t>();
    if (create.contains("delivery")) {
        made.delivery = create.at("delivery") == "at-least-once" ? flyring::Delivery::at_least_once
                                                                 : flyring::Delivery::at_most_once;
    }
    made.alignment = create.value("alignment", made.alignment);
    if (create.value("foreign", "") == "publisher") made.foreign = flyring::Foreign::publisher;
    if (create.value("foreign", "") == "subscriber") made.foreign = flyring::Foreign::subscriber;
    made.counters = create.value("counters", made.counters);
    made.schema = create.value("schema", "");
    made.schema_id = create.value("schema_id", 0U);
    made.schema_version = create.value("schema_version", 0U);
    return made;
}

inline flyring::detail::InEnvironment in_environment(const Json& golden) {
    flyring::detail::InEnvironment made;
    const Json& inject = golden.at("inject");
    made.environment.channel_id = flyring::detail::parse_uuid(inject.at("channel_id"));
    made.environment.boot_id = flyring::detail::parse_uuid(inject.at("boot_id"));
    made.environment.created_at = inject.at("created_at").get<std::int64_t>();
    made.environment.now = inject.at("now").get<std::int64_t>();
    made.environment.monotonic = inject.at("monotonic").get<std::int64_t>();
    made.environment.pid = inject.at("pid").get<std::int32_t>();
    return made;
}

/// A store of a foreign process into the mapped file.
inline void foreign_store(const std::string& path, const Json& operation) {
    std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
    const std::vector<std::byte> data = from_hex(operation.at("data"));
    stream.seekp(operation.at("offset").get<std::streamoff>());
    stream.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
    ASSERT_TRUE(stream.flush());
}

inline std::string hex(flyring::Bytes bytes) {
    std::string text;
    char pair[3];
    for (const std::byte byte : bytes) {
        std::snprintf(pair, sizeof pair, "%02x", static_cast<unsigned>(byte));
        text += pair;
    }
    return text;
}

/// Golden files of services, or of all other kinds.
enum class Which { all, services, others };

/// FOLDER/NAME of the files of one folder, or of all files that a reader accepts.
inline std::vector<std::string> golden_names(const std::string& only = "", Which which = Which::all) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(support::spec_folder() + "/golden")) {
        const std::string folder = entry.path().parent_path().filename();
        if (entry.path().extension() != ".ring" || (only.empty() ? folder == "refused" : folder != only)) continue;
        const std::string name = folder + "/" + entry.path().stem().string();
        const bool service = entry.path().stem().string().find("service") != std::string::npos;
        if (which == Which::all || (which == Which::services) == service) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

/// The channel name for a golden file.
inline std::string channel_name(const std::string& golden) {
    std::string name = golden;
    std::replace(name.begin(), name.end(), '/', '-');
    return name;
}

inline std::string golden_file(const std::string& name, const char* extension) {
    return support::spec_folder() + "/golden/" + name + extension;
}

inline Json golden_json(const std::string& name) {
    std::ifstream stream(golden_file(name, ".json"));
    return Json::parse(stream);
}

/// `bytes` with these runs written into them; a run is [offset, hexadecimal digits].
inline std::vector<std::byte> with_runs(std::vector<std::byte> bytes, const Json& runs) {
    for (const Json& run : runs) {
        const std::vector<std::byte> changed = from_hex(run.at(1));
        std::copy(changed.begin(), changed.end(), bytes.begin() + run.at(0).get<std::ptrdiff_t>());
    }
    return bytes;
}

}  // namespace golden
