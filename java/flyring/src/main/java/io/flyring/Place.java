// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;
import java.util.regex.Pattern;

/** Maps names to paths, and checks the folder of channels (channel.md 3.1). */
final class Place {
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9._-]{1,64}");
    private static final String VARIABLE = "FLYRING_DIR";
    private static final int OTHERS_WRITE = 0022;

    private Place() {
    }

    /** The path that a channel's name or a path stands for. */
    static String path(String nameOrPath) {
        return path(nameOrPath, ".ring");
    }

    /** The path of a table's name or a path (table.md 2). */
    static String tablePath(String nameOrPath) {
        return path(nameOrPath, ".table");
    }

    /** The path of a journal's name or a path (journal.md 2). */
    static String journalPath(String nameOrPath) {
        return path(nameOrPath, ".journal");
    }

    private static String path(String nameOrPath, String suffix) {
        if (nameOrPath == null) {
            throw new InvalidArgumentException("name", "There is no name.");
        }
        if (nameOrPath.indexOf('/') >= 0) {
            return absolute(nameOrPath);
        }
        if (!NAME.matcher(nameOrPath).matches()) {
            throw new InvalidArgumentException("name", "The name \"" + nameOrPath + "\" is neither a path, which has a"
                + " / in it, nor 1 to 64 of the characters A-Z a-z 0-9 . _ -.");
        }
        return folder() + "/" + nameOrPath + suffix;
    }

    private static String absolute(String path) {
        return path.startsWith("/") ? path : Path.of("").toAbsolutePath() + "/" + path;
    }

    private static String chosenFolder() {
        String folder = System.getenv(VARIABLE);
        return folder == null || folder.isEmpty() ? null : folder;
    }

    private static String folder() {
        String chosen = chosenFolder();
        return chosen != null ? absolute(chosen) : "/dev/shm/flyring-" + Integer.toUnsignedString(Sys.effectiveUser());
    }

    /**
     * Checks the folder of a name; with {@code make}, creates it if it is missing. Does not check a folder that
     * FLYRING_DIR names, and ignores that of a path.
     */
    static void checkFolder(String nameOrPath, boolean make) {
        if (nameOrPath.indexOf('/') >= 0) {
            return;
        }
        String folder = folder();
        if (make) {
            makeFolder(Path.of(folder));
        }
        if (chosenFolder() == null) {
            checkOurs(folder, Sys.effectiveUser());
        }
    }

    private static void makeFolder(Path folder) {
        try {
            Files.createDirectory(folder,
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        } catch (FileAlreadyExistsException e) {
            return;
        } catch (IOException e) {
            throw ChannelFile.io("mkdir", e, folder.toString());
        }
    }

    /** Throws unless the folder belongs to this user and others may not write to it. A missing folder is no error. */
    static void checkOurs(String folder, int user) {
        Map<String, Object> attributes;
        try {
            attributes = Files.readAttributes(Path.of(folder), "unix:uid,mode,isDirectory", LinkOption.NOFOLLOW_LINKS);
        } catch (NoSuchFileException e) {
            return;
        } catch (IOException e) {
            throw ChannelFile.io("stat", e, folder);
        }
        String reason = null;
        if (!(boolean) attributes.get("isDirectory")) {
            reason = "it is no folder";
        } else if ((int) attributes.get("uid") != user) {
            reason = "it belongs to user " + attributes.get("uid") + ", not to " + user;
        } else if (((int) attributes.get("mode") & OTHERS_WRITE) != 0) {
            reason = "others may write to it";
        }
        if (reason != null) {
            throw new AccessDeniedException(folder, reason, "The folder " + folder + " may not be used: " + reason
                + ". Remove it or mend its owner and mode, or choose another with " + VARIABLE + ".");
        }
    }
}
