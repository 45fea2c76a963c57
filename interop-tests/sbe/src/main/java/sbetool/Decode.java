// SPDX-License-Identifier: Apache-2.0
package sbetool;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.lang.reflect.InvocationTargetException;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.agrona.concurrent.UnsafeBuffer;
import uk.co.real_logic.sbe.PrimitiveType;
import uk.co.real_logic.sbe.generation.java.JavaUtil;
import uk.co.real_logic.sbe.ir.Signal;
import uk.co.real_logic.sbe.ir.Token;
import uk.co.real_logic.sbe.json.JsonPrinter;

/** A message into values, in the form that {@link Encode} takes, by its generated decoder; and into text by the on-the-fly decoder. */
final class Decode {
    private final Codecs codecs;

    Decode(Codecs codecs) {
        this.codecs = codecs;
    }

    /** What the printer prints: it goes astray in some groups, so it is asked only where that is looked at. */
    String json(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        // It reads behind the message: a constant enum that stands last, and what older messages have not.
        new JsonPrinter(codecs.ir).print(text, new UnsafeBuffer(Arrays.copyOf(bytes, bytes.length + 4096)), 0);
        return text.toString();
    }

    void message(byte[] bytes, JsonObject answer) throws ReflectiveOperationException {
        UnsafeBuffer buffer = new UnsafeBuffer(bytes); // exactly as long as the message: a read beyond it throws
        if (codecs.notGenerated != null) {
            answer.addProperty("not_generated", codecs.notGenerated);
            return;
        }
        Object header = codecs.header("Decoder");
        codecs.call(header, "wrap", buffer, 0);
        long template = ((Number) codecs.call(header, "templateId")).longValue();
        List<Token> tokens = codecs.ir.getMessage(template);
        Object decoder = codecs.make(tokens.get(0).name(), "Decoder");
        codecs.call(decoder, "wrapAndApplyHeader", buffer, 0, header);
        answer.addProperty("message", tokens.get(0).name());
        answer.add("values", body(decoder, tokens, 1));
        answer.addProperty("length", (Integer) codecs.call(decoder, "limit"));
    }

    private JsonObject body(Object decoder, List<Token> tokens, int at) throws ReflectiveOperationException {
        JsonObject values = new JsonObject();
        for (int i = at; i < tokens.size(); i += tokens.get(i).componentTokenCount()) {
            Token token = tokens.get(i);
            String property = JavaUtil.formatPropertyName(token.name());
            if (token.signal() == Signal.BEGIN_FIELD) {
                values.add(token.name(), field(decoder, property, tokens, i + 1, token.isConstantEncoding()));
            } else if (token.signal() == Signal.BEGIN_GROUP) {
                JsonArray entries = new JsonArray();
                Object group = codecs.call(decoder, property);
                int first = i + 1 + tokens.get(i + 1).componentTokenCount();
                while ((Boolean) codecs.call(group, "hasNext")) {
                    entries.add(body(codecs.call(group, "next"), tokens, first));
                }
                values.add(token.name(), entries);
            } else if (token.signal() == Signal.BEGIN_VAR_DATA) {
                byte[] bytes = new byte[(Integer) codecs.call(decoder, property + "Length")];
                String get = JavaUtil.formatGetterName(property);
                decoder.getClass().getMethod(get, byte[].class, int.class, int.class).invoke(decoder, bytes, 0, bytes.length);
                values.addProperty(token.name(), Hex.of(bytes));
            } else {
                break;
            }
        }
        return values;
    }

    private JsonElement field(Object decoder, String property, List<Token> tokens, int at, boolean constant) throws ReflectiveOperationException {
        Token token = tokens.get(at);
        if (token.signal() == Signal.BEGIN_COMPOSITE) {
            Object composite = codecs.call(decoder, property);
            if (composite == null) { // not in the version that wrote it
                return JsonNull.INSTANCE;
            }
            JsonObject values = new JsonObject();
            int end = at + token.componentTokenCount() - 1;
            for (int i = at + 1; i < end; i += tokens.get(i).componentTokenCount()) {
                String name = tokens.get(i).name();
                values.add(name, field(composite, JavaUtil.formatPropertyName(name), tokens, i, tokens.get(i).isConstantEncoding()));
            }
            return values;
        } else if (token.signal() == Signal.BEGIN_SET) {
            Object set = codecs.call(decoder, property);
            if (set == null) {
                return JsonNull.INSTANCE;
            }
            JsonObject values = new JsonObject();
            for (int i = at + 1; i < at + token.componentTokenCount() - 1; i++) {
                String name = tokens.get(i).name();
                values.addProperty(name, (Boolean) codecs.call(set, JavaUtil.formatPropertyName(name)));
            }
            return values;
        } else if (token.signal() == Signal.BEGIN_ENUM) {
            return enumeration(decoder, property, constant, token.encoding().primitiveType());
        } else if (token.isConstantEncoding() || token.arrayLength() == 1) {
            return value(codecs.call(decoder, property), token.encoding().primitiveType());
        }
        JsonArray elements = new JsonArray();
        for (int i = 0; i < token.arrayLength(); i++) {
            elements.add(value(codecs.call(decoder, property, i), token.encoding().primitiveType()));
        }
        return elements;
    }

    /** {"raw", "name"}; no raw if it is constant, no name if the codec knows none for the value. */
    private JsonElement enumeration(Object decoder, String property, boolean constant, PrimitiveType primitive) throws ReflectiveOperationException {
        JsonObject both = new JsonObject();
        if (!constant) {
            both.add("raw", value(codecs.call(decoder, property + "Raw"), primitive));
        }
        try {
            Object member = codecs.call(decoder, property);
            both.addProperty("name", member == null ? null : ((Enum<?>) member).name());
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof IllegalArgumentException)) {
                throw thrown;
            }
        }
        return both;
    }

    private static JsonElement value(Object value, PrimitiveType primitive) {
        if (value instanceof String) {
            JsonArray characters = new JsonArray();
            for (byte one : ((String) value).getBytes(StandardCharsets.ISO_8859_1)) {
                characters.add(one & 0xFF);
            }
            return characters;
        } else if (value instanceof Float) {
            return new JsonPrimitive(Float.floatToRawIntBits((Float) value) & 0xFFFFFFFFL);
        } else if (value instanceof Double) {
            return new JsonPrimitive(new BigInteger(Long.toUnsignedString(Double.doubleToRawLongBits((Double) value))));
        } else if (primitive == PrimitiveType.UINT64) {
            return new JsonPrimitive(new BigInteger(Long.toUnsignedString((Long) value)));
        } else if (primitive == PrimitiveType.CHAR) {
            return new JsonPrimitive(((Number) value).longValue() & 0xFF);
        }
        return new JsonPrimitive(((Number) value).longValue());
    }
}
