// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The existing channel is not what was asked for. Code {@code differs}. */
public final class ChannelDiffersException extends FlyringException {
    private static final long serialVersionUID = 1L;
    private static final int MOST = 200;
    private static final String ELLIPSIS = "...";

    /** The first field that differs. */
    private final String field;

    /** What was asked for. */
    private final String expected;

    /** What the file has. */
    private final String actual;

    ChannelDiffersException(String field, String expected, String actual, String message) {
        super("differs", message);
        this.field = field;
        this.expected = cut(expected);
        this.actual = cut(actual);
    }

    /** A schema may be long. */
    private static String cut(String text) {
        return text.length() <= MOST ? text : text.substring(0, MOST - ELLIPSIS.length()) + ELLIPSIS;
    }

    /**
     * The first field that differs.
     *
     * @return the first field that differs.
     */
    public String field() {
        return field;
    }

    /**
     * What was asked for.
     *
     * @return what was asked for.
     */
    public String expected() {
        return expected;
    }

    /**
     * What the file has.
     *
     * @return what the file has.
     */
    public String actual() {
        return actual;
    }
}
