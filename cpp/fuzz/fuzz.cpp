// SPDX-License-Identifier: Apache-2.0
// A hostile or broken file may lead to typed errors only in a process that attaches it (spec/channel.md 9).
//
// An input names a golden file and lists changes to it and a program: operations of the public API, with more changes
// in between. If its first byte is 255, the input is a whole file of arbitrary bytes. A fixed program that does each
// operation once ends each run. So inputs reach the checks of attach and the code behind them.

#include <cstdint>

#include "file.hpp"
#include "input.hpp"
#include "program.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static fuzz::File file;
    fuzz::Input input(data, size);
    const auto kind = input.next<std::uint8_t>();
    if (kind == 255) {
        const auto how = input.next<std::uint8_t>();
        file.load(input.rest(), input.left());
        if ((how & 1) != 0) file.mend_crc();
        fuzz::run(file, fuzz::Input(nullptr, 0), (how & 2) != 0);
        return 0;
    }
    file.load_golden(kind);
    const auto how = input.next<std::uint8_t>();
    for (std::uint32_t changes = how & 15; changes > 0; --changes) file.poke(input);
    if ((how & 16) != 0) file.resize(file.size() + input.next<std::uint16_t>() - 32768U);
    if ((how & 32) == 0) file.mend_crc();
    fuzz::run(file, input, (how & 192) == 64);
    return 0;
}
