// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Properties;

/** The versions of the libraries in the build. */
final class Versions {
    private Versions() {
    }

    static String of(String library) {
        Properties versions = new Properties();
        try (InputStream in = Versions.class.getResourceAsStream("versions.properties")) {
            versions.load(in);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return versions.getProperty(library, library);
    }

    static String runtime() {
        return System.getProperty("java.vm.name") + " " + Runtime.version();
    }
}
