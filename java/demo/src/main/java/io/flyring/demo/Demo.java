// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import io.flyring.FlyringException;
import java.io.IOException;
import java.util.List;

/** The demo program: {@code ping}, {@code pong}, {@code counter ping}, {@code counter pong}; see bench/DEMOS.md. */
public final class Demo {
    private Demo() {
    }

    /** Ends the run with status 1 and this one line of text. */
    static final class Failed extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Failed(String message) {
            super(message);
        }
    }

    /**
     * Runs one side of a demo.
     *
     * @param arguments the command and its options.
     */
    public static void main(String[] arguments) {
        int status = 0;
        try {
            run(Options.parse(List.of(arguments)));
        } catch (Options.Wrong e) {
            System.err.println(e.getMessage());
            status = 2;
        } catch (Failed | FlyringException | IOException e) {
            System.err.println(e.getMessage());
            status = 1;
        }
        System.exit(status);
    }

    private static void run(Options options) throws IOException {
        if (options.core >= 0) {
            Core.pin(options.core);
        }
        if (options.counter) {
            new CounterDemo(options).run();
        } else if (options.ping) {
            new Ping(options).run();
        } else {
            new Pong(options).run();
        }
    }
}
