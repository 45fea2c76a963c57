// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.lang.module.ModuleDescriptor;
import java.lang.module.ModuleFinder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.JarFile;
import java.util.spi.ToolProvider;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The jar: identical for every JDK that builds it, a module, and usable with jlink. */
@Tag("jar")
class JarTest {
    private static final int FIRST_WITH_FFM = 22;
    private static final Path JAR = Path.of(System.getProperty("flyring.jar", ""));

    private static final String MAIN = """
        package hello;

        import io.flyring.Channel;
        import io.flyring.ChannelOptions;
        import io.flyring.Publisher;
        import io.flyring.Subscriber;

        public final class Main {
            public static void main(String[] arguments) {
                try (Channel channel = Channel.create(arguments[0], ChannelOptions.broadcast());
                    Subscriber subscriber = channel.subscriber(); Publisher publisher = channel.publisher("image")) {
                    publisher.offer("linked".getBytes());
                    subscriber.poll(message -> System.out.println(new String(message.toByteArray()) + " from "
                        + message.sender().name()));
                }
            }
        }
        """;

    @RegisterExtension
    final Rings rings = new Rings();

    /** The names in the jar of the classes in a source folder, without nested classes. */
    private static Set<String> classes(String sources, String prefix) throws Exception {
        Path root = Rings.spec("../java/flyring/src/main/" + sources).normalize();
        try (Stream<Path> files = Files.walk(root)) {
            return files.map(root::relativize).map(Path::toString)
                .filter(name -> name.endsWith(".java") && !name.endsWith("package-info.java"))
                .map(name -> prefix + name.replace(".java", ".class")).collect(Collectors.toCollection(TreeSet::new));
        }
    }

    @Test
    void itsEntriesFollowFromTheSourcesAndTheirTimesAreFixed() throws Exception {
        Set<String> expected = classes("java", "");
        if (Runtime.version().feature() >= FIRST_WITH_FFM) {
            expected.addAll(classes("java22", "META-INF/versions/22/"));
        }
        LocalDateTime time = LocalDateTime.ofInstant(Instant.parse(System.getProperty("flyring.timestamp")),
            ZoneOffset.UTC);
        Set<String> found = new TreeSet<>();
        try (JarFile jar = new JarFile(JAR.toFile())) {
            jar.stream().forEach(entry -> {
                assertEquals(time, entry.getTimeLocal(), entry.getName());
                if (entry.getName().endsWith(".class") && entry.getName().indexOf('$') < 0
                    && !entry.getName().endsWith("package-info.class")) {
                    found.add(entry.getName());
                }
            });
            Set<String> manifest = new TreeSet<>();
            jar.getManifest().getMainAttributes().keySet().forEach(key -> manifest.add(key.toString()));
            assertEquals(Set.of("Manifest-Version", "Multi-Release"), manifest, "nothing of the JDK that built it");
        }
        assertEquals(expected, found);
    }

    @Test
    void itIsTheModuleIoFlyring() {
        ModuleDescriptor module = ModuleFinder.of(JAR).find("io.flyring").orElseThrow().descriptor();
        assertEquals(false, module.isAutomatic());
        assertEquals(Set.of("io.flyring", "io.flyring.sbe"),
            module.exports().stream().map(ModuleDescriptor.Exports::source).collect(Collectors.toSet()));
    }

    private static void tool(String name, Object... arguments) {
        int status = ToolProvider.findFirst(name).orElseThrow().run(System.out, System.err,
            Arrays.stream(arguments).map(Object::toString).toArray(String[]::new));
        assertEquals(0, status, name + " " + Arrays.toString(arguments));
    }

    private static Path library(String name) {
        return Path.of(Arrays.stream(Rings.classPath().split(File.pathSeparator))
            .filter(part -> Path.of(part).getFileName().toString().matches(name + "-[0-9.]+\\.jar"))
            .findFirst().orElseThrow());
    }

    /** Agrona is an automatic module, which jlink refuses: this adds a descriptor by jdeps, as users must. */
    private Path modularAgrona() throws Exception {
        Path automatic = library("agrona");
        Path folder = rings.folder().resolve("agrona");
        tool("jdeps", "--generate-module-info", folder, automatic);
        tool("javac", "-Xlint:none", "--patch-module", "org.agrona=" + automatic, "-d", folder,
            folder.resolve("org.agrona/module-info.java"));
        Path modular = Files.copy(automatic, rings.folder().resolve("agrona.jar"));
        tool("jar", "--update", "--file", modular, "-C", folder, "module-info.class");
        return modular;
    }

    @Test
    void aLinkedImagePublishesAndPollsAMessage() throws Exception {
        String libraries = String.join(File.pathSeparator, JAR.toString(), library("jna-jpms").toString(),
            modularAgrona().toString());
        Path sources = Files.createDirectories(rings.folder().resolve("sources/hello"));
        Path descriptor = Files.writeString(sources.resolveSibling("module-info.java"),
            "module hello { requires io.flyring; }");
        Path main = Files.writeString(sources.resolve("Main.java"), MAIN);
        Path classes = rings.folder().resolve("hello");
        tool("javac", "--module-path", libraries, "-d", classes, descriptor, main);
        Path image = rings.folder().resolve("image");
        List<Object> link = new ArrayList<>(List.of("--module-path", libraries + File.pathSeparator + classes,
            "--add-modules", "hello", "--output", image));
        if (Runtime.version().feature() >= FIRST_WITH_FFM) {
            link.add("--add-options=--enable-native-access=io.flyring");
        }
        tool("jlink", link.toArray());
        Process process = new ProcessBuilder(image.resolve("bin/java").toString(), "--module", "hello/hello.Main",
            rings.path("linked.ring")).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), output);
        assertEquals(List.of("linked from image"), output.lines().toList());
        assertTrue(Files.exists(image.resolve("lib/modules")));
    }
}
