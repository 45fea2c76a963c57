// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Consumer;
import org.agrona.DirectBuffer;

/**
 * Stops one operation after its k-th store to the channel, for every k, and checks from a new attachment what it left.
 * Run by {@link StoreByStoreTest} with counting copies of the memory classes: {@code StoreByStore FOLDER}.
 */
final class StoreByStore {
    private static final int CAPACITY = 4096;
    private static final long PATIENCE = 5_000_000_000L;
    private static final String KEEPER = "keeper";

    private final Path path;
    private final int alignment;
    private byte[] bytes;
    private int checks;
    /** The number of stores that the operation made. */
    private int stores;
    /** The number of messages that the kept subscriber has read before and during the operation. */
    private int read;
    private int consumed;

    /** An operation: its preparation, its action, and the visible effects that it may have. */
    private static final class Scenario {
        private final String name;
        /**
         * The lengths of the messages that it publishes; they become visible together, except a batch at the ring's
         * end.
         */
        private final int[] lengths;
        /** The largest number of bytes to the ring's end before the operation. */
        private int left = 1500;
        /** The number of messages in the ring before the operation. */
        private int before;
        /** Whether the operation evicts or forgets the slot of "keeper". */
        private boolean keeperMayGo;
        private Consumer<Process> prepare = process -> { };
        private Consumer<Process> act;

        Scenario(String name, int... lengths) {
            this.name = name;
            this.lengths = lengths;
        }
    }

    /** The process that dies: a channel, and the objects made from it. */
    private static final class Process {
        private final Channel channel;
        private Publisher publisher;
        private Subscriber subscriber;
        private Claim claim;
        private int seen;

        Process(Channel channel) {
            this.channel = channel;
        }
    }

    private StoreByStore(Path path, int alignment) {
        this.path = path;
        this.alignment = alignment;
    }

    public static void main(String[] arguments) throws Exception {
        int scenarios = 0;
        int points = 0;
        int checks = 0;
        for (int alignment : new int[] {64, 8}) {
            StoreByStore all = new StoreByStore(Path.of(arguments[0], "steps.ring"), alignment);
            for (Scenario scenario : scenarios()) {
                int stores = all.run(scenario);
                System.out.println(scenario.name + ", alignment " + alignment + ": " + stores + " stores");
                scenarios++;
                points += stores + 1;
            }
            checks += all.checks;
        }
        System.out.println("done: " + scenarios + " scenarios, " + points + " points, " + checks + " checks");
    }

    private static PayloadBuffer buffer(int sequence, int length) {
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(Rings.pattern(sequence, length));
        return buffer;
    }

    private static int usual(int sequence) {
        return 8 + 5 * sequence % 41;
    }

    private static void need(boolean good, String what) {
        if (!good) {
            throw new IllegalStateException(what);
        }
    }

    private static void offer(Publisher publisher, int sequence, int length) {
        need(publisher.offer(buffer(sequence, length), 0, length, 1 + sequence) > 0, "back-pressured");
    }

    private static List<Scenario> scenarios() {
        List<Scenario> all = new ArrayList<>();
        Consumer<Process> attach = process -> process.publisher = process.channel.publisher("pub");
        publishing(all, attach);
        Scenario take = add(all, "take and recover");
        take.act = attach;
        Scenario renamed = add(all, "take under another name");
        renamed.act = process -> process.publisher = process.channel.publisher("new");
        Scenario close = add(all, "close");
        close.prepare = attach;
        close.act = process -> process.publisher.close();
        Scenario closeClaiming = add(all, "close with a claim");
        closeClaiming.prepare = process -> {
            attach.accept(process);
            process.publisher.claim(100);
        };
        closeClaiming.act = process -> process.publisher.close();
        subscribing(all);
        return all;
    }

    private static Scenario add(List<Scenario> all, String name, int... lengths) {
        Scenario scenario = new Scenario(name, lengths);
        all.add(scenario);
        return scenario;
    }

