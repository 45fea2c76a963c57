// SPDX-License-Identifier: Apache-2.0

import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.Mesh;

/**
 * A process that is a member of a mesh, whose members watch each other.
 *
 * <pre>
 * MeshMember NAME SECONDS    is a member of that name for so long
 * </pre>
 */
public final class MeshMember {
    public static void main(String[] args) throws InterruptedException {
        if (args.length != 2) {
            System.err.println("Use MeshMember NAME SECONDS.");
            System.exit(1);
        }
        ChannelOptions options = ChannelOptions.broadcast().publishers(8).subscribers(0).capacity(65536);
        try (Channel channel = Channel.openOrCreate("mesh", options);
            Mesh member = new Mesh(channel, args[0])) { // a thread beats, and notes the beats of the others
            System.out.println(args[0] + " is process " + ProcessHandle.current().pid());
            Thread.sleep(Math.round(1000 * Double.parseDouble(args[1]))); // instead of work
            System.out.println(args[0] + " leaves " + (member.beats() > 0 ? "after some" : "without") + " beats");
        }
    }
}
