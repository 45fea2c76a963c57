// SPDX-License-Identifier: Apache-2.0

import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.Client;
import io.flyring.FlyringException;
import io.flyring.Message;
import io.flyring.PayloadBuffer;
import io.flyring.Publisher;
import io.flyring.Request;
import io.flyring.Schema;
import io.flyring.Server;
import io.flyring.Table;
import io.flyring.TableOptions;
import io.flyring.TableWriter;
import io.flyring.Versioned;
import io.flyring.sbe.Dispatcher;
import io.flyring.sbe.Responder;
import io.flyring.sbe.TypedRequestHandler;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import keyvalue.ChangedDecoder;
import keyvalue.ChangedEncoder;
import keyvalue.CompareAndPutDecoder;
import keyvalue.CompareAndPutEncoder;
import keyvalue.GetDecoder;
import keyvalue.GetEncoder;
import keyvalue.MessageHeaderEncoder;
import keyvalue.PutDecoder;
import keyvalue.PutEncoder;
import keyvalue.RefusedDecoder;
import keyvalue.RefusedEncoder;
import keyvalue.RemoveDecoder;
import keyvalue.RemoveEncoder;
import keyvalue.ValueDecoder;
import keyvalue.ValueEncoder;
import org.agrona.sbe.MessageEncoderFlyweight;

/**
 * A key-value server: a service in front of a table on disk, so that any number of processes may write.
 *
 * <pre>
 * KeyValue serve FILE                           answers until SIGTERM or Ctrl-C; waits while another server runs
 * KeyValue get KEY
 * KeyValue put KEY VALUE
 * KeyValue compare-and-put KEY VERSION VALUE    puts if the key has this version (0: is not there)
 * KeyValue remove KEY
 * </pre>
 */
public final class KeyValue {
    static final Duration TIMEOUT = Duration.ofSeconds(2);

    public static void main(String[] args) throws InterruptedException {
        String verb = args.length == 0 ? "" : args[0];
        if (verb.equals("serve") && args.length == 2) {
            serve(args[1]);
        } else if (verb.equals("get") && args.length == 2) {
            call(get(args[1]));
        } else if (verb.equals("put") && args.length == 3) {
            call(put(args[1], bytes(args[2])));
        } else if (verb.equals("compare-and-put") && args.length == 4) {
            call(compareAndPut(Long.parseLong(args[2]), args[1], bytes(args[3])));
        } else if (verb.equals("remove") && args.length == 2) {
            call(remove(0, args[1]));
        } else {
            System.err.println("Use KeyValue with: serve FILE, get KEY, put KEY VALUE,"
                + " compare-and-put KEY VERSION VALUE, or remove KEY.");
            System.exit(2);
        }
    }

