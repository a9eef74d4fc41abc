package penstock.kernel;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.types.DataTypes;

/**
 * The sessions of one key as bytes. Row-encoded state cost six times as much as the fold itself, hence a
 * format of our own: variable-length numbers, one byte of layout version in front.
 */
final class SessionCodec {
  private static final byte LAYOUT = 1;

  private final Measure[] measures;
  private byte[] buffer = new byte[256];
  private int at;

  SessionCodec(Measure[] measures) {
    this.measures = measures;
  }

  /** What is kept of one key. */
  static final class Kept {
    /** The registered timer, or 0 for none. */
    long timerMs;
    final List<Session> sessions = new ArrayList<>(2);
  }

  byte[] encode(Kept kept) {
    at = 0;
    putByte(LAYOUT);
    putLong(kept.timerMs);
    putLong(kept.sessions.size());
    for (Session session : kept.sessions) {
      putLong(session.startMs);
      putLong(session.endMs - session.startMs);
      putLong(session.version);
      putByte((session.closed ? 1 : 0) | (session.reopened ? 2 : 0));
      for (int i = 0; i < measures.length; i++) putMeasure(session, i);
    }
    return Arrays.copyOf(buffer, at);
  }

  private void putMeasure(Session session, int i) {
    Object value = session.values[i];
    putByte(value == null ? 0 : 1);
    if (value == null) return;
    if (value instanceof Long) putLong((Long) value);
    else if (value instanceof Double) putFixed(Double.doubleToRawLongBits((Double) value));
    else if (value instanceof Boolean) putByte((Boolean) value ? 1 : 0);
    else putText((String) value);
    if (measures[i].isOrdered()) {
      putLong(session.positions[i].timeMs - session.startMs);
      putLong(session.positions[i].partition);
      putLong(session.positions[i].offset);
    }
  }

  Kept decode(byte[] bytes) {
    byte[] scratch = buffer;
    buffer = bytes;
    at = 0;
    try {
      if (buffer[at++] != LAYOUT) throw new IllegalStateException("session state of an unknown layout: " + buffer[0]);
      Kept kept = new Kept();
      kept.timerMs = getLong();
      for (long left = getLong(); left > 0; left--) {
        long startMs = getLong();
        Session session = new Session(startMs, startMs + getLong(), measures.length);
        session.version = getLong();
        byte flags = buffer[at++];
        session.closed = (flags & 1) != 0;
        session.reopened = (flags & 2) != 0;
        for (int i = 0; i < measures.length; i++) getMeasure(session, i);
        session.told.add(new Session.Told(session.startMs, session.endMs, session.version, session.closed));
        kept.sessions.add(session);
      }
      return kept;
    } finally {
      buffer = scratch;
    }
  }

  private void getMeasure(Session session, int i) {
    if (buffer[at++] == 0) return;
    if (measures[i].type.equals(DataTypes.LongType)) session.values[i] = getLong();
    else if (measures[i].type.equals(DataTypes.DoubleType)) session.values[i] = Double.longBitsToDouble(getFixed());
    else if (measures[i].type.equals(DataTypes.BooleanType)) session.values[i] = buffer[at++] == 1;
    else session.values[i] = getText();
    if (measures[i].isOrdered())
      session.positions[i] = new Position(session.startMs + getLong(), (int) getLong(), getLong());
  }

  private void room(int bytes) {
    if (at + bytes > buffer.length) buffer = Arrays.copyOf(buffer, Math.max(at + bytes, buffer.length * 2));
  }

  private void putByte(int value) {
    room(1);
    buffer[at++] = (byte) value;
  }

  /** Zigzag, seven bits a byte: small numbers of either sign are short. */
  private void putLong(long value) {
    room(10);
    long rest = value << 1 ^ value >> 63;
    while ((rest & ~0x7fL) != 0) {
      buffer[at++] = (byte) (rest & 0x7f | 0x80);
      rest >>>= 7;
    }
    buffer[at++] = (byte) rest;
  }

  private long getLong() {
    long rest = 0;
    int shift = 0;
    byte b;
    do {
      b = buffer[at++];
      rest |= (b & 0x7fL) << shift;
      shift += 7;
    } while (b < 0);
    return rest >>> 1 ^ -(rest & 1);
  }

  private void putFixed(long value) {
    room(8);
    for (int i = 56; i >= 0; i -= 8) buffer[at++] = (byte) (value >>> i);
  }

  private long getFixed() {
    long value = 0;
    for (int i = 0; i < 8; i++) value = value << 8 | buffer[at++] & 0xff;
    return value;
  }

  private void putText(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    putLong(bytes.length);
    room(bytes.length);
    System.arraycopy(bytes, 0, buffer, at, bytes.length);
    at += bytes.length;
  }

  private String getText() {
    int length = (int) getLong();
    at += length;
    return new String(buffer, at - length, length, StandardCharsets.UTF_8);
  }
}
