// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.Channel;
import io.flyring.FlyringException;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;

/** A second thread that waits until it is told to act. */
final class Beside {
    private Beside() {
    }

    static void start(Channel channel, String what, String fifo) {
        if (!what.equals("close") && !what.equals("interrupt")) {
            throw new Request.Bad("do is neither close nor interrupt");
        }
        Thread other = Thread.currentThread();
        Thread thread = new Thread(() -> {
            try (FileInputStream go = new FileInputStream(fifo + ".go")) {
                if (go.read() < 0) {
                    return;
                }
                int done = act(channel, what, other);
                try (FileOutputStream answer = new FileOutputStream(fifo + ".done")) {
                    answer.write(done);
                }
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
        }, "beside");
        thread.setDaemon(true);
        thread.start();
    }

    private static int act(Channel channel, String what, Thread other) {
        try {
            if (what.equals("interrupt")) {
                other.interrupt();
            } else {
                channel.close();
            }
            return 'o';
        } catch (FlyringException e) {
            return 'e';
        } catch (RuntimeException | Error e) {
            return 'x';
        }
    }
}
