// SPDX-License-Identifier: Apache-2.0
// A process that is a member of a mesh, whose members watch each other.
//
// mesh_member NAME SECONDS    is a member of that name for so long
#include <unistd.h>

#include <chrono>
#include <flyring/flyring.hpp>
#include <iostream>
#include <string>
#include <thread>

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr << "Use mesh_member NAME SECONDS.\n";
        return 1;
    }
    const std::string name = argv[1];
    flyring::Options options;
    options.kind = flyring::Kind::broadcast;
    options.publishers = 8;
    options.subscribers = 0;
    options.capacity = 65536;
    flyring::Channel channel = flyring::Channel::open_or_create("mesh", options);
    flyring::Mesh member(channel, name);  // a thread beats, and notes the beats of the others
    std::cout << name << " is process " << getpid() << std::endl;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::stod(argv[2])));  // instead of work
    std::cout << name << " leaves " << (member.beats() > 0 ? "after some" : "without") << " beats" << std::endl;
    return 0;
}
