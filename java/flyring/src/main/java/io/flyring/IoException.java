// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** A system call failed. Code {@code io}. */
public final class IoException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** Name of the system call. */
    private final String call;

    /** Its error number, 0 if not known. */
    private final int errno;

    /** The file, or an empty text. */
    private final String path;

    IoException(String call, int errno, String path, String message) {
        super("io", message);
        this.call = call;
        this.errno = errno;
        this.path = path;
    }

    /**
     * Name of the system call.
     *
     * @return name of the system call.
     */
    public String call() {
        return call;
    }

    /**
     * Its error number, 0 if not known.
     *
     * @return its error number, 0 if not known.
     */
    public int errno() {
        return errno;
    }

    /**
     * The file, or an empty text.
     *
     * @return the file, or an empty text.
     */
    public String path() {
        return path;
    }
}
