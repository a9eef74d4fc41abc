package penstock.kernel;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.types.Decimal;

/**
 * A JSON number taken apart: ± digits * 10^-scale. Each conversion is exact or the nearest value, and takes
 * time in proportion to the text, whatever stands in it (1e999999999, a million digits).
 */
final class JsonNumber {
  /** As many digits as always fit a long. */
  private static final int LONG_DIGITS = 18;
  /** Far beyond every type; from here on exponents are only counted as large. */
  private static final int HUGE_EXPONENT = 100_000_000;

  private static final long[] POWERS = new long[LONG_DIGITS + 1];
  /** The powers of ten that a double holds exactly: one multiplication or division by them rounds correctly. */
  private static final double[] DOUBLE_POWERS = new double[23];
  /** The same for a float. */
  private static final int FLOAT_POWERS = 11;

  static {
    for (int i = 0; i <= LONG_DIGITS; i++) POWERS[i] = i == 0 ? 1 : 10 * POWERS[i - 1];
    for (int i = 0; i < DOUBLE_POWERS.length; i++) DOUBLE_POWERS[i] = i == 0 ? 1 : 10 * DOUBLE_POWERS[i - 1];
  }

  private final byte[] text;
  private final int start;
  private final int end;
  private final boolean negative;
  /** The number of digits from the first that is not zero on. */
  private final int significant;
  /** The first {@link #LONG_DIGITS} of them. */
  private final long leading;
  private final int scale;

  /** Reads the number that comes next. */
  JsonNumber(JsonCursor json) throws Malformed {
    text = json.text;
    start = json.at;
    negative = text[start] == '-';
    int first = negative ? start + 1 : start;
    int i = first;
    long value = 0;
    int counted = 0;
    for (; i < text.length && isDigit(text[i]); i++) {
      if (counted < LONG_DIGITS) value = value * 10 + text[i] - '0';
      if (value != 0) counted++;
    }
    checkWhole(text, start, first, i);
    int fraction = 0;
    if (i < text.length && text[i] == '.') {
      int point = i++;
      for (; i < text.length && isDigit(text[i]); i++) {
        if (counted < LONG_DIGITS) value = value * 10 + text[i] - '0';
        if (value != 0) counted++;
      }
      fraction = i - point - 1;
      if (fraction == 0) throw new Malformed("expected digits after the point", i);
    }
    json.at = i;
    significant = counted;
    leading = value;
    scale = fraction - exponent(json);
    end = json.at;
  }

  private static int exponent(JsonCursor json) throws Malformed {
    byte[] text = json.text;
    int i = json.at;
    if (i >= text.length || text[i] != 'e' && text[i] != 'E') return 0;
    i++;
    boolean negative = i < text.length && text[i] == '-';
    if (negative || i < text.length && text[i] == '+') i++;
    int first = i;
    int value = 0;
    for (; i < text.length && isDigit(text[i]); i++)
      value = Math.min(value * 10 + text[i] - '0', HUGE_EXPONENT);
    if (i == first) throw new Malformed("expected digits in the exponent", i);
    json.at = i;
    return negative ? -value : value;
  }

  /**
   * Reads the whole number that comes next; a fraction or an exponent is refused, never rounded.
   *
   * @param type what a number outside of the bounds does not fit
   */
  static long whole(JsonCursor json, long min, long max, String type) throws Malformed {
    byte[] text = json.text;
    int start = json.at;
    boolean negative = text[start] == '-';
    int first = negative ? start + 1 : start;
    int i = first;
    long value = 0;
    for (; i < text.length && isDigit(text[i]); i++) value = value * 10 + text[i] - '0';
    checkWhole(text, start, first, i);
    json.at = i;
    if (i < text.length && (text[i] == '.' || text[i] == 'e' || text[i] == 'E'))
      throw new Malformed("expected a whole number, got a fraction", start);
    // Nineteen digits always fit an unsigned long, and one value above the largest long is right: the smallest.
    boolean fits = i - first <= LONG_DIGITS + 1 && (value >= 0 || negative && value == Long.MIN_VALUE);
    if (negative) value = -value;
    if (!fits || value < min || value > max) throw unfit(text, start, i, type);
    return value;
  }

