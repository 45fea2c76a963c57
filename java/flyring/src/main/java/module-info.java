// SPDX-License-Identifier: Apache-2.0

/** Messages between processes of one machine through memory-mapped files; start with {@link io.flyring.Channel}. */
module io.flyring {
    requires transitive org.agrona;
    requires com.sun.jna;
    requires transitive java.management; // ChannelMetrics
    requires java.xml;
    requires jdk.unsupported; // access to memory by address, before Java 22

    exports io.flyring;
    exports io.flyring.sbe;
}
