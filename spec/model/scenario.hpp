// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "machine.hpp"

namespace model {

enum class From : int8_t { none, now, oldest };

// A configuration that is explored completely.
struct Scenario {
    const char* name;
    Memory memory = Memory::weak;
    int cells = 4;             // capacity C, in cells
    int rings = 1, slots = 0;  // slots: reliable subscribers
    int window = 0;            // W, in cells; a record of one cell is short enough for it
    // What each publisher does: 1, 2 a message of 1, 2 cells; 11, 12 a batch of two messages; -1, -2 a claim that is
    // aborted; 9 close, and the next owner comes; 30 count the readers; 0 the end.
    int8_t plan[max_rings][12] = {};
    int kills = 0;  // in all, of the processes named below
    bool kill_publisher = false, kill_subscriber = false, kill_evictor = false;
    bool next_subscriber = true;  // a killed subscriber's slot gets a new owner
    bool next_publisher = true;   // so does a publisher's
    bool heirs = false;           // two processes want each slot; the second takes it when the first unlocks it
    int hangs = 0;                // how often a subscriber stops for good, at any step: its locks stay
    int joins = 1;                // how often each subscriber joins: it leaves after its first poll in between
    bool kept = false;            // subscribers ask to be kept
    bool kept_at_start = false;   // the slot is kept, no gate is set, and it was not evicted
    int poll_limit = 1;           // messages
    From lossy = From::none;
    int evicts = 0;   // of slot 0, by an operator
    int lag = 0;      // max_lag in cells; 0: off
    int hostile = 0;  // how often the hostile process writes into the gate of the last slot (which has no owner then)
    bool senders = false;        // owner records, sender, ended
    bool same_name = false;      // all owners of the publisher's slot have one name
    bool boundaries = false;     // step 8, and start at what is still there
    bool everybody_ends = true;  // check I6
};

}  // namespace model
