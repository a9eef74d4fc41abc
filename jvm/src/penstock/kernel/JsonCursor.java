package penstock.kernel;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A strict reader of one JSON text (RFC 8259) in a byte array, without copies where the text needs none.
 *
 * <p>Stricter than {@code from_json} on purpose: no single quotes, no NaN, no leading zeros, no bytes after
 * the value, and every string is checked to be UTF-8, because a value that was guessed is worse than a record
 * that was set aside.
 */
final class JsonCursor {
  static final int MAX_DEPTH = 64;

  private static final VarHandle WORD =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final long EACH_BYTE = 0x0101010101010101L;
  private static final long EACH_SIGN = 0x8080808080808080L;

  final byte[] text;
  int at = 0;
  private int depth = 0;

  JsonCursor(byte[] text) {
    this.text = text;
  }

  /** The first byte of the next token, without consuming it. */
  byte peek() throws Malformed {
    for (int i = at; i < text.length; i++) {
      byte b = text[i];
      if (isSpace(b)) continue;
      at = i;
      return b;
    }
    throw new Malformed(text.length == 0 ? "empty record" : "ends too early", text.length);
  }

  void expect(char wanted) throws Malformed {
    byte b = peek();
    if (b != wanted) throw new Malformed("expected '" + wanted + "', got " + describe(b), at);
    at++;
  }

  /** True, and consumed, when the next token is this punctuation. */
  boolean take(char wanted) throws Malformed {
    if (peek() != wanted) return false;
    at++;
    return true;
  }

  /** True, and consumed, when exactly these bytes come next. */
  boolean take(byte[] wanted) {
    int end = at + wanted.length;
    if (end > text.length || !Arrays.equals(text, at, end, wanted, 0, wanted.length)) return false;
    at = end;
    return true;
  }

  void expectEnd() throws Malformed {
    for (; at < text.length; at++) if (!isSpace(text[at])) throw new Malformed("bytes after the end", at);
  }

  /** Into an object or array; the limit keeps the stack from overflowing. */
  void enter(char open) throws Malformed {
    expect(open);
    if (++depth > MAX_DEPTH) throw new Malformed("nested deeper than " + MAX_DEPTH, at - 1);
  }

  /** Out of an object or array, past its last byte. */
  void leave(char close) throws Malformed {
    expect(close);
    depth--;
  }

  /** Reads a string and returns it as a view of the record's bytes, or as a copy where it holds escapes. */
  UTF8String string() throws Malformed {
    expect('"');
    int start = at;
    at = endOfPlain(start, start);
    if (text[at] == '"') return UTF8String.fromBytes(text, start, at++ - start);
    passEscapes(start);
    return unescape(start, at - 1);
  }

  /** Passes over a string, checking it; true where it holds escapes. */
  boolean skipString() throws Malformed {
    expect('"');
    int start = at;
    at = endOfPlain(start, start);
    return passEscapes(start);
  }

  /** Where the next quote or backslash is; all before it is checked: UTF-8, without control characters. */
  private int endOfPlain(int from, int start) throws Malformed {
    int i = from;
    int lastWord = text.length - Long.BYTES;
    while (true) {
      while (i <= lastWord) {
        long found = notPlain((long) WORD.get(text, i));
        if (found != 0) {
          i += Long.numberOfTrailingZeros(found) >>> 3;
          break;
        }
        i += Long.BYTES;
      }
      if (i >= text.length) throw new Malformed("string without an end", start - 1);
      byte b = text[i];
      if (b == '"' || b == '\\') return i;
      if (b >= 0 && b < 0x20) throw new Malformed("control character in a string", i);
      i += b < 0 ? lengthOfCharacter(i) : 1;
    }
  }

  /**
   * Eight bytes of text at once: zero when all are plain, else the lowest bit that is set lies in the first byte
   * that is a quote, a backslash, a control character or not ASCII. Bits above it can be set wrongly, by a borrow.
   */
  private static long notPlain(long word) {
    long quote = word ^ EACH_BYTE * '"';
    long backslash = word ^ EACH_BYTE * '\\';
    long ascii = (quote - EACH_BYTE) & ~quote | (backslash - EACH_BYTE) & ~backslash | word - EACH_BYTE * 0x20;
    return (ascii | word) & EACH_SIGN;
  }

