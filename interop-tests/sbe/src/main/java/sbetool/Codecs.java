// SPDX-License-Identifier: Apache-2.0
package sbetool;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;
import uk.co.real_logic.sbe.SbeTool;
import uk.co.real_logic.sbe.generation.java.JavaUtil;
import uk.co.real_logic.sbe.ir.Ir;
import uk.co.real_logic.sbe.ir.Token;
import uk.co.real_logic.sbe.xml.IrGenerator;
import uk.co.real_logic.sbe.xml.MessageSchema;
import uk.co.real_logic.sbe.xml.SchemaTransformerFactory;

/** One schema: its tokens, and the codecs that sbe-tool generated of it, compiled and reached by reflection. */
final class Codecs {
    final Ir ir;
    /** Why there are tokens but no codecs: sbe-tool's generator threw, or javac refused what it made. */
    final String notGenerated;

    private final ClassLoader loader;
    private final Map<String, Method> methods = new HashMap<>();

    Codecs(String path, String version, Path folder) throws Exception {
        MessageSchema schema = SbeTool.parseSchema(path);
        SchemaTransformerFactory transformers = new SchemaTransformerFactory(version == null ? null : "*:" + version);
        ir = new IrGenerator().generate(transformers.transform(schema), "generated");
        notGenerated = generate(folder);
        loader = loader(folder);
    }

    private String generate(Path folder) throws IOException {
        try {
            SbeTool.generate(ir, folder.toString(), "Java");
        } catch (Exception thrown) {
            return "sbe-tool: " + thrown;
        }
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        DiagnosticCollector<JavaFileObject> wrong = new DiagnosticCollector<>();
        try (StandardJavaFileManager manager = compiler.getStandardFileManager(wrong, null, null);
                Stream<Path> tree = Files.walk(folder)) {
            List<File> sources = tree.filter(p -> p.toString().endsWith(".java")).map(Path::toFile).collect(Collectors.toList());
            List<String> options = List.of("-proc:none", "-nowarn", "-g:none", "-cp", System.getProperty("java.class.path"));
            boolean good = compiler.getTask(null, manager, wrong, options, null, manager.getJavaFileObjectsFromFiles(sources)).call();
            return good ? null : "javac: " + wrong.getDiagnostics();
        }
    }

    private static ClassLoader loader(Path folder) throws MalformedURLException {
        return new URLClassLoader(new URL[] {folder.toUri().toURL()}, Codecs.class.getClassLoader());
    }

    List<Token> message(String name) {
        for (List<Token> tokens : ir.messages()) {
            if (tokens.get(0).name().equals(name)) {
                return tokens;
            }
        }
        throw new IllegalArgumentException("no such message: " + name);
    }

    /** The generated encoder or decoder of a message or type. */
    Object make(String name, String suffix) throws ReflectiveOperationException {
        if (notGenerated != null) {
            throw new IllegalStateException(notGenerated);
        }
        Constructor<?> constructor = Class.forName("generated." + JavaUtil.formatClassName(name) + suffix, true, loader).getConstructor();
        return constructor.newInstance();
    }

    Object header(String suffix) throws ReflectiveOperationException {
        return make(ir.headerStructure().tokens().get(0).applicableTypeName(), suffix);
    }

    /** The method of that name and number of parameters; where there are several, the one whose first is not a String, CharSequence or Appendable. */
    Method method(Object on, String name, int parameters) throws NoSuchMethodException {
        String key = on.getClass().getName() + '#' + name + '/' + parameters;
        Method known = methods.get(key);
        if (known != null) {
            return known;
        }
        for (Method method : on.getClass().getMethods()) {
            Class<?>[] types = method.getParameterTypes();
            boolean text = types.length > 0 && (types[0] == String.class || types[0] == CharSequence.class || types[0] == Appendable.class);
            if (method.getName().equals(name) && types.length == parameters && !text) {
                method.setAccessible(true);
                methods.put(key, method);
                return method;
            }
        }
        throw new NoSuchMethodException(key);
    }

    Object call(Object on, String name, Object... arguments) throws ReflectiveOperationException {
        return method(on, name, arguments.length).invoke(on, arguments);
    }
}
