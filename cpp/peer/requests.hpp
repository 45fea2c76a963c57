// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "peer.hpp"

// Helpers that read the fields of a request.

namespace peer {

template <typename Map>
auto& find(Map& objects, const Json& request, const char* kind) {
    const std::string handle = request.at(kind);
    const auto found = objects.find(handle);
    if (found == objects.end()) throw BadRequest(std::string("there is no ") + kind + " " + handle);
    return found->second;
}

template <typename Map, typename Object>
auto& keep(Map& objects, const std::string& handle, Object object) {
    return objects.insert_or_assign(handle, std::move(object)).first->second;
}

/// The request's time-out; in JSON seconds, or null for no limit. Empty if the field is missing: then call the verb
/// that does not wait.
inline std::optional<std::chrono::nanoseconds> timeout(const Json& request) {
    const auto found = request.find("timeout");
    if (found == request.end()) return std::nullopt;
    if (found->is_null()) return flyring::forever;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(found->get<double>()));
}

inline constexpr std::chrono::nanoseconds no_time = std::chrono::nanoseconds::zero();

}  // namespace peer