  /** The bytes of the UTF-8 character at this index, which is not ASCII. */
  private int lengthOfCharacter(int i) throws Malformed {
    int lead = text[i] & 0xff;
    int more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    if (lead < 0xc2 || lead > 0xf4 || i + more >= text.length) throw new Malformed("not UTF-8", i);
    int code = lead & (0x3f >> more);
    for (int k = 1; k <= more; k++) {
      int next = text[i + k];
      if ((next & 0xc0) != 0x80) throw new Malformed("not UTF-8", i);
      code = code << 6 | (next & 0x3f);
    }
    boolean overlong = more == 2 && code < 0x800 || more == 3 && code < 0x10000;
    if (overlong || code > 0x10ffff || code >= 0xd800 && code <= 0xdfff) throw new Malformed("not UTF-8", i);
    return more + 1;
  }

  /** From the first quote or backslash of a string to behind its closing quote; true where escapes were between. */
  private boolean passEscapes(int start) throws Malformed {
    int first = at;
    while (text[at] == '\\') {
      escape();
      at = endOfPlain(at, start);
    }
    return at++ > first;
  }

  /** The text between two indexes, already checked; no escape is shorter than what it stands for. */
  UTF8String unescape(int start, int end) throws Malformed {
    byte[] out = new byte[end - start];
    int size = 0;
    at = start;
    while (at < end) {
      if (text[at] != '\\') out[size++] = text[at++];
      else size = putUtf8(out, size, escape());
    }
    at = end + 1;
    return UTF8String.fromBytes(out, 0, size);
  }

  private static int putUtf8(byte[] out, int size, int code) {
    if (code < 0x80) {
      out[size++] = (byte) code;
      return size;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    out[size++] = (byte) (0xff00 >> more + 1 | code >> 6 * more);
    while (more-- > 0) out[size++] = (byte) (0x80 | code >> 6 * more & 0x3f);
    return size;
  }

  /** Moves past one escape and returns the code point that it stands for. */
  private int escape() throws Malformed {
    int start = at++;
    if (at >= text.length) throw new Malformed("ends too early", at);
    byte b = text[at++];
    switch (b) {
      case '"': case '\\': case '/': return b;
      case 'b': return '\b';
      case 'f': return '\f';
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case 'u': break;
      default: throw new Malformed("unknown escape " + describe(b), start);
    }
    char unit = hexUnit();
    if (!Character.isSurrogate(unit)) return unit;
    // Half a character cannot be written as UTF-8, so a lone surrogate is refused.
    if (Character.isHighSurrogate(unit) && at + 1 < text.length && text[at] == '\\' && text[at + 1] == 'u') {
      at += 2;
      char low = hexUnit();
      if (Character.isLowSurrogate(low)) return Character.toCodePoint(unit, low);
    }
    throw new Malformed("lone surrogate in an escape", start);
  }

  private char hexUnit() throws Malformed {
    int value = 0;
    for (int i = 0; i < 4; i++, at++) {
      int digit = at < text.length ? Character.digit(text[at], 16) : -1;
      if (digit < 0) throw new Malformed("expected four hex digits", at);
      value = value << 4 | digit;
    }
    return (char) value;
  }

  boolean bool() throws Malformed {
    if (text[at] == 't') {
      literal("true");
      return true;
    }
    literal("false");
    return false;
  }

  void literal(String word) throws Malformed {
    for (int i = 0; i < word.length(); i++)
      if (at + i >= text.length || text[at + i] != word.charAt(i)) throw new Malformed("expected " + word, at);
    at += word.length();
  }

  /** Passes over a value of any kind, checking it, building nothing. */
  void skip() throws Malformed {
    byte b = peek();
    switch (b) {
      case '"': skipString(); return;
      case 't': literal("true"); return;
      case 'f': literal("false"); return;
      case 'n': literal("null"); return;
      case '[':
        enter('[');
        if (peek() != ']') do skip(); while (take(','));
        leave(']');
        return;
      case '{':
        enter('{');
        if (peek() != '}') {
          do {
            skipString();
            expect(':');
            skip();
          } while (take(','));
        }
        leave('}');
        return;
      default:
        if (!startsNumber(b)) throw new Malformed("expected a value, got " + describe(b), at);
        new JsonNumber(this);
    }
  }

  /** What kind of value starts with this byte, in words for an error. */
  static String describe(byte b) {
    switch (b) {
      case '"': return "string";
      case '{': return "object";
      case '[': return "array";
      case 't': case 'f': return "boolean";
      case 'n': return "null";
      default:
        if (startsNumber(b)) return "number";
        return b > 0x20 && b < 0x7f ? "'" + (char) b + "'" : String.format("byte 0x%02x", b & 0xff);
    }
  }

  static boolean startsNumber(byte b) {
    return b == '-' || b >= '0' && b <= '9';
  }

  private static boolean isSpace(byte b) {
    return b <= ' ' && (b == ' ' || b == '\n' || b == '\r' || b == '\t');
  }
}
