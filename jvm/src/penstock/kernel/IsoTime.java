package penstock.kernel;

import java.time.LocalDate;
import java.time.YearMonth;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Dates and times written as ISO 8601: 2024-02-29, 2024-02-29T23:59, 2024-02-29 23:59:59.123456+05:30. Digits
 * after the microsecond are dropped. A year has four digits, so what cannot be written cannot be meant: numbers
 * are held to the same years, which finds milliseconds that are read as seconds.
 */
final class IsoTime {
  static final String DATE = "expected a date, yyyy-mm-dd";
  static final String TIME = "expected a time in ISO 8601";

  private static final long SECOND = 1_000_000;
  private static final long DAY = 24 * 60 * 60 * SECOND;
  private static final long FIRST = LocalDate.of(1, 1, 1).toEpochDay() * DAY;
  private static final long LAST = LocalDate.of(10_000, 1, 1).toEpochDay() * DAY - 1;
  private static final int LENGTH_OF_DATE = 10;
  private static final int MOST_OFFSET_HOURS = 18;

  /** What a text that is no date or time reads as; no day and no microsecond is this. */
  static final long NONE = Long.MIN_VALUE;

  private final UTF8String text;
  private final int length;
  private int at = 0;

  private IsoTime(UTF8String text) {
    this.text = text;
    length = text.numBytes();
  }

  /** Days since 1970, or {@link #NONE}. */
  static long days(UTF8String text) {
    IsoTime time = new IsoTime(text);
    return time.length == LENGTH_OF_DATE ? time.date() : NONE;
  }

  /** Microseconds since 1970 in UTC, or as the wall shows them where no zone may stand; or {@link #NONE}. */
  static long micros(UTF8String text, boolean zoned) {
    IsoTime time = new IsoTime(text);
    long days = time.date();
    long ofDay = time.at == time.length ? 0 : time.timeOfDay();
    long offset = zoned && time.at < time.length ? time.offset() : 0;
    if (days == NONE || ofDay == NONE || offset == NONE || time.at != time.length) return NONE;
    long micros = days * DAY + ofDay - offset;
    return inRange(micros) ? micros : NONE;
  }

  static boolean inRange(long micros) {
    return micros >= FIRST && micros <= LAST;
  }

  private long date() {
    int year = digits(4);
    if (!take('-')) return NONE;
    int month = digits(2);
    if (!take('-')) return NONE;
    int day = digits(2);
    if (year < 1 || month < 1 || month > 12 || day < 1) return NONE;
    if (day > 28 && day > YearMonth.of(year, month).lengthOfMonth()) return NONE;
    return LocalDate.of(year, month, day).toEpochDay();
  }

  private long timeOfDay() {
    if (!take('T') && !take(' ')) return NONE;
    int hour = digits(2);
    if (!take(':')) return NONE;
    int minute = digits(2);
    int second = take(':') ? digits(2) : 0;
    long fraction = take('.') ? fraction() : 0;
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 || fraction < 0) return NONE;
    return ((hour * 60 + minute) * 60 + second) * SECOND + fraction;
  }

  /** The digits behind the point as microseconds, or -1 where there is none. */
  private long fraction() {
    int start = at;
    long value = 0;
    long worth = SECOND / 10;
    for (int digit = digits(1); digit >= 0; digit = digits(1)) {
      value += digit * worth;
      worth /= 10;
    }
    return at == start ? -1 : value;
  }

  /** Z, +hh:mm or +hhmm. */
  private long offset() {
    if (take('Z')) return 0;
    boolean west = take('-');
    if (!west && !take('+')) return NONE;
    int hours = digits(2);
    take(':');
    int minutes = digits(2);
    if (hours < 0 || minutes < 0 || minutes > 59 || hours * 60 + minutes > MOST_OFFSET_HOURS * 60) return NONE;
    long offset = (hours * 60L + minutes) * 60 * SECOND;
    return west ? -offset : offset;
  }

  /** The number of so many digits that come next, or -1, and nothing consumed. */
  private int digits(int count) {
    if (at + count > length) return -1;
    int value = 0;
    for (int i = at; i < at + count; i++) {
      int digit = text.getByte(i) - '0';
      if (digit < 0 || digit > 9) return -1;
      value = value * 10 + digit;
    }
    at += count;
    return value;
  }

  private boolean take(char wanted) {
    if (at >= length || text.getByte(at) != wanted) return false;
    at++;
    return true;
  }
}
