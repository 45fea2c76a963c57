// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The server of a call died, closed, or was evicted. Code {@code server-gone}. */
public final class ServerGoneException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** Whether a handler may have received the request. */
    private final boolean mayHaveRun;
    /** The server's name. */
    private final String name;
    /** The process id of the server. */
    private final int pid;

    ServerGoneException(boolean mayHaveRun, String name, int pid, String message) {
        super("server-gone", message);
        this.mayHaveRun = mayHaveRun;
        this.name = name;
        this.pid = pid;
    }

    /**
     * The server's name.
     *
     * @return the name; empty if it has none or is not known.
     */
    public String name() {
        return name;
    }

    /**
     * The process id of the server.
     *
     * @return the id; 0 if not known.
     */
    public int pid() {
        return pid;
    }

    /**
     * Whether a handler may have received the request.
     *
     * @return false if no handler received the request, and none will.
     */
    public boolean mayHaveRun() {
        return mayHaveRun;
    }
}
