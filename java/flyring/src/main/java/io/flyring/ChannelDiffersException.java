// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The existing channel differs from what was asked for. Code {@code differs}. */
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

    /** Cuts a text to at most 200 characters: a schema may be long. */
    private static String cut(String text) {
        return text.length() <= MOST ? text : text.substring(0, MOST - ELLIPSIS.length()) + ELLIPSIS;
    }

    /**
     * The first field that differs.
     *
     * @return the field's name.
     */
    public String field() {
        return field;
    }

    /**
     * What was asked for.
     *
     * @return the value, as a text of at most 200 characters.
     */
    public String expected() {
        return expected;
    }

    /**
     * What the file has.
     *
     * @return the value, as a text of at most 200 characters.
     */
    public String actual() {
        return actual;
    }
}
