// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.StringReader;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Set;
import javax.xml.XMLConstants;
import javax.xml.parsers.DocumentBuilder;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.parsers.ParserConfigurationException;
import javax.xml.transform.OutputKeys;
import javax.xml.transform.Transformer;
import javax.xml.transform.TransformerException;
import javax.xml.transform.TransformerFactory;
import javax.xml.transform.dom.DOMSource;
import javax.xml.transform.stream.StreamResult;
import org.w3c.dom.Document;
import org.w3c.dom.DocumentType;
import org.w3c.dom.Element;
import org.xml.sax.InputSource;
import org.xml.sax.SAXException;
import org.xml.sax.SAXParseException;
import org.xml.sax.helpers.DefaultHandler;

/**
 * Reads a schema's XML with the JDK's parser: without network access, with XIncludes of files resolved, and without a
 * document type that defines anything. {@code <!DOCTYPE xml>}, which stock exchanges write, defines nothing and is
 * allowed.
 */
final class SchemaXml {
    private static final String XINCLUDE = "http://www.w3.org/2001/XInclude";
    private static final String APACHE = "http://apache.org/xml/features/";
    private static final String SAX = "http://xml.org/sax/features/";
    /** Encodings that may stay declared when the text is stored as UTF-8. */
    private static final Set<String> UNICODE = Set.of("UTF-8", "US-ASCII", "ASCII");
    private static final String BYTE_ORDER_MARK = "\uFEFF";

    private final String name;
    private final byte[] bytes;
    private final String string;
    private final String place;
    private final Document document;
    private final String text;

    /** Reads bytes in the encoding that they declare; {@code place} is the URI of their file, or null. */
    SchemaXml(String name, byte[] bytes, String place) {
        this(name, bytes, null, place);
    }

    SchemaXml(String name, String string) {
        this(name, null, string, null);
    }

    private SchemaXml(String name, byte[] bytes, String string, String place) {
        this.name = name;
        this.bytes = bytes;
        this.string = string;
        this.place = place;
        Document plain = parse(false);
        boolean includes = plain.getElementsByTagNameNS(XINCLUDE, "include").getLength() > 0;
        if (includes && place == null) {
            throw wrong("it has an XInclude, which can be resolved only if the schema is loaded from a file");
        }
        this.document = includes ? parse(true) : plain;
        this.text = includes || !unicode(plain.getXmlEncoding()) || !unicode(plain.getInputEncoding())
            ? serialized() : verbatim();
    }

    Element root() {
        return document.getDocumentElement();
    }

    String text() {
        return text;
    }

    InvalidArgumentException wrong(String what) {
        return new InvalidArgumentException("schema", name + " is no SBE schema that can be used: " + what + ".");
    }

    private Document parse(boolean include) {
        InputSource source = bytes == null ? new InputSource(new StringReader(string))
            : new InputSource(new ByteArrayInputStream(bytes));
        source.setSystemId(place);
        try {
            return parse(source, include);
        } catch (SAXParseException e) {
            throw because(e, (e.getLineNumber() > 0 ? "line " + e.getLineNumber() + ": " : "") + e.getMessage());
        } catch (SAXException | IOException e) {
            throw because(e, e.getMessage());
        }
    }

    private static Document parse(InputSource source, boolean include) throws SAXException, IOException {
        try {
            DocumentBuilderFactory factory = DocumentBuilderFactory.newDefaultNSInstance();
            factory.setFeature(XMLConstants.FEATURE_SECURE_PROCESSING, true);
            factory.setFeature(APACHE + "nonvalidating/load-external-dtd", false);
            factory.setFeature(SAX + "external-general-entities", false);
            factory.setFeature(SAX + "external-parameter-entities", false);
            factory.setAttribute(XMLConstants.ACCESS_EXTERNAL_DTD, "file"); // limits XIncludes, too
            factory.setAttribute(XMLConstants.ACCESS_EXTERNAL_SCHEMA, "");
            if (include) {
                factory.setXIncludeAware(true);
                factory.setFeature(APACHE + "xinclude/fixup-base-uris", false); // the text must not name local files
                factory.setFeature(APACHE + "xinclude/fixup-language", false);
            }
            DocumentBuilder builder = factory.newDocumentBuilder();
            builder.setErrorHandler(new Errors());
            builder.setEntityResolver((publicId, systemId) -> included(systemId));
            Document read = builder.parse(source);
            DocumentType type = read.getDoctype();
            if (type != null
                && (type.getSystemId() != null || type.getPublicId() != null || type.getInternalSubset() != null)) {
                throw new DocumentTypeException();
            }
            return read;
        } catch (ParserConfigurationException e) {
            throw new AssertionError("the JDK's parser knows these", e);
        }
    }

    private InvalidArgumentException because(Exception e, String what) {
        InvalidArgumentException error = wrong(what.replaceAll("\\.$", ""));
        error.initCause(e);
        return error;
    }

    /** Checks an included URI; returns null, so that the parser reads it in the usual way. */
    private static InputSource included(String uri) throws SAXException {
        if (!uri.toLowerCase(Locale.ROOT).startsWith("file:")) {
            throw new SAXException("it includes " + uri + ", which is no file");
        }
        try {
            parse(new InputSource(uri), false);
        } catch (DocumentTypeException e) {
            throw e;
        } catch (SAXException | IOException e) {
            return null; // the parser reports an error, or takes it as text
        }
        return null;
    }

    private static boolean unicode(String encoding) {
        return encoding == null || UNICODE.contains(encoding.toUpperCase(Locale.ROOT));
    }

    private String verbatim() {
        String read = bytes == null ? string : new String(bytes, StandardCharsets.UTF_8);
        return read.startsWith(BYTE_ORDER_MARK) ? read.substring(1) : read;
    }

    private String serialized() {
        StringWriter to = new StringWriter();
        to.write("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        try {
            Transformer transformer = TransformerFactory.newDefaultInstance().newTransformer();
            transformer.setOutputProperty(OutputKeys.OMIT_XML_DECLARATION, "yes"); // it names the old encoding
            transformer.transform(new DOMSource(document), new StreamResult(to));
            return to.toString();
        } catch (TransformerException e) {
            throw new AssertionError("a document can be written", e);
        }
    }

    /** Thrown for a document type that defines something, or may. */
    private static final class DocumentTypeException extends SAXException {
        private static final long serialVersionUID = 1;

        DocumentTypeException() {
            super("<!DOCTYPE>: a schema needs none, and none is read. Remove it");
        }
    }

    /** Throws errors instead of printing them. */
    private static final class Errors extends DefaultHandler {
        @Override
        public void error(SAXParseException e) throws SAXException {
            throw e;
        }
    }
}
