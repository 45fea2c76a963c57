// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.abort;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Machines that lack space, permission, or a suitable file system. */
class MachineTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private static String run(String... command) throws Exception {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes()).trim();
        return process.waitFor() == 0 ? null : String.join(" ", command) + ": " + output;
    }

    @Test
    void aFullFileSystemIsSaidToBeFullWithTheBytesNeededAndFree() throws Exception {
        Path small = Files.createDirectory(rings.folder().resolve("small"));
        String failure = run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small.toString());
        if (failure != null) {
            abort("no file system of 1 MiB can be mounted here: " + failure);
        }
        try {
            String path = small.resolve("big.ring").toString();
            NoSpaceException error = assertThrows(NoSpaceException.class,
                () -> Channel.create(path, ChannelOptions.inbox()));
            assertEquals(4_259_840, error.needed());
            assertEquals(1 << 20, error.free());
            Channel.create(path, ChannelOptions.inbox().publishers(1).capacity(1 << 19).counters(0)).close();
            NoSpaceException full = assertThrows(NoSpaceException.class,
                () -> Channel.replace(path, ChannelOptions.inbox().publishers(1).capacity(1 << 19).counters(0)));
            assertTrue(full.free() < 1 << 19, "free " + full.free());
            try (Stream<Path> left = Files.list(small)) {
                assertEquals(List.of("big.ring"), left.map(file -> file.getFileName().toString()).toList());
            }
        } finally {
            // A lazy unmount: mappings stay until the garbage collector has found them.
            assertEquals(null, run("umount", "-l", small.toString()));
        }
    }

    @Test
    void aLimitOfFileSizesIsNoSpaceAndNoSignal() throws Exception {
        List<String> command = new ArrayList<>(List.of("sh", "-c", "ulimit -f 1000; exec \"$@\"", "sh"));
        command.addAll(Rings.java(Child.class, "create", rings.path("long.ring")).command());
        command.add(5, "-XX:-UsePerfData"); // perf data would be a file, too
        Process child = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        String output = new String(child.getInputStream().readAllBytes()).trim();
        assertEquals(0, child.waitFor(), output);
        assertEquals("no-space", output);
        assertEquals(List.of(), rings.files());
    }

    @Test
    void anotherUserIsDeniedAccess() throws Exception {
        if (Sys.effectiveUser() != 0) {
            abort("only root can become another user");
        }
        Files.setPosixFilePermissions(rings.folder(), PosixFilePermissions.fromString("rwxr-xr-x"));
        String path = rings.path("ours.ring");
        Channel.create(path, ChannelOptions.broadcast()).close();
        ProcessBuilder builder = Rings.java(Child.class, "try", path);
        List<String> command = builder.command();
        command.set(command.indexOf("-cp") + 1, readableClassPath());
        command.add(1, "-Djna.tmpdir=/tmp");
        command.addAll(0, List.of("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"));
        Process child = builder.directory(new File("/")).start();
        String output = new String(child.getInputStream().readAllBytes()).trim();
        assertEquals(0, child.waitFor(), output);
        assertEquals(List.of("access-denied", "access-denied", "access-denied"), output.lines().toList());
        assertEquals(List.of("classes", "ours.ring"), rings.files());
    }

    @Test
    void aTruncatedFileIsAnErrorAndNoCrash() throws Exception {
        Channel.create(rings.path("cut.ring"), ChannelOptions.broadcast()).close();
        Process child = Rings.java(Child.class, "truncate", rings.path("cut.ring")).start();
        String output = new String(child.getInputStream().readAllBytes()).trim();
        assertEquals(0, child.waitFor(), output);
        assertEquals("survived", output);
    }

    /** A class path of copies that every user may read. */
    private String readableClassPath() throws Exception {
        Path folder = Files.createDirectory(rings.folder().resolve("classes"));
        List<String> parts = new ArrayList<>();
        for (String part : Rings.classPath().split(File.pathSeparator)) {
            Path from = Path.of(part);
            if (Files.isDirectory(from)) {
                Path to = folder.resolve(String.valueOf(parts.size()));
                try (Stream<Path> files = Files.walk(from)) {
                    for (Path file : files.toList()) {
                        Files.copy(file, to.resolve(from.relativize(file)), StandardCopyOption.COPY_ATTRIBUTES);
                    }
                }
                parts.add(to.toString());
            } else if (part.contains("agrona") || part.contains("jna") || part.contains("flyring")) {
                parts.add(Files.copy(from, folder.resolve(parts.size() + ".jar")).toString());
            }
        }
        assertEquals(null, run("chmod", "-R", "a+rX", folder.toString()));
        return String.join(File.pathSeparator, parts);
    }

    @Test
    void aFileSystemThatIsNotKnownToWorkIsRefused() {
        UnsuitableFileSystemException error = assertThrows(UnsuitableFileSystemException.class, () -> {
            ChannelFile file = ChannelFile.open("/proc/self/comm", true);
            try {
                file.checkFileSystem(true);
                file.checkFileSystem(false);
            } finally {
                file.close();
            }
        });
        assertEquals("type 0x9fa0", error.reason());
    }

    @Test
    void btrfsIsRefusedByNameAndOverlayNeedsAFileThatCanBeWritten() {
        long btrfs = 0x9123683EL;
        long overlay = 0x794C7630L;
        Channel.create(rings.path("l.ring"), ChannelOptions.broadcast()).close();
        try (ChannelFile writing = ChannelFile.open(rings.path("l.ring"), false);
            ChannelFile reading = ChannelFile.open(rings.path("l.ring"), true)) {
            assertEquals("btrfs: when its disk is full, a store may never return",
                assertThrows(UnsuitableFileSystemException.class, () -> writing.checkSuited(btrfs)).reason());
            writing.checkSuited(overlay);
            assertEquals("overlay: a reader may keep an old copy", assertThrows(UnsuitableFileSystemException.class,
                () -> reading.checkSuited(overlay)).reason());
        }
    }

    @Test
    void locksOfOneDescriptionAreSeenByAnother() {
        Channel.create(rings.path("l.ring"), ChannelOptions.broadcast()).close();
        try (Channel channel = Channel.open(rings.path("l.ring")); Lock one = channel.file().newLock();
            Lock two = channel.file().newLock()) {
            assertTrue(one.tryLock(5000));
            assertTrue(one.tryLock(5000));
            assertTrue(two.heldByAnother(5000));
            assertEquals(List.of(false, true), List.of(two.tryLock(5000), two.tryLock(5001)));
            one.unlock(5000);
            assertEquals(List.of(false, true), List.of(two.heldByAnother(5000), two.tryLock(5000)));
        }
    }

    @Test
    void addressesLeadToTheMemory() {
        ByteBuffer direct = ByteBuffer.allocateDirect(64).order(ByteOrder.nativeOrder());
        direct.putLong(8, 4711);
        direct.position(20);
        ByteBuffer again = Sys.bufferAt(Sys.address(direct) + 8, 16).order(ByteOrder.nativeOrder());
        assertEquals(4711, again.getLong(0));
        assertEquals(16, again.capacity());
        assertTrue(Sys.pageSize() >= 4096);
    }
}