    static Channel openService() {
        return Channel.openOrCreate("key-value", ChannelOptions.service().schema(Schema.load(Path.of("keyvalue.xml"))));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Room for a new message of the schema: it may be as long as a request of this service. */
    private static PayloadBuffer room() {
        PayloadBuffer room = new PayloadBuffer();
        room.wrap(new byte[32768]);
        return room;
    }

    static GetEncoder get(String key) {
        return new GetEncoder().wrapAndApplyHeader(room(), 0, new MessageHeaderEncoder()).key(key);
    }

    static PutEncoder put(String key, byte[] value) {
        return new PutEncoder().wrapAndApplyHeader(room(), 0, new MessageHeaderEncoder()).key(key)
            .putValue(value, 0, value.length);
    }

    static CompareAndPutEncoder compareAndPut(long version, String key, byte[] value) {
        return new CompareAndPutEncoder().wrapAndApplyHeader(room(), 0, new MessageHeaderEncoder()).version(version)
            .key(key).putValue(value, 0, value.length);
    }

    static RemoveEncoder remove(long version, String key) {
        return new RemoveEncoder().wrapAndApplyHeader(room(), 0, new MessageHeaderEncoder()).version(version).key(key);
    }

    private static ChangedEncoder changed(long before, long version) {
        return new ChangedEncoder().wrapAndApplyHeader(room(), 0, new MessageHeaderEncoder()).before(before)
            .version(version);
    }

    private static RefusedEncoder refused(FlyringException error) {
        return new RefusedEncoder().wrapAndApplyHeader(room(), 0, new MessageHeaderEncoder()).code(error.code())
            .text(error.getMessage());
    }

    /** The one writer of the table. So nothing changes between its look at a version and its change. */
    private static final class Store {
        private final Table table;
        private final TableWriter writer;
        private final PayloadBuffer value = new PayloadBuffer();

        Store(Table table) {
            this.table = table;
            this.writer = table.writer("key-value", Publisher.FOREVER);
        }

        void get(GetDecoder get, Request request) {
            Versioned found = table.getVersioned(get.key());
            byte[] bytes = found == null ? new byte[0] : found.value();
            request.reply(new ValueEncoder().wrapAndApplyHeader(room(), 0, new MessageHeaderEncoder())
                .version(found == null ? 0 : found.version()).putValue(bytes, 0, bytes.length));
        }

        void put(PutDecoder put, Request request) {
            String key = put.key();
            put.wrapValue(value);
            long before = versionOf(key);
            request.reply(changed(before, writer.put(key, value, 0, value.capacity())));
        }

        void compareAndPut(CompareAndPutDecoder put, Request request) {
            String key = put.key();
            put.wrapValue(value);
            long before = versionOf(key);
            long version = writer.compareAndPut(key, put.version(), value, 0, value.capacity());
            request.reply(changed(before, version != 0 ? version : before));
        }

        void remove(RemoveDecoder remove, Request request) {
            long wanted = remove.version();
            String key = remove.key();
            long before = versionOf(key);
            boolean removed = (wanted == 0 || wanted == before) && writer.remove(key);
            request.reply(changed(before, removed ? 0 : before));
        }

        private long versionOf(String key) {
            Versioned found = table.getVersioned(key);
            return found == null ? 0 : found.version();
        }
    }

    /** A handler that answers what the table refuses by the error's code. */
    private static <D> TypedRequestHandler<D> answer(TypedRequestHandler<D> handler) {
        return (decoder, request) -> {
            try {
                handler.onRequest(decoder, request);
            } catch (FlyringException error) {
                request.reply(refused(error));
            }
        };
    }

    private static void serve(String path) throws InterruptedException {
        TableOptions options = TableOptions.text().keyBytes(200).valueBytes(8000).capacity(1000);
        try (Table table = Table.openOrCreate(path, options);
            Channel service = openService();
            Server server = service.server("key-value", Publisher.FOREVER)) {
            Thread main = Thread.currentThread();
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                server.stop();
                try {
                    main.join();
                } catch (InterruptedException ignored) {
                    // The process ends anyway.
                }
            }));
            Store store = new Store(table);
            Responder handler = new Responder()
                .on(new GetDecoder(), answer(store::get))
                .on(new PutDecoder(), answer(store::put))
                .on(new CompareAndPutDecoder(), answer(store::compareAndPut))
                .on(new RemoveDecoder(), answer(store::remove));
            System.out.println(table.size() + " keys");
            server.serve(handler); // sleeps while there is no request
            while (server.inHand() + server.repliesWaiting() > 0) { // sends the answers that it still holds
                server.poll(handler, 0);
                Thread.sleep(1);
            }
            table.close(true); // everything is on the disk: no recovery is needed, even after a power loss
        }
    }

    private static void call(MessageEncoderFlyweight request) {
        try (Channel service = openService(); Client client = service.client()) {
            Message answer = client.call(request, TIMEOUT);
            new Dispatcher()
                .on(new ValueDecoder(), (found, message) -> {
                    long version = found.version();
                    byte[] value = new byte[found.valueLength()];
                    found.getValue(value, 0, value.length);
                    show(version != 0, new String(value, StandardCharsets.UTF_8) + " (version " + version + ")", 0);
                })
                .on(new ChangedDecoder(), (changed, message) -> {
                    long version = changed.version();
                    show(version != changed.before(), version == 0 ? "removed" : "version " + version, version);
                })
                .on(new RefusedDecoder(), (refused, message) -> fail("refused: " + refused.code() + ": "
                    + refused.text()))
                .onMessage(answer);
        } catch (FlyringException error) {
            fail("no answer: " + error.getMessage());
        }
    }

    private static void show(boolean done, String text, long version) {
        if (done) {
            System.out.println(text);
        } else {
            fail(version == 0 ? "there is no such key" : "the key has version " + version);
        }
    }

    private static void fail(String text) {
        System.err.println(text);
        System.exit(1);
    }
}
