// SPDX-License-Identifier: Apache-2.0

import io.flyring.*;

public class Hello {
    public static void main(String[] args) {
        try (Channel channel = Channel.openOrCreate("hello", ChannelOptions.inbox())) {
            if (args.length > 0) {
                if (channel.publisher().offer(args[0].getBytes()) == Publisher.BACK_PRESSURED) {
                    System.err.println("The channel is full: no process has read yet.");
                    System.exit(1);
                }
            } else {
                channel.subscriber().poll(message -> System.out.println(new String(message.toByteArray())));
            }
        }
    }
}
