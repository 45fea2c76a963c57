// SPDX-License-Identifier: Apache-2.0

import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.regex.Pattern;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.transform.OutputKeys;
import javax.xml.transform.Transformer;
import javax.xml.transform.TransformerFactory;
import javax.xml.transform.dom.DOMSource;
import javax.xml.transform.stream.StreamResult;
import org.w3c.dom.Document;
import uk.co.real_logic.sbe.SbeTool;
import uk.co.real_logic.sbe.generation.cpp.CppUtil;
import uk.co.real_logic.sbe.ir.Ir;
import uk.co.real_logic.sbe.ir.Signal;
import uk.co.real_logic.sbe.ir.Token;
import uk.co.real_logic.sbe.xml.IrGenerator;

/**
 * The generator that flyring_sbe_generate runs: {@code java -cp sbe-all.jar FlyringSbe.java SCHEMA.xml OUTPUT}. Writes
 * the C++ codecs of a schema, made by sbe-tool, to OUTPUT. Adds to the package's folder schema.xml (the schema with every
 * XInclude resolved) and schema.hpp (the same text as a constant).
 */
final class FlyringSbe {
    public static void main(String[] arguments) throws Exception {
        Path input = Path.of(arguments[0]);
        Path output = Path.of(arguments[1]);
        try {
            String text = resolved(input);
            Path schema = Files.createDirectories(output).resolve("schema.xml");
            Files.writeString(schema, text);
            System.setProperty("sbe.validation.stop.on.error", "true");
            System.setProperty("sbe.keyword.append.token", "_");
            Ir ir = new IrGenerator().generate(SbeTool.parseSchema(schema.toString()), null);
            SbeTool.generate(ir, output.toString(), "Cpp");
            Path folder = output.resolve(String.join("_", ir.namespaces()));
            addMissingChecks(ir, folder);
            Files.move(schema, folder.resolve("schema.xml"), StandardCopyOption.REPLACE_EXISTING);
            Files.writeString(folder.resolve("schema.hpp"), header(ir, text));  // last: marks success
        } catch (Exception error) {
            System.err.println(input + ": " + error.getMessage());
            System.exit(1);
        }
    }

    /** The schema's text in UTF-8, with every XInclude resolved; unchanged if it is UTF-8 and includes nothing. */
    private static String resolved(Path input) throws Exception {
        DocumentBuilderFactory factory = DocumentBuilderFactory.newInstance();
        factory.setNamespaceAware(true);
        Document written = factory.newDocumentBuilder().parse(input.toFile());
        String encoding = written.getInputEncoding();
        boolean includes = written.getElementsByTagNameNS("http://www.w3.org/2001/XInclude", "include").getLength() > 0;
        if (!includes && (encoding == null || encoding.equalsIgnoreCase("UTF-8"))) {
            String text = Files.readString(input);
            return text.startsWith("\uFEFF") ? text.substring(1) : text;
        }
        factory.setXIncludeAware(true);
        factory.setFeature("http://apache.org/xml/features/xinclude/fixup-base-uris", false);
        Document whole = factory.newDocumentBuilder().parse(input.toFile());
        whole.setXmlStandalone(true);  // otherwise the writer adds standalone="no"
        Transformer writer = TransformerFactory.newInstance().newTransformer();
        writer.setOutputProperty(OutputKeys.ENCODING, "UTF-8");
        StringWriter text = new StringWriter();
        writer.transform(new DOMSource(whole), new StreamResult(text));
        return text.toString();
    }

    // sbe-tool's C++ codecs check most accesses against the end of the buffer, but not these. x(), xLength() and
    // skipX() read the length of data before they check that it is there. getXAsString copies before it checks. The
    // fields of a group's entry are read however short the group's header says that an entry is. Messages come from
    // other processes, so we add the missing checks. Found in 1.38.1. If the generated code does not have the expected
    // places, nothing is generated.

    private static final Pattern SKIP = Pattern.compile(
            "(std::uint64_t lengthPosition = sbePosition\\(\\);\\n)(\\s*)([\\w:]+ lengthFieldValue;\\n)");
    private static final Pattern LENGTH = Pattern.compile(
            "( *)std::memcpy\\(&length(?:FieldValue)?, m_buffer \\+ sbePosition\\(\\), sizeof\\(([\\w:]+)\\)\\);");
    private static final Pattern STRING = Pattern.compile(
            "(const std::string(?:_view)? result\\(m_buffer \\+ pos, dataLength\\);)\\n(\\s*)"
                    + "(sbePosition\\(pos \\+ dataLength\\);)");
    private static final Pattern GROUP = Pattern.compile("( *)m_count = dimensions\\.numInGroup\\(\\);\\n");