    private static void publishing(List<Scenario> all, Consumer<Process> attach) {
        for (int left : new int[] {1500, 704, 640, 576, 60}) { // cleared space and an owner record precede the message
            for (int[] lengths : new int[][] {{30}, {200}, {1000}}) {
                Scenario offer = add(all, "offer of " + lengths[0] + ", " + left + " left", lengths);
                offer.left = left;
                offer.prepare = attach;
                offer.act = process -> offer(process.publisher, offer.before, lengths[0]);
            }
        }
        Scenario second = add(all, "second offer", 30);
        second.prepare = process -> {
            attach.accept(process);
            process.publisher.claim(10).abort();
        };
        second.act = process -> offer(process.publisher, second.before, 30);
        Scenario prefetch = add(all, "offer between prefetches", 30);
        prefetch.prepare = second.prepare;
        prefetch.act = process -> {
            process.publisher.prefetch();
            offer(process.publisher, prefetch.before, 30);
            process.publisher.prefetch();
        };
        Scenario claim = add(all, "claim");
        claim.prepare = attach;
        claim.act = process -> process.publisher.claim(100);
        Scenario commit = add(all, "commit", 100);
        commit.prepare = process -> {
            attach.accept(process);
            process.claim = process.publisher.claim(100, 1 + commit.before);
            process.claim.buffer().putBytes(0, Rings.pattern(commit.before, 100));
        };
        commit.act = process -> process.claim.commit();
        Scenario abort = add(all, "abort");
        abort.prepare = process -> {
            attach.accept(process);
            process.claim = process.publisher.claim(100);
        };
        abort.act = process -> process.claim.abort();
        for (int left : new int[] {1500, 900, 640}) {
            Scenario batch = add(all, "batch, " + left + " left", 10, 60, 0, 90, 300);
            batch.left = left;
            batch.prepare = attach;
            batch.act = process -> {
                DirectBuffer[] messages = new DirectBuffer[5];
                for (int i = 0; i < messages.length; i++) {
                    messages[i] = buffer(batch.before + i, batch.lengths[i]);
                }
                int taken = process.publisher.offerBatch(messages, 0, messages.length, 1000);
                need(taken == messages.length, "only " + taken + " taken");
            };
        }
    }

    private static void subscribing(List<Scenario> all) {
        Scenario join = add(all, "join");
        join.act = process -> process.subscriber = process.channel.subscriber();
        Scenario joinKept = add(all, "join, kept");
        joinKept.act = process -> process.subscriber = process.channel.subscriber("other", true);
        Scenario resume = add(all, "resume");
        resume.act = process -> process.subscriber = process.channel.subscriber(KEEPER, true);
        Scenario poll = add(all, "poll");
        poll.prepare = resume.act;
        poll.act = process -> process.subscriber.poll(message -> process.seen++);
        Scenario leave = add(all, "leave");
        leave.prepare = join.act;
        leave.act = process -> process.subscriber.close();
        Scenario closeKept = add(all, "close, kept");
        closeKept.prepare = resume.act;
        closeKept.act = leave.act;
        Scenario forget = add(all, "forget");
        forget.prepare = resume.act;
        forget.act = process -> process.subscriber.forget();
        forget.keeperMayGo = true;
        Scenario evict = add(all, "evict");
        evict.act = process -> process.channel.evict(0);
        evict.keeperMayGo = true;
        Scenario lost = add(all, "a poll that finds its slot evicted");
        lost.prepare = process -> {
            resume.act.accept(process);
            process.channel.evict(0);
        };
        lost.act = process -> {
            try {
                process.subscriber.take();
            } catch (SlotLostException e) {
                process.seen = 0;
            }
        };
        lost.keeperMayGo = true;
        Scenario afterEvict = add(all, "join of a kept slot that was evicted");
        afterEvict.prepare = evict.act;
        afterEvict.act = resume.act;
        afterEvict.keeperMayGo = true;
    }

    /** Runs the scenario for every k; returns the number of stores of the operation. */
    private int run(Scenario scenario) throws IOException {
        base(scenario);
        bytes = Files.readAllBytes(path);
        once(scenario, Long.MAX_VALUE);
        int all = stores;
        int published = 0;
        int commits = 0;
        for (int k = 0; k <= all; k++) {
            try {
                boolean died = once(scenario, k);
                need(died == k < all, "died: " + died);
                int now = check(scenario);
                need(now >= published, "what was committed is gone");
                need(k < all || now == scenario.lengths.length, "of what was published only " + now + " are there");
                commits += now > published ? 1 : 0;
                need(commits <= (scenario.left < 1000 ? 2 : 1), "it was committed in parts");
                published = now;
            } catch (RuntimeException | AssertionError e) {
                throw new IllegalStateException(scenario.name + ", alignment " + alignment + ", after store " + k
                    + " of " + all + ": " + e, e);
            }
            checks++;
        }
        return all;
    }