  double toDouble(String type) throws Malformed {
    // Below 2^53, so exact in a double.
    boolean exact = significant <= 15 && Math.abs(scale) < DOUBLE_POWERS.length;
    if (exact) {
      double value = scale >= 0 ? leading / DOUBLE_POWERS[scale] : leading * DOUBLE_POWERS[-scale];
      return negative ? -value : value;
    }
    double value = Double.parseDouble(ascii(text, start, end));
    if (Double.isInfinite(value)) throw unfit(type);
    return value;
  }

  /** Not by way of a double, which would round twice. */
  float toFloat(String type) throws Malformed {
    if (leading < 1 << 24 && significant <= LONG_DIGITS && scale >= 0 && scale < FLOAT_POWERS) {
      float value = leading / (float) DOUBLE_POWERS[scale];
      return negative ? -value : value;
    }
    float value = Float.parseFloat(ascii(text, start, end));
    if (Float.isInfinite(value)) throw unfit(type);
    return value;
  }

  /** Exactly the number: refused where a digit would be lost, at either end. Zeros at the end are no digits. */
  Decimal toDecimal(int precision, int wantedScale, String type) throws Malformed {
    if (leading == 0) return Decimal.createUnsafe(0, precision, wantedScale);
    long shift = (long) wantedScale - scale;
    if (significant > LONG_DIGITS || precision > LONG_DIGITS)
      return toLongDecimal(precision, wantedScale, shift, type);
    long value;
    if (shift >= 0) {
      if (significant + shift > precision) throw unfit(type);
      value = leading * POWERS[(int) shift];
    } else {
      if (significant + shift <= 0 || leading % POWERS[(int) -shift] != 0) throw unfit(type);
      value = leading / POWERS[(int) -shift];
      if (value >= POWERS[precision]) throw unfit(type);
    }
    return Decimal.createUnsafe(negative ? -value : value, precision, wantedScale);
  }

  private Decimal toLongDecimal(int precision, int wantedScale, long shift, String type) throws Malformed {
    String digits = digits();
    int kept = digits.length();
    while (digits.charAt(kept - 1) == '0') kept--;
    long zeros = shift + digits.length() - kept;
    if (zeros < 0 || kept + zeros > precision) throw unfit(type);
    BigInteger value = new BigInteger(digits.substring(0, kept) + "0".repeat((int) zeros));
    return Decimal.apply(new BigDecimal(negative ? value.negate() : value, wantedScale), precision, wantedScale);
  }

  /**
   * The number times 10^shift without what then stands behind the point, or {@link Long#MAX_VALUE} where that
   * has more than 18 digits.
   */
  long truncated(int shift) {
    if (leading == 0) return 0;
    long zeros = (long) shift - scale + Math.max(0, significant - LONG_DIGITS);
    int kept = Math.min(significant, LONG_DIGITS);
    if (kept + zeros > LONG_DIGITS) return Long.MAX_VALUE;
    long value = 0;
    if (zeros >= 0) value = leading * POWERS[(int) zeros];
    else if (zeros >= -LONG_DIGITS) value = leading / POWERS[(int) -zeros];
    return negative ? -value : value;
  }

  Malformed unfit(String type) {
    return unfit(text, start, end, type);
  }

  private static Malformed unfit(byte[] text, int start, int end, String type) {
    return new Malformed(Malformed.shortened(ascii(text, start, end)) + " does not fit " + type, start);
  }

  /** The significant digits as text. */
  private String digits() {
    String number = ascii(text, start, end);
    int exponent = Math.max(number.indexOf('e'), number.indexOf('E'));
    return (exponent < 0 ? number : number.substring(0, exponent)).replaceAll("[-.]", "").replaceAll("^0+", "");
  }

  private static void checkWhole(byte[] text, int start, int first, int end) throws Malformed {
    if (end == first) throw new Malformed("expected a number", start);
    if (text[first] == '0' && end - first > 1) throw new Malformed("number with a leading zero", start);
  }

  private static String ascii(byte[] text, int start, int end) {
    return new String(text, start, end - start, StandardCharsets.US_ASCII);
  }

  private static boolean isDigit(byte b) {
    return b >= '0' && b <= '9';
  }
}
