// SPDX-License-Identifier: Apache-2.0
package sbetool;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.agrona.concurrent.UnsafeBuffer;
import uk.co.real_logic.sbe.generation.java.JavaUtil;
import uk.co.real_logic.sbe.ir.Signal;
import uk.co.real_logic.sbe.ir.Token;

/**
 * Values into a message by its generated encoder. Values: integers and the raw bits of floating point as numbers, arrays (of char too) as
 * arrays, enums as their encoded value, sets as objects of booleans, composites as objects, groups as arrays of objects, data as hex digits.
 */
final class Encode {
    private static final int MOST = 1 << 20;

    private final Codecs codecs;

    Encode(Codecs codecs) {
        this.codecs = codecs;
    }

    /** Header and message. */
    byte[] message(String name, JsonObject values) throws ReflectiveOperationException {
        List<Token> tokens = codecs.message(name);
        UnsafeBuffer buffer = new UnsafeBuffer(new byte[MOST]);
        Object encoder = codecs.make(name, "Encoder");
        Object header = codecs.header("Encoder");
        codecs.call(encoder, "wrapAndApplyHeader", buffer, 0, header);
        body(encoder, tokens, 1, values);
        return Arrays.copyOf(buffer.byteArray(), (Integer) codecs.call(encoder, "limit"));
    }

    private void body(Object encoder, List<Token> tokens, int at, JsonObject values) throws ReflectiveOperationException {
        for (int i = at; i < tokens.size(); i += tokens.get(i).componentTokenCount()) {
            Token token = tokens.get(i);
            String property = JavaUtil.formatPropertyName(token.name());
            JsonElement value = values.get(token.name());
            if (token.signal() == Signal.BEGIN_FIELD) {
                if (!token.isConstantEncoding()) {
                    field(encoder, property, tokens, i + 1, value);
                }
            } else if (token.signal() == Signal.BEGIN_GROUP) {
                JsonArray entries = value.getAsJsonArray();
                Object group = codecs.call(encoder, property + "Count", entries.size());
                int first = i + 1 + tokens.get(i + 1).componentTokenCount();
                for (JsonElement entry : entries) {
                    body(codecs.call(group, "next"), tokens, first, entry.getAsJsonObject());
                }
            } else if (token.signal() == Signal.BEGIN_VAR_DATA) {
                data(encoder, token.name(), Hex.bytes(value.getAsString()));
            } else {
                break;
            }
        }
    }

    private void field(Object encoder, String property, List<Token> tokens, int at, JsonElement value) throws ReflectiveOperationException {
        Token token = tokens.get(at);
        if (token.isConstantEncoding()) {
            return;
        }
        if (token.signal() == Signal.BEGIN_COMPOSITE) {
            Object composite = codecs.call(encoder, property);
            int end = at + token.componentTokenCount() - 1;
            for (int i = at + 1; i < end; i += tokens.get(i).componentTokenCount()) {
                String name = tokens.get(i).name();
                field(composite, JavaUtil.formatPropertyName(name), tokens, i, value.getAsJsonObject().get(name));
            }
        } else if (token.signal() == Signal.BEGIN_SET) {
            Object set = codecs.call(encoder, property);
            codecs.call(set, "clear");
            for (Map.Entry<String, JsonElement> choice : value.getAsJsonObject().entrySet()) {
                codecs.call(set, JavaUtil.formatPropertyName(choice.getKey()), choice.getValue().getAsBoolean());
            }
        } else if (token.signal() == Signal.BEGIN_ENUM) {
            Method method = codecs.method(encoder, property, 1);
            method.invoke(encoder, constant(method.getParameterTypes()[0], value.getAsBigInteger().longValue()));
        } else if (token.arrayLength() == 1) {
            Method method = codecs.method(encoder, property, 1);
            method.invoke(encoder, number(value, method.getParameterTypes()[0]));
        } else {
            JsonArray elements = value.getAsJsonArray();
            Method method = codecs.method(encoder, property, 2);
            for (int i = 0; i < elements.size(); i++) {
                method.invoke(encoder, i, number(elements.get(i), method.getParameterTypes()[1]));
            }
        }
    }

    private void data(Object encoder, String name, byte[] bytes) throws ReflectiveOperationException {
        String put = "put" + JavaUtil.formatPropertyName(name).substring(0, 1).toUpperCase() + JavaUtil.formatPropertyName(name).substring(1);
        for (Method method : encoder.getClass().getMethods()) {
            if (method.getName().equals(put) && method.getParameterCount() == 3 && method.getParameterTypes()[0] == byte[].class) {
                method.setAccessible(true);
                method.invoke(encoder, bytes, 0, bytes.length);
                return;
            }
        }
        throw new NoSuchMethodException(encoder.getClass().getName() + '#' + put);
    }

    private static Object constant(Class<?> kind, long value) throws ReflectiveOperationException {
        Class<?> primitive = kind.getMethod("value").getReturnType();
        return kind.getMethod("get", primitive).invoke(null, number(value, primitive));
    }

    private static Object number(JsonElement value, Class<?> type) {
        return number(value.getAsBigInteger().longValue(), type);
    }

    private static Object number(long value, Class<?> type) {
        if (type == byte.class) {
            return (byte) value;
        } else if (type == short.class) {
            return (short) value;
        } else if (type == int.class) {
            return (int) value;
        } else if (type == long.class) {
            return value;
        } else if (type == float.class) {
            return Float.intBitsToFloat((int) value);
        } else if (type == double.class) {
            return Double.longBitsToDouble(value);
        }
        throw new IllegalArgumentException("no number: " + type);
    }
}
