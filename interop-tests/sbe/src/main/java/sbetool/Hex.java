// SPDX-License-Identifier: Apache-2.0
package sbetool;

import java.util.HexFormat;

/** Bytes as hexadecimal digits. */
final class Hex {
    private Hex() {}

    static String of(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    static byte[] bytes(String digits) {
        return HexFormat.of().parseHex(digits);
    }
}
