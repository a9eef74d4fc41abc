package penstock.kernel;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.math.BigInteger;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Bytes being written, or being read: short numbers short, everything else as it is. */
final class Wire {
  private static final byte[] NONE = new byte[0];
  private static final VarHandle FIXED = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

  private byte[] bytes;
  private int at = 0;

  /** For writing. */
  Wire(int expected) {
    bytes = new byte[expected];
  }

  /** For reading. */
  Wire(byte[] bytes) {
    this.bytes = bytes;
  }

  /** A copy of what was written. */
  byte[] written() {
    return Arrays.copyOf(bytes, at);
  }

  /** What was written; the wire is empty again. */
  byte[] take() {
    byte[] written = written();
    at = 0;
    return written;
  }

  /** Makes the room for more bytes, perhaps in a new array, and answers where they go. */
  private int room(int more) {
    if (at + more > bytes.length) bytes = Arrays.copyOf(bytes, Math.max(at + more, bytes.length * 2));
    int start = at;
    at += more;
    return start;
  }

  Wire putByte(int value) {
    int start = room(1);
    bytes[start] = (byte) value;
    return this;
  }

  /** Zigzag, seven bits a byte: small numbers of either sign are short. */
  Wire putLong(long value) {
    int start = room(10);
    long rest = value << 1 ^ value >> 63;
    at = start;
    while ((rest & ~0x7fL) != 0) {
      bytes[at++] = (byte) (rest & 0x7f | 0x80);
      rest >>>= 7;
    }
    bytes[at++] = (byte) rest;
    return this;
  }

  /** A Long or a BigInteger, as {@link #putLong}, in more bytes where a long has too few. */
  Wire putInteger(Number value) {
    if (value instanceof Long) return putLong((Long) value);
    BigInteger whole = (BigInteger) value;
    BigInteger rest = whole.signum() < 0 ? whole.not().shiftLeft(1).setBit(0) : whole.shiftLeft(1);
    for (; rest.bitLength() > 7; rest = rest.shiftRight(7)) putByte(rest.intValue() & 0x7f | 0x80);
    return putByte(rest.intValue());
  }

  Wire putFixed(long value) {
    int start = room(8);
    FIXED.set(bytes, start, value);
    return this;
  }

  Wire putText(UTF8String text) {
    int length = text.numBytes();
    putLong(length);
    int start = room(length);
    text.writeToMemory(bytes, Platform.BYTE_ARRAY_OFFSET + start);
    return this;
  }

  Wire putBytes(byte[] value) {
    putLong(value.length);
    int start = room(value.length);
    System.arraycopy(value, 0, bytes, start, value.length);
    return this;
  }

  /** All that the other has not read yet, as it is. */
  Wire putRest(Wire other) {
    return putUpTo(other, other.bytes.length);
  }

  /** What the other has not read yet up to some place, as it is. */
  Wire putUpTo(Wire other, int end) {
    int more = end - other.at;
    int start = room(more);
    System.arraycopy(other.bytes, other.at, bytes, start, more);
    other.at = end;
    return this;
  }

  /** How many bytes were written. */
  int size() {
    return at;
  }

  boolean hasMore() {
    return at < bytes.length;
  }

  byte getByte() {
    return bytes[at++];
  }

  long getLong() {
    long rest = 0;
    int shift = 0;
    byte b;
    do {
      b = bytes[at++];
      rest |= (b & 0x7fL) << shift;
      shift += 7;
    } while (b < 0);
    return rest >>> 1 ^ -(rest & 1);
  }

  /** A Long wherever it fits one, else a BigInteger. */
  Number getInteger() {
    int start = at;
    long value = getLong();
    // Nine bytes hold 63 bits; of the tenth a long has one.
    if (at - start < 10 || at - start == 10 && bytes[at - 1] == 1) return value;
    BigInteger rest = BigInteger.ZERO;
    for (int i = at - 1; i >= start; i--) rest = rest.shiftLeft(7).or(BigInteger.valueOf(bytes[i] & 0x7f));
    return rest.testBit(0) ? rest.shiftRight(1).not() : rest.shiftRight(1);
  }

  long getFixed() {
    at += 8;
    return (long) FIXED.get(bytes, at - 8);
  }

  /** Where the bytes end that {@link #putBytes} wrote; they are to be read next. */
  int getEnd() {
    int length = (int) getLong();
    return at + length;
  }

  void skip(int count) {
    at += count;
  }

  /** A text as something to look up, where it stands. */
  Key getKey() {
    int length = (int) getLong();
    at += length;
    return new Key(bytes, at - length, at);
  }

  byte[] getBytes() {
    int length = (int) getLong();
    if (length == 0) return NONE;
    at += length;
    return Arrays.copyOfRange(bytes, at - length, at);
  }
}
