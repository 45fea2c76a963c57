// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** A system call failed. Code {@code io}. */
public final class IoException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The name of the system call. */
    private final String call;

    /** The error number; 0 if not known. */
    private final int errno;

    /** The file's path; may be empty. */
    private final String path;

    IoException(String call, int errno, String path, String message) {
        super("io", message);
        this.call = call;
        this.errno = errno;
        this.path = path;
    }

    /**
     * The name of the system call.
     *
     * @return the name.
     */
    public String call() {
        return call;
    }

    /**
     * The error number (errno) of the system call.
     *
     * @return the error number; 0 if not known.
     */
    public int errno() {
        return errno;
    }

    /**
     * The file that the system call was for.
     *
     * @return the path; may be empty.
     */
    public String path() {
        return path;
    }
}
