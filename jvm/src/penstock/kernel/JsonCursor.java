package penstock.kernel;

import java.nio.charset.StandardCharsets;
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

  /** Powers of ten that a double holds exactly: up to here one division rounds correctly. */
  private static final double[] EXACT_POWERS = {
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22
  };

  private final byte[] text;
  int at = 0;

  JsonCursor(byte[] text) {
    this.text = text;
  }

  /** What is wrong with a record, and where. Carries no stack trace: a flood of bad records must stay cheap. */
  static final class Malformed extends Exception {
    Malformed(String problem, int at) {
      super(problem + ", at byte " + at, null, false, false);
    }
  }

  /** The first byte of the next token, without consuming it. */
  byte peek() throws Malformed {
    while (at < text.length) {
      byte b = text[at];
      if (b != ' ' && b != '\n' && b != '\r' && b != '\t') return b;
      at++;
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

  void expectEnd() throws Malformed {
    while (at < text.length) {
      byte b = text[at];
      if (b != ' ' && b != '\n' && b != '\r' && b != '\t') throw new Malformed("bytes after the end", at);
      at++;
    }
  }

  /** Reads a string and returns it as a view of the record's bytes, or as a copy where it holds escapes. */
  UTF8String string() throws Malformed {
    expect('"');
    int start = at;
    boolean ascii = true;
    while (at < text.length) {
      byte b = text[at];
      if (b == '"') {
        if (!ascii) checkUtf8(start, at);
        return UTF8String.fromBytes(text, start, at++ - start);
      }
      if (b == '\\') return UTF8String.fromString(unescape(start));
      if (b < 0) ascii = false;
      else if (b < 0x20) throw new Malformed("control character in a string", at);
      at++;
    }
    throw new Malformed("string without an end", start - 1);
  }

  private String unescape(int start) throws Malformed {
    StringBuilder out = new StringBuilder(at - start + 16);
    int from = start;
    while (at < text.length) {
      byte b = text[at];
      if (b >= 0 && b < 0x20) throw new Malformed("control character in a string", at);
      if (b != '"' && b != '\\') {
        at++;
        continue;
      }
      checkUtf8(from, at);
      out.append(new String(text, from, at - from, StandardCharsets.UTF_8));
      if (b == '"') {
        at++;
        return out.toString();
      }
      out.append(escape());
      from = at;
    }
    throw new Malformed("string without an end", start - 1);
  }

  private String escape() throws Malformed {
    int start = at++;
    if (at >= text.length) throw new Malformed("ends too early", at);
    byte b = text[at++];
    switch (b) {
      case '"': case '\\': case '/': return String.valueOf((char) b);
      case 'b': return "\b";
      case 'f': return "\f";
      case 'n': return "\n";
      case 'r': return "\r";
      case 't': return "\t";
      case 'u': break;
      default: throw new Malformed("unknown escape " + describe(b), start);
    }
    char unit = hexUnit();
    if (!Character.isSurrogate(unit)) return String.valueOf(unit);
    // Half a character cannot be written as UTF-8, so a lone surrogate is refused.
    if (Character.isHighSurrogate(unit) && at + 1 < text.length && text[at] == '\\' && text[at + 1] == 'u') {
      at += 2;
      char low = hexUnit();
      if (Character.isLowSurrogate(low)) return new String(new char[] {unit, low});
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

  private void checkUtf8(int start, int end) throws Malformed {
    int i = start;
    while (i < end) {
      int b = text[i];
      if (b >= 0) {
        i++;
        continue;
      }
      int lead = b & 0xff;
      int more = lead >= 0xc2 && lead <= 0xdf ? 1 : lead >= 0xe0 && lead <= 0xef ? 2 : lead >= 0xf0 && lead <= 0xf4 ? 3 : -1;
      if (more < 0 || i + more >= end) throw new Malformed("not UTF-8", i);
      int code = lead & (0x3f >> more);
      for (int k = 1; k <= more; k++) {
        int next = text[i + k];
        if ((next & 0xc0) != 0x80) throw new Malformed("not UTF-8", i);
        code = code << 6 | (next & 0x3f);
      }
      boolean overlong = more == 2 && code < 0x800 || more == 3 && code < 0x10000;
      if (overlong || code > 0x10ffff || code >= 0xd800 && code <= 0xdfff) throw new Malformed("not UTF-8", i);
      i += more + 1;
    }
  }

  /** Reads a whole number that fits a long; a fraction or an exponent is refused, never rounded. */
  long integer() throws Malformed {
    int start = at;
    boolean negative = text[at] == '-';
    if (negative) at++;
    // Counted down, because the range of a long reaches one further below zero than above.
    long value = 0;
    int digits = at;
    while (at < text.length && isDigit(text[at])) {
      int digit = text[at] - '0';
      if (value < (Long.MIN_VALUE + digit) / 10) throw new Malformed("number too large for a long", start);
      value = value * 10 - digit;
      at++;
    }
    checkDigits(digits, start);
    if (at < text.length && (text[at] == '.' || text[at] == 'e' || text[at] == 'E'))
      throw new Malformed("expected a whole number, got a fraction", start);
    if (negative) return value;
    if (value == Long.MIN_VALUE) throw new Malformed("number too large for a long", start);
    return -value;
  }

  /** Reads a number as the nearest double. */
  double decimal() throws Malformed {
    int start = at;
    boolean negative = text[at] == '-';
    if (negative) at++;
    int digits = at;
    long mantissa = 0;
    int significant = 0;
    while (at < text.length && isDigit(text[at])) {
      if (significant < 18) mantissa = mantissa * 10 + text[at] - '0';
      if (mantissa != 0) significant++;
      at++;
    }
    checkDigits(digits, start);
    int fraction = 0;
    if (at < text.length && text[at] == '.') {
      int dot = ++at;
      while (at < text.length && isDigit(text[at])) {
        if (significant < 18) mantissa = mantissa * 10 + text[at] - '0';
        if (mantissa != 0) significant++;
        at++;
      }
      fraction = at - dot;
      if (fraction == 0) throw new Malformed("expected digits after the point", at);
    }
    boolean exponent = at < text.length && (text[at] == 'e' || text[at] == 'E');
    if (exponent) {
      at++;
      if (at < text.length && (text[at] == '+' || text[at] == '-')) at++;
      int first = at;
      while (at < text.length && isDigit(text[at])) at++;
      if (at == first) throw new Malformed("expected digits in the exponent", at);
    }
    // One correctly rounded division when both sides are exact in a double; the general algorithm otherwise.
    if (!exponent && significant <= 15 && fraction < EXACT_POWERS.length) {
      double value = mantissa / EXACT_POWERS[fraction];
      return negative ? -value : value;
    }
    return Double.parseDouble(new String(text, start, at - start, StandardCharsets.US_ASCII));
  }

  private void checkDigits(int digits, int start) throws Malformed {
    if (at == digits) throw new Malformed("expected a number", start);
    if (text[digits] == '0' && at - digits > 1) throw new Malformed("number with a leading zero", start);
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
  void skip(int depth) throws Malformed {
    if (depth > MAX_DEPTH) throw new Malformed("nested deeper than " + MAX_DEPTH, at);
    byte b = peek();
    switch (b) {
      case '"': string(); return;
      case 't': literal("true"); return;
      case 'f': literal("false"); return;
      case 'n': literal("null"); return;
      case '[':
        at++;
        if (take(']')) return;
        do skip(depth + 1); while (take(','));
        expect(']');
        return;
      case '{':
        at++;
        if (take('}')) return;
        do {
          string();
          expect(':');
          skip(depth + 1);
        } while (take(','));
        expect('}');
        return;
      default:
        if (b != '-' && !isDigit(b)) throw new Malformed("expected a value, got " + describe(b), at);
        decimal();
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
        if (b == '-' || isDigit(b)) return "number";
        return b > 0x20 && b < 0x7f ? "'" + (char) b + "'" : String.format("byte 0x%02x", b & 0xff);
    }
  }

  static boolean isDigit(byte b) {
    return b >= '0' && b <= '9';
  }
}
