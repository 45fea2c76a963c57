// SPDX-License-Identifier: Apache-2.0

import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.Client;
import io.flyring.ExpiredException;
import io.flyring.Message;
import io.flyring.Server;
import io.flyring.ServerGoneException;
import io.flyring.ServiceErrorException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;

/**
 * A service that knows prices, and a caller with a time-out.
 *
 * <pre>
 * Pricer serve                      answers until it is killed
 * Pricer ask FRUIT COUNT SECONDS    prints what so many cost, in cents; waits no longer than that
 * </pre>
 */
public final class Pricer {
    private static final Map<String, Integer> CENTS = Map.of("apples", 120, "pears", 95, "plums", 210);

    public static void main(String[] args) {
        if (args.length == 1 && args[0].equals("serve")) {
            serve();
        } else if (args.length == 4 && args[0].equals("ask")) {
            Duration timeout = Duration.ofMillis(Math.round(Double.parseDouble(args[3]) * 1000));
            System.exit(ask(args[1] + " " + args[2], timeout));
        } else {
            System.err.println("Use Pricer serve, or Pricer ask FRUIT COUNT SECONDS.");
            System.exit(2);
        }
    }

    private static Channel pricer() {
        return Channel.openOrCreate("pricer", ChannelOptions.service());
    }

    private static void serve() {
        try (Channel service = pricer(); Server server = service.server("pricer")) {
            // Sleeps while there is no request. If the handler throws, the caller gets the text, and the server goes on.
            server.serve(request -> {
                String question = new String(request.toByteArray(), StandardCharsets.UTF_8);
                request.reply(Integer.toString(price(question)).getBytes(StandardCharsets.UTF_8));
            });
        }
    }

    private static int price(String question) {
        String[] words = question.split(" ");
        Integer cents = CENTS.get(words[0]);
        if (cents == null) {
            throw new IllegalArgumentException("there is no price for " + words[0]);
        }
        return cents * Integer.parseInt(words[1]);
    }

    private static int ask(String question, Duration timeout) {
        try (Channel service = pricer(); Client client = service.client()) {
            Message answer = client.call(question.getBytes(StandardCharsets.UTF_8), 1, timeout);
            System.out.println(new String(answer.toByteArray(), StandardCharsets.UTF_8));
            return 0;
        } catch (ServiceErrorException refused) {
            System.err.println("refused: " + refused.text());
        } catch (ExpiredException late) {
            System.err.println("no answer in time");
        } catch (ServerGoneException gone) {
            String seen = gone.mayHaveRun() ? "may have seen" : "never saw";
            System.err.println("the server has gone, and " + seen + " the question");
        }
        return 1;
    }
}