    /** Runs the scenario once, up to a store; returns whether it died there. */
    private boolean once(Scenario scenario, long limit) throws IOException {
        Files.write(path, bytes);
        Process process = new Process(Channel.open(path.toString()));
        scenario.prepare.accept(process);
        Stores.live(limit);
        boolean died = false;
        try {
            scenario.act.accept(process);
        } catch (Stores.Death e) {
            died = true;
        }
        stores = (int) Stores.seen();
        consumed = process.seen;
        Stores.live(Long.MAX_VALUE);
        Stores.dropLocks();
        process.channel.file().close();
        return died;
    }

    /** Prepares a ring with messages, of which the kept subscriber has not read the last few. */
    private void base(Scenario scenario) throws IOException {
        Files.deleteIfExists(path);
        scenario.before = 0;
        try (Channel channel = Channel.create(path.toString(), ChannelOptions.broadcast().capacity(CAPACITY)
            .publishers(1).subscribers(3).counters(0).alignment(alignment));
            Subscriber keeper = channel.subscriber(KEEPER, true); Publisher publisher = channel.publisher("pub")) {
            while (CAPACITY - publisher.position() > scenario.left) {
                offer(publisher, scenario.before, usual(scenario.before++));
                need(scenario.before <= 5 || keeper.take() != null, "nothing to take");
            }
            read = scenario.before - 5;
        }
    }

    /** Checks what must hold after a death; returns how many of the scenario's messages are there. */
    private int check(Scenario scenario) throws IOException {
        Path left = path.resolveSibling("left.ring");
        Files.copy(path, left, StandardCopyOption.REPLACE_EXISTING);
        try (Channel channel = Channel.open(left.toString());
            Subscriber keeper = channel.subscriber(KEEPER, true)) {
            Messages messages = new Messages(scenario);
            Message first = keeper.take();
            if (first == null || scenario.keeperMayGo && first.type() > scenario.before) {
                need(scenario.keeperMayGo || read + consumed == scenario.before, "the kept subscriber gets nothing");
                messages.next = scenario.before;
            } else {
                messages.next = first.type() - 1;
                need(messages.next >= read && messages.next <= read + consumed, "resumes at " + messages.next);
            }
            for (Message message = first; message != null; message = keeper.take()) {
                messages.check(message);
            }
            int count = messages.next - scenario.before;
            need(count >= 0, "only up to " + messages.next);
            if (keeper.slot() == 0 && channel.slots().kept(1)) {
                channel.subscriber("other", true).forget(); // else publishers would wait for it, dead or not
            }
            try (Publisher next = channel.publisher("pub")) {
                need(keeper.take() == null, "recovery made a message");
                need(channel.trailers().get(0).getLong(Layout.TRAILER_MESSAGES_DONE) == messages.next
                    && channel.trailers().get(0).getLong(Layout.TRAILER_MESSAGES_BEGUN) == messages.next, "the counts");
                goOn(next, keeper, messages);
            }
            try (Subscriber one = channel.subscriber(); Subscriber two = channel.subscriber("other", false)) {
                need(one.slot() != two.slot(), "slots");
            }
            return count;
        }
    }

    /** Publishes a lap and a half of messages as the next owner, which may have to retire the dead. */
    private static void goOn(Publisher next, Subscriber keeper, Messages messages) {
        long end = next.position() + CAPACITY * 3 / 2;
        messages.own = false;
        for (int i = messages.next; next.position() < end; i++) {
            long since = System.nanoTime();
            while (next.offer(buffer(i, usual(i)), 0, usual(i), 1 + i) < 0) {
                need(System.nanoTime() - since < PATIENCE, "the next publisher waits");
            }
            Message message = keeper.take();
            need(message != null, "message " + i + " does not come");
            need(message.sender().equals(new Sender(0, "pub", next.epoch())), "the sender: " + message.sender());
            messages.check(message);
        }
    }

    /** The messages that must be there. */
    private static final class Messages {
        private final Scenario scenario;
        private int next;
        /** Whether the scenario's own messages may come. */
        private boolean own = true;

        Messages(Scenario scenario) {
            this.scenario = scenario;
        }

        void check(Message message) {
            int more = next - scenario.before;
            boolean published = own && more >= 0 && more < scenario.lengths.length;
            need(!own || more < 0 || published, "one more than was sent: type " + message.type());
            byte[] expected = Rings.pattern(next, published ? scenario.lengths[more] : usual(next));
            need(Arrays.equals(expected, message.toByteArray()), "message " + next + " is not whole, or not the next");
            next++;
        }
    }
}