    private static void addMissingChecks(Ir ir, Path folder) throws Exception {
        for (List<Token> message : ir.messages()) {
            Path file = folder.resolve(CppUtil.formatClassName(message.get(0).name()) + ".h");
            String code = Files.readString(file);
            int data = (int) message.stream().filter(token -> token.signal() == Signal.BEGIN_VAR_DATA).count();
            code = replace(file, code, SKIP, data,
                    "$1$2sbeCheckPosition(lengthPosition + lengthOfLengthField);\n$2$3");
            code = replace(file, code, LENGTH, 2 * data, "$1if (sbePosition() + sizeof($2) > m_bufferLength)\n$1{\n"
                    + "$1    throw std::runtime_error(\"buffer too short [E100]\");\n$1}\n$0");
            code = replace(file, code, STRING, 2 * data, "$3\n$2$1");
            List<String> entries = shortestEntries(message);
            int[] next = {0};
            int groups = (int) GROUP.matcher(code).results().count();
            check(file, groups, entries.size());
            code = GROUP.matcher(code).replaceAll(found -> found.group() + found.group(1)
                    + "if (m_count != 0 && m_blockLength < (" + entries.get(next[0]++) + "))\n"
                    + found.group(1) + "{\n" + found.group(1)
                    + "    throw std::runtime_error(\"group entry too short for its version [E108]\");\n"
                    + found.group(1) + "}\n");
            Files.writeString(file, code);
        }
    }

    private static String replace(Path file, String code, Pattern pattern, int expected, String replacement) {
        check(file, (int) pattern.matcher(code).results().count(), expected);
        return pattern.matcher(code).replaceAll(replacement);
    }

    private static void check(Path file, int found, int expected) {
        if (found != expected) {
            throw new IllegalStateException("this sbe-tool writes codecs in which Flyring cannot add the bounds checks "
                    + "that are missing (" + file.getFileName() + ": " + found + " places, not " + expected
                    + "); take the version that FLYRING_SBE_JAR names by default");
        }
    }

    /** For each group in schema order: the bytes that its fields need, as a C++ expression of actingVersion. */
    private static List<String> shortestEntries(List<Token> message) {
        List<String> entries = new ArrayList<>();
        for (int at = 0; at < message.size(); at++) {
            if (message.get(at).signal() != Signal.BEGIN_GROUP) {
                continue;
            }
            var versions = new TreeSet<Integer>(List.of(0));
            List<int[]> fields = new ArrayList<>();  // version, end
            int depth = 0;
            for (int i = at + 1; depth > 0 || message.get(i).signal() != Signal.END_GROUP; i++) {
                Signal signal = message.get(i).signal();
                depth += signal == Signal.BEGIN_GROUP ? 1 : signal == Signal.END_GROUP ? -1 : 0;
                if (depth == 0 && signal == Signal.BEGIN_FIELD && !message.get(i).isConstantEncoding()) {
                    Token type = message.get(i + 1);
                    int end = type.isConstantEncoding() ? 0 : message.get(i).offset() + type.encodedLength();
                    fields.add(new int[] {message.get(i).version(), end});
                    versions.add(message.get(i).version());
                }
            }
            String entry = "";
            for (int version : versions.descendingSet()) {
                int most = fields.stream().filter(f -> f[0] <= version).mapToInt(f -> f[1]).max().orElse(0);
                entry = version == versions.last() ? "" + most
                        : "actingVersion < " + versions.higher(version) + " ? " + most + " : " + entry;
            }
            entries.add(entry);
        }
        return entries;
    }

    private static String header(Ir ir, String text) {
        String[] namespaces = ir.namespaces();
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        StringBuilder literal = new StringBuilder("\"");
        for (byte each : bytes) {
            switch (each) {
                case '\n' -> literal.append("\\n\"\n    \"");
                case '"', '\\' -> literal.append('\\').append((char) each);
                default -> literal.append(each >= ' ' && each < 127 ? "" + (char) each : "\\%03o".formatted(each & 0xff));
            }
        }
        return """
                // Generated by flyring_sbe_generate. Do not edit.
                #pragma once

                #include <flyring/schema.hpp>

                namespace %s {

                /// The schema of this package: what Options::use and OpenOptions::schema take.
                inline constexpr ::flyring::Schema schema{
                    {%s",
                     %d},
                    %d, %d};

                }  // namespace %s
                """.formatted(String.join("::", namespaces), literal, bytes.length, ir.id(), ir.version(),
                        String.join("::", namespaces));
    }
}
