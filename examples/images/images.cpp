// SPDX-License-Identifier: Apache-2.0
// A camera publishes images of 10 MiB. Viewers look at the newest one, where it lies, and never slow the camera down.
//
// images camera COUNT PER_SECOND    publishes so many images; all pixels of image N have the value N
// images view SECONDS               looks at the newest image each SECONDS, until the camera closes
#include <chrono>
#include <cstring>
#include <flyring/flyring.hpp>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::size_t size = 1280 * 2048 * 4;  // bytes: rows, columns, colours

// A ring of 64 MiB holds the six newest images. It has no places for readers that the camera would wait for.
flyring::Channel open_channel() {
    flyring::Options options;
    options.kind = flyring::Kind::broadcast;
    options.capacity = 64 << 20;
    options.publishers = 1;
    options.subscribers = 0;
    return flyring::Channel::open_or_create("images", options);
}

void camera(int count, double per_second) {
    flyring::Channel channel = open_channel();
    flyring::Publisher publisher = channel.publisher("camera");
    for (int number = 0; number < count; ++number) {
        flyring::Claim claim = publisher.claim(size);  // space in the ring
        std::memset(claim.data(), number, size);
        claim.commit();
        std::this_thread::sleep_for(Seconds(1 / per_second));
    }
}

// Whether there is no other image behind this one in the ring.
bool is_newest(flyring::Channel& channel, const flyring::Message& message) {
    const std::int64_t published = channel.stats().publishers[0].published;
    return published - message.position() < static_cast<std::int64_t>(2 * size);
}

void view(double seconds) {
    flyring::Channel channel = open_channel();
    flyring::LossySubscriber reader = channel.lossy_subscriber();
    flyring::WaitSet waits;
    waits.add(reader);
    std::cout << "waiting for the camera" << std::endl;
    int seen = 0, skipped = 0;
    while (seen == 0 || !reader.ended(0)) {
        waits.wait(std::chrono::milliseconds(100));  // sleeps until there is an image
        while (const auto message = reader.peek()) {
            if (!is_newest(channel, *message)) {
                if (reader.valid()) ++skipped;  // goes on to the next one
                continue;
            }
            const std::byte* pixels = message->data();  // in place: nothing is copied
            const int first = std::to_integer<int>(pixels[0]);
            const bool all_same = std::memcmp(pixels, pixels + 1, size - 1) == 0;
            if (reader.valid()) {  // the camera did not overwrite it meanwhile
                ++seen;
                std::cout << (all_same ? "image " : "a mixture that begins with ") << first << std::endl;
            }
            std::this_thread::sleep_for(Seconds(seconds));
        }
    }
    std::cout << seen << " seen, " << skipped << " skipped, " << reader.lost_messages(0) << " overwritten\n";
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 3 && words[0] == "camera") {
        camera(std::stoi(words[1]), std::stod(words[2]));
    } else if (words.size() == 2 && words[0] == "view") {
        view(std::stod(words[1]));
    } else {
        std::cerr << "Use images with: camera COUNT PER_SECOND, or view SECONDS.\n";
        return 1;
    }
    return 0;
}
