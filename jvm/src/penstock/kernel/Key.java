package penstock.kernel;

import java.util.Arrays;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;

/** What events are grouped by, in the bytes of a part: comparable, and not copied before it is asked for. */
final class Key {
  private static final int SEED = 42;

  private final byte[] held;
  private final int from;
  private final int to;
  private final int hash;

  Key(byte[] held, int from, int to) {
    this.held = held;
    this.from = from;
    this.to = to;
    this.hash = Murmur3_x86_32.hashUnsafeBytes(held, Platform.BYTE_ARRAY_OFFSET + from, to - from, SEED);
  }

  byte[] bytes() {
    return Arrays.copyOfRange(held, from, to);
  }

  @Override public int hashCode() {
    return hash;
  }

  @Override public boolean equals(Object other) {
    if (!(other instanceof Key)) return false;
    Key key = (Key) other;
    return Arrays.equals(held, from, to, key.held, key.from, key.to);
  }
}
