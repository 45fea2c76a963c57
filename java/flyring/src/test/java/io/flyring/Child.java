// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import com.sun.jna.Function;
import io.flyring.sbe.Dispatcher;
import java.io.FileInputStream;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.BusySpinIdleStrategy;
import org.agrona.concurrent.SleepingIdleStrategy;
import org.agrona.concurrent.YieldingIdleStrategy;
import prices.PriceUpdateDecoder;
import prices.PriceUpdateEncoder;

/**
 * The programs that other processes run in the tests: {@code Child WHAT PATH}. Prints "ready", and then waits to be
 * killed.
 */
final class Child {
    private static final int ROUNDS = 100;

    private Child() {
    }

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "claim" -> claim(Channel.open(arguments[1]).publisher("mortal"));
            case "claim-to-end" -> claimAtEnd(Channel.open(arguments[1]).publisher("mortal"), 128, 120);
            case "claim-over-end" -> claimAtEnd(Channel.open(arguments[1]).publisher("mortal"), 64, 200);
            case "commit-later" -> {
                commitLater(Channel.open(arguments[1]).publisher("mortal"));
                return;
            }
            case "table-writer" -> writeTable(Table.open(arguments[1]));
            case "journal-writer" -> writeJournal(Journal.open(arguments[1]));
            case "beat" -> beat(Channel.open(arguments[1]));
            case "watch" -> {
                watch(Channel.open(arguments[1]));
                return;
            }
            case "batch" -> batch(Channel.open(arguments[1]).publisher("mortal"));
            case "subscribe" -> Channel.open(arguments[1]).subscriber("mortal", false);
            case "keep" -> keep(Channel.open(arguments[1]).subscriber("mortal", true));
            case "stream" -> stream(Channel.open(arguments[1]).publisher());
            case "work" -> {
                work(Channel.open(arguments[1]).worker("victim"), Integer.parseInt(arguments[2]),
                    Integer.parseInt(arguments[3]));
                return;
            }
            case "work-on" -> workOn(Channel.open(arguments[1]), Channel.open(arguments[2]));
            case "serve" -> serve(Channel.open(arguments[1]).server("child", Duration.ofSeconds(20)), -1);
            case "serve-and-die" -> serve(Channel.open(arguments[1]).server("child", Duration.ofSeconds(20)),
                Integer.parseInt(arguments[2]));
            case "ask" -> ask(Channel.open(arguments[1]).client(), Integer.parseInt(arguments[2]));
            case "everything" -> everything(arguments[1]);
            case "try" -> {
                System.out.println(outcome(() -> Channel.open(arguments[1])));
                System.out.println(outcome(() -> Channel.unlink(arguments[1])));
                System.out.println(outcome(() -> Channel.create(arguments[1] + "2", ChannelOptions.broadcast())));
                return;
            }
            case "no-descriptors" -> {
                noDescriptors(Channel.open(arguments[1]).publisher());
                return;
            }
            case "create" -> {
                System.out.println(outcome(() -> Channel.create(arguments[1], ChannelOptions.broadcast())));
                return;
            }
            case "pong-without-membarrier" -> {
                refuse(Linux.SYS_MEMBARRIER);
                pong(Channel.open(arguments[1]));
                return;
            }
            case "ping-without-membarrier" -> {
                refuse(Linux.SYS_MEMBARRIER);
                System.out.println("ready");
                ping(Channel.open(arguments[1]), ROUNDS);
                System.out.println("done");
                return;
            }
            case "set-without-futex_waitv" -> {
                refuse(Linux.SYS_FUTEX_WAITV);
                readBySet(Channel.open(arguments[1]).subscriber("", false, 0));
                return;
            }
            case "truncate" -> {
                truncate(arguments[1]);
                return;
            }
            default -> throw new IllegalArgumentException(arguments[0]);
        }
        System.out.println("ready");
        if (System.in.read() == -1) {
            System.exit(0);
        }
    }

    /** Puts and removes keys until it is killed. Each value is the same byte throughout. */
    private static void writeTable(Table table) {
        PayloadBuffer value = new PayloadBuffer();
        value.wrap(new byte[200]);
        try (TableWriter writer = table.writer("mortal", Duration.ofSeconds(20))) {
            System.out.println("ready");
            for (int i = 0; true; i++) {
                int length = 100 + i % 100;
                value.setMemory(0, length, (byte) i);
                if (i % 5 == 4) {
                    writer.remove(i % 7);
                } else {
                    writer.put(i % 7, value, 0, length);
                }
            }
        }
    }

    /** Appends to a journal until it is killed. Each message has its number, and its last byte throughout. */
    private static void writeJournal(Journal journal) {
        PayloadBuffer bytes = new PayloadBuffer();
        bytes.wrap(new byte[2000]);
        try (JournalWriter writer = journal.writer("mortal", Duration.ofSeconds(20))) {
            System.out.println("ready");
            while (true) {
                long number = writer.number();
                int length = 8 + (int) (number * 37 % 1900);
                bytes.setMemory(8, length - 8, (byte) number);
                bytes.putLong(0, number);
                writer.append(bytes, 0, length);
            }
        }
    }

    private static void beat(Channel channel) {
        Heartbeat heart = new Heartbeat(channel, "loop", Duration.ofMillis(250));
        for (int i = 0; i < 5; i++) {
            heart.beat();
        }
    }

    /** Watches a stretch and a heartbeat of 2 s that never end, and prints what the watchdog tells. */
    private static void watch(Channel channel) throws IOException, InterruptedException {
        Watchdog watchdog = new Watchdog(channel,
            missed -> System.out.println(missed.kind() + " " + missed.label() + " " + missed.times() + " "
                + missed.late() / 1_000_000),
            Duration.ofMillis(50), Duration.ZERO);
        Canary canary = new Canary(watchdog, "stretch", Duration.ofSeconds(2));
        Heartbeat heart = new Heartbeat(channel, "loop", Duration.ofSeconds(2));
        canary.begin();
        Thread.sleep(200);
        System.out.println("ready");
        System.in.read();
        heart.close();
    }

    /** Answers requests by their own bytes; hangs in a request that asks for it, and dies in request {@code dieAt}. */
    private static void serve(Server server, int dieAt) {
        System.out.println("ready");
        int[] seen = {0};
        server.serve(request -> {
            if (Services.text(request).equals("hang")) {
                Thread.sleep(Long.MAX_VALUE);
            }
            if (++seen[0] == dieAt) {
                Runtime.getRuntime().halt(9); // runs no more code, and the kernel closes all descriptors
            }
            Services.echo(request);
        });
    }

    /** Makes {@code calls} calls; the last one is a stream if there are several. */
    private static void ask(Client client, int calls) {
        for (int i = 0; i < calls; i++) {
            client.start(Services.bytes("ask"));
        }
        if (calls > 1) {
            client.stream(Services.bytes("ask"), 1, 3, Publisher.FOREVER);
        }
    }

    /** Makes a system call fail from now on, in this thread and those that it starts. */
    private static void refuse(int number) {
        final int allow = 0x7fff0000;
        final int fail = 0x00050000 | Linux.EPERM;
        ByteBuffer program = ByteBuffer.allocateDirect(4 * Long.BYTES).order(ByteOrder.nativeOrder());
        program.putShort((short) 0x20).put((byte) 0).put((byte) 0).putInt(0); // the call's number
        program.putShort((short) 0x15).put((byte) 0).put((byte) 1).putInt(number); // is it this one?
        program.putShort((short) 0x06).put((byte) 0).put((byte) 0).putInt(fail);
        program.putShort((short) 0x06).put((byte) 0).put((byte) 0).putInt(allow);
        ByteBuffer filter = ByteBuffer.allocateDirect(2 * Long.BYTES).order(ByteOrder.nativeOrder());
        filter.putShort(0, (short) 4).putLong(Long.BYTES, Sys.address(program));
        Function prctl = Function.getFunction("c", "prctl");
        final int noNewPrivileges = 38;
        final int secureComputing = 22;
        if (prctl.invokeInt(new Object[] {noNewPrivileges, 1L, 0L, 0L, 0L}) != 0
            || prctl.invokeInt(new Object[] {secureComputing, 2L, Sys.address(filter), 0L, 0L}) != 0) {
            throw new IllegalStateException("prctl");
        }
        if (Sys.membarrier(0) >= 0 == (number == Linux.SYS_MEMBARRIER)) { // 0 queries the commands
            throw new IllegalStateException("it is not the call that is refused");
        }
    }

    /** Answers each message of ring 0. */
    private static void pong(Channel channel) {
        Publisher publisher = channel.publisher();
        while (publisher.ring() != 1) { // ring 0 belongs to the other process
            Publisher second = channel.publisher();
            publisher.close();
            publisher = second;
        }
        Subscriber subscriber = channel.subscriber("", false, 0);
        subscriber.setSpin(Duration.ZERO);
        System.out.println("ready");
        for (int i = 0; i < ROUNDS; i++) {
            publisher.offer(subscriber.take(Publisher.FOREVER).toByteArray());
        }
        System.out.println("done");
    }

    /** Sends a message and sleeps until the answer comes. */
    static int ping(Channel channel, int rounds) {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber("", false, 1)) {
            subscriber.setSpin(Duration.ZERO);
            for (int i = 1; i <= rounds; i++) {
                publisher.offer(new byte[i]);
                if (subscriber.take(Publisher.FOREVER).length() != i) {
                    return i;
                }
            }
            return rounds;
        }
    }

    /** Takes some jobs at once, finishes some of them, and continues with the next one on request. */
    private static void work(Worker worker, int take, int finish) {
        int[] done = {0};
        worker.poll(job -> {
            if (done[0]++ == finish) {
                System.out.println("ready");
                try {
                    if (System.in.read() < 0) {
                        System.exit(0);
                    }
                } catch (IOException e) {
                    throw new IllegalStateException(e);
                }
            }
        }, take);
        System.out.println("done");
    }

    /** Reports the number and attempts of each job; releases some jobs, once. */
    private static void workOn(Channel queue, Channel results) {
        final int often = 17;
        Worker worker = queue.worker();
        Publisher publisher = results.publisher();
        ByteBuffer result = ByteBuffer.allocate(2 * Long.BYTES);
        System.out.println("ready");
        while (true) {
            worker.poll(job -> {
                long number = job.buffer().getLong(0);
                result.putLong(0, number).putLong(Long.BYTES, job.attempts());
                publisher.send(result.array());
                if (number % often == 3 && !job.repeat()) {
                    job.release();
                }
            }, 3, Duration.ofMillis(5));
        }
    }

    private static void readBySet(Subscriber subscriber) {
        WaitSet set = new WaitSet().add(subscriber);
        System.out.println(set.naps() ? "naps" : "sleeps");
        while (true) {
            set.await();
            while (subscriber.take() != null) {
                System.out.println("got");
            }
        }
    }

    private static String outcome(Runnable action) {
        try {
            action.run();
            return "ok";
        } catch (FlyringException e) {
            return e.code();
        }
    }

    /** Waits for a dead subscriber while no file can be opened. */
    private static void noDescriptors(Publisher publisher) {
        while (publisher.offer(new byte[500]) > 0) {
            Thread.onSpinWait();
        }
        List<FileInputStream> files = new ArrayList<>();
        try {
            while (files.size() < 1000) {
                files.add(new FileInputStream("/dev/null"));
            }
        } catch (IOException e) { // no descriptor is left
            long end = System.nanoTime() + 5_000_000_000L;
            while (publisher.offer(new byte[500]) < 0) {
                if (System.nanoTime() > end) {
                    throw new IllegalStateException("still held back");
                }
            }
            System.out.println("room");
        }
    }

    private static void claim(Publisher publisher) {
        for (int i = 0; i < 3; i++) {
            publisher.offer(Rings.pattern(i, 100));
        }
        Claim claim = publisher.claim(200);
        claim.buffer().setMemory(0, 150, (byte) 0x55);
    }

    /** Claims where {@code left} bytes are left before the ring's end, and writes a part. */
    private static void claimAtEnd(Publisher publisher, int left, int length) {
        while ((publisher.position() & 4095) != 4096 - left) {
            publisher.offer(new byte[40]);
        }
        Claim claim = publisher.tryClaim(length);
        while (claim == null) {
            Thread.onSpinWait();
            claim = publisher.tryClaim(length);
        }
        claim.buffer().setMemory(0, length - 10, (byte) 0x55);
    }

    private static void commitLater(Publisher publisher) throws IOException {
        Claim claim = publisher.claim(20);
        claim.buffer().setMemory(0, 20, (byte) 7);
        System.out.println("ready");
        if (System.in.read() >= 0) {
            claim.commit();
            System.out.println("committed");
        }
    }

    /** Publishes a batch that never ends: reading its last message blocks. */
    private static void batch(Publisher publisher) {
        DirectBuffer endless = (DirectBuffer) Proxy.newProxyInstance(Child.class.getClassLoader(),
            new Class<?>[] {DirectBuffer.class}, (proxy, method, arguments) -> {
                if (method.getName().startsWith("get")) {
                    System.out.println("ready");
                    Thread.sleep(Long.MAX_VALUE);
                }
                return method.getReturnType() == int.class ? 24 : null;
            });
        PayloadBuffer whole = new PayloadBuffer();
        whole.wrap(Rings.pattern(1, 30));
        publisher.offer(whole, 0, 30);
        publisher.offerBatch(whole, whole, whole, endless);
    }

    /** Reads memory of a truncated file, interpreted and compiled. */
    private static void truncate(String path) throws IOException {
        Subscriber subscriber = Channel.open(path).subscriber();
        for (int i = 0; i < 100_000; i++) {
            subscriber.poll(message -> { });
        }
        try (FileChannel file = FileChannel.open(Path.of(path), StandardOpenOption.WRITE)) {
            file.truncate(Layout.HEADER_LENGTH);
        }
        int faults = 0;
        for (int i = 0; i < 100; i++) {
            try {
                subscriber.poll(message -> { });
            } catch (InternalError e) {
                faults++;
            }
        }
        System.out.println(faults > 0 ? "survived" : "nothing happened");
    }

    private static void keep(Subscriber subscriber) {
        for (int got = 0; got < 2;) {
            got += subscriber.poll(message -> { }, 1);
        }
    }

    private static void stream(Publisher publisher) {
        byte[] bytes = new byte[Long.BYTES];
        for (long i = 0; i < 200_000; i++) {
            ByteBuffer.wrap(bytes).putLong(i);
            while (publisher.offer(bytes) < 0) {
                Thread.onSpinWait();
            }
        }
    }

    /** Uses every class of the binding once. */
    private static void typed(Publisher publisher, Subscriber subscriber) {
        Schema.parse("<messageSchema id='7'/>");
        PriceUpdateEncoder encoder = new PriceUpdateEncoder();
        Claim claim = publisher.claim(encoder);
        encoder.bid(1).instrument().symbol("FLYR");
        claim.commit();
        subscriber.poll(new Dispatcher().on(new PriceUpdateDecoder(), (decoder, message) -> decoder.toString()), 10);
    }

    private static void everything(String path) {
        try (Channel channel = Channel.create(path, ChannelOptions.inbox().capacity(4096).schema("<x/>", 1, 1));
            Channel second = Channel.openOrCreate(path,
                ChannelOptions.inbox().capacity(4096).schema("<x/>", 1, 1));
            Publisher publisher = channel.publisher("p"); Subscriber subscriber = second.subscriber();
            LossySubscriber lossy = Rings.openReadOnly(path).lossySubscriber(Start.OLDEST)) {
            Counter counter = channel.counters().allocate("c", 1, new byte[4]);
            counter.getAndAdd(second.counters().find("c").get() + 1);
            PayloadBuffer source = new PayloadBuffer();
            source.wrap(new byte[1000]);
            source.putStringUtf8(0, "text");
            source.putIntAscii(100, source.parseIntAscii(200 - source.putIntAscii(198, 17), 2));
            for (int i = 0; i < 1000; i++) {
                publisher.offer(source, 0, i);
                publisher.offer(ByteBuffer.allocateDirect(i), 2);
                publisher.offerBatch(source);
                Claim claim = publisher.tryClaim(i);
                if (claim != null) {
                    claim.buffer().putBytes(0, source, 0, i);
                    claim.commit();
                }
                subscriber.poll(message -> message.buffer().getBytes(0, source, 0, message.length()), 3);
                subscriber.take();
                if (lossy.peek() != null) {
                    lossy.valid();
                }
                lossy.poll(message -> message.sender().name().length());
            }
            typed(publisher, subscriber);
            publisher.heldBy();
            channel.evict(0);
            new BackoffIdleStrategy().idle();
            new BusySpinIdleStrategy().idle();
            new YieldingIdleStrategy().idle();
            new SleepingIdleStrategy().idle();
        }
        Channel.replace(path, ChannelOptions.broadcast()).close();
        Channel.unlink(path);
    }
}
