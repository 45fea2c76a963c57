// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import io.flyring.Channel;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;

/** The counter demo: two processes raise one mapped counter in turn, ping to odd values, pong to even ones. */
final class CounterDemo {
    private static final VarHandle LONG = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final int FILE_LENGTH = 4096;
    private static final long ENDED = -1;

    private final Options options;
    private final Path file;
    private final Patience patience;

    CounterDemo(Options options) {
        this.options = options;
        this.patience = new Patience(options, options.ping ? "pong" : "ping");
        Path ring = Path.of(Channel.pathOf(options.channel));
        this.file = options.channel.contains("/") ? Path.of(options.channel + ".counter")
            : ring.resolveSibling(options.channel + ".counter");
    }

    void run() throws IOException {
        if (options.ping) {
            ping();
        } else {
            pong();
        }
    }

    private static ByteBuffer map(Path path) throws IOException {
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            return channel.map(FileChannel.MapMode.READ_WRITE, 0, FILE_LENGTH);
        }
    }

    private void ping() throws IOException {
        Files.createDirectories(file.toAbsolutePath().getParent(),
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        Path temporary = file.resolveSibling(file.getFileName() + "." + ProcessHandle.current().pid());
        Files.write(temporary, new byte[FILE_LENGTH]);
        Files.move(temporary, file, StandardCopyOption.ATOMIC_MOVE);
        ByteBuffer memory = map(file);
        try {
            measure(memory);
        } finally {
            LONG.setVolatile(memory, 0, ENDED);
            Files.deleteIfExists(file);
        }
    }

    private void measure(ByteBuffer memory) throws IOException {
        Report report = new Report(options, "counter ping");
        rounds(memory, 0, options.warmup, null);
        long start = System.nanoTime();
        rounds(memory, options.warmup, options.count, options.untimed ? null : report);
        report.print(System.nanoTime() - start);
    }

    /** Runs rounds {@code first} to {@code first + count - 1}: ping raises 2i to 2i + 1, pong 2i + 1 to 2i + 2. */
    private void rounds(ByteBuffer memory, long first, long count, Report report) {
        double spacing = report != null && options.rate > 0 ? Options.NANOS / options.rate : 0;
        long start = System.nanoTime();
        for (long i = 0; i < count; i++) {
            long begin = report == null ? 0 : System.nanoTime();
            if (spacing > 0) {
                long due = start + (long) (i * spacing);
                while (System.nanoTime() < due) {
                    Thread.onSpinWait();
                }
                begin = due;
            }
            long even = 2 * (first + i);
            if (!LONG.compareAndSet(memory, 0, even, even + 1)) {
                throw new Demo.Failed("The counter was not " + even + ": another process writes " + file + ".");
            }
            patience.reset();
            while ((long) LONG.getVolatile(memory, 0) != even + 2) {
                patience.idle();
            }
            if (report != null) {
                report.record(System.nanoTime() - begin);
            }
        }
    }

    private void pong() throws IOException {
        ByteBuffer memory = null;
        while (memory == null) {
            try {
                memory = map(file);
            } catch (NoSuchFileException e) {
                patience.idle();
            }
        }
        patience.reset();
        long value = (long) LONG.getVolatile(memory, 0);
        while (value >= 0) {
            if ((value & 1) == 1 && LONG.compareAndSet(memory, 0, value, value + 1)) {
                patience.reset();
            } else {
                patience.idle();
            }
            value = (long) LONG.getVolatile(memory, 0);
        }
    }
}
