// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A heartbeat at one moment: a counter by which a thread shows that it runs. Spec channel.md 8.1.
 *
 * @param id the counter's id.
 * @param name the thread's name.
 * @param pid process id, in the thread's own pid namespace.
 * @param interval the longest time between two beats that the thread promises, in ns; 0 if none.
 * @param startedAt when the heartbeat was made, in ns since 1970-01-01 UTC.
 * @param beats how often the thread has beaten.
 */
public record HeartbeatStats(int id, String name, int pid, long interval, long startedAt, long beats) {
    static HeartbeatStats of(CounterStats counter) {
        ByteBuffer key = ByteBuffer.wrap(counter.key()).order(ByteOrder.LITTLE_ENDIAN);
        return new HeartbeatStats(counter.id(), counter.label(), key.getInt(Layout.HEARTBEAT_KEY_PID),
            key.getLong(Layout.HEARTBEAT_KEY_INTERVAL), key.getLong(Layout.HEARTBEAT_KEY_STARTED_AT),
            counter.value());
    }
}
