// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace demo {

namespace {

constexpr struct {
    const char* name;
    double percent;
} percentiles[] = {{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"p99.99", 99.99}};

/// The percentile by nearest rank: the smallest sample that at least `percent` of all samples do not exceed.
std::int64_t percentile(const std::vector<std::int64_t>& sorted, double percent) {
    const auto rank = static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(sorted.size())));
    return sorted[std::max<std::size_t>(rank, 1) - 1];
}

void write_samples(const std::string& path, const std::vector<std::int64_t>& samples) {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(samples.data()),
               static_cast<std::streamsize>(samples.size() * sizeof(std::int64_t)));
    if (!file.flush()) throw std::runtime_error("cannot write the samples to " + path);
}

void print_json(const Options& options, const Result& result) {
    std::printf(
        "{\"program\":\"%s\",\"language\":\"cpp\",\"size\":%zu,\"count\":%lld,\"rate\":%lld,\"wait\":\"%s\","
        "\"core\":%d,\"unit\":\"ns\"",
        name(options.program), options.size, static_cast<long long>(result.count), static_cast<long long>(options.rate),
        name(options.wait), options.core);
    if (options.typed) std::printf(",\"typed\":true");
    if (!result.samples.empty()) {
        for (const auto& [label, percent] : percentiles) {
            std::printf(",\"%s\":%lld", label, static_cast<long long>(percentile(result.samples, percent)));
        }
        std::printf(",\"max\":%lld", static_cast<long long>(result.samples.back()));
    }
    std::printf(",\"mean\":%.1f}\n", result.mean);
}

void print_table(const Options& options, const Result& result) {
    std::printf("%s cpp: %lld round trips of %zu bytes, %s, wait %s, ", name(options.program),
                static_cast<long long>(result.count), options.size,
                options.rate == 0 ? "closed loop" : (std::to_string(options.rate) + " per second").c_str(),
                name(options.wait));
    std::puts(options.core < 0 ? "not pinned" : ("core " + std::to_string(options.core)).c_str());
    if (!result.samples.empty()) {
        for (const auto& entry : percentiles) std::printf("%10s", entry.name);
        std::printf("%10s", "max");
    }
    std::printf("%10s%10s\n", "mean", "count");
    if (!result.samples.empty()) {
        for (const auto& entry : percentiles) {
            std::printf("%10lld", static_cast<long long>(percentile(result.samples, entry.percent)));
        }
        std::printf("%10lld", static_cast<long long>(result.samples.back()));
    }
    std::printf("%10.0f%10lld   ns\n", result.mean, static_cast<long long>(result.count));
}

}  // namespace

void report(const Options& options, Result result) {
    if (!options.histogram.empty()) write_samples(options.histogram, result.samples);
    std::sort(result.samples.begin(), result.samples.end());
    if (options.json) {
        print_json(options, result);
    } else {
        print_table(options, result);
    }
}

}  // namespace demo
