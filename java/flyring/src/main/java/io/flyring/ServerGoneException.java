// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The server of a call died, closed, or was evicted. Code {@code server-gone}. */
public final class ServerGoneException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** Whether a handler may have been given the request. */
    private final boolean mayHaveRun;
    /** Of the server. */
    private final String name;
    /** Of the server's process. */
    private final int pid;

    ServerGoneException(boolean mayHaveRun, String name, int pid, String message) {
        super("server-gone", message);
        this.mayHaveRun = mayHaveRun;
        this.name = name;
        this.pid = pid;
    }

    /**
     * The name of the server.
     *
     * @return the name; empty if it is not known.
     */
    public String name() {
        return name;
    }

    /**
     * The process of the server.
     *
     * @return its id; 0 if it is not known.
     */
    public int pid() {
        return pid;
    }

    /**
     * Whether a handler may have been given the request.
     *
     * @return false: none was, and none will be.
     */
    public boolean mayHaveRun() {
        return mayHaveRun;
    }
}
