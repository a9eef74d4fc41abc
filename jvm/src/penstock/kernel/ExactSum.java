package penstock.kernel;

import java.util.Arrays;

/**
 * A sum of doubles without rounding until it is asked for, so that it does not depend on the order in which
 * events arrive or partial sums meet: what is combined before the shuffle, or read again after a crash, gives
 * the same bits.
 *
 * <p>Held as doubles that do not overlap, smallest first (Shewchuk's expansions); prices seldom need two.
 */
final class ExactSum {
  private double[] parts;
  private int size;
  /** The sum of what is not finite; it takes over once there is any. */
  private double special = 0;

  private ExactSum(double[] parts, double special) {
    this.parts = parts;
    this.size = parts.length;
    this.special = special;
  }

  ExactSum copy() {
    return new ExactSum(Arrays.copyOf(parts, size), special);
  }

  void add(double value) {
    if (Double.isNaN(value) || Double.isInfinite(value)) {
      special += value;
      return;
    }
    int kept = 0;
    for (int i = 0; i < size; i++) {
      double part = parts[i];
      if (Math.abs(value) < Math.abs(part)) {
        double swap = value;
        value = part;
        part = swap;
      }
      double high = value + part;
      double low = part - (high - value);
      if (low != 0) parts[kept++] = low;
      value = high;
    }
    if (kept == parts.length) parts = Arrays.copyOf(parts, kept + 2);
    parts[kept] = value;
    size = kept + 1;
  }

  void add(ExactSum other) {
    special += other.special;
    for (int i = 0; i < other.size; i++) add(other.parts[i]);
  }

  /** The sum, rounded once: the double nearest to the true sum, the even one of two equally near. */
  double value() {
    if (special != 0) return special;
    int i = size - 1;
    double high = parts[i];
    double low = 0;
    while (i > 0) {
      double before = high;
      double next = parts[--i];
      high = before + next;
      low = next - (high - before);
      if (low != 0) break;
    }
    // Half way between two doubles, what is left below decides.
    if (i > 0 && (low < 0) == (parts[i - 1] < 0)) {
      double twice = low * 2;
      double up = high + twice;
      if (twice == up - high) return up;
    }
    return high;
  }

  // How many parts there are, doubled, and one more where something was not finite.

  void write(Wire wire) {
    wire.putLong(size * 2 + (special != 0 ? 1 : 0));
    if (special != 0) wire.putFixed(Double.doubleToRawLongBits(special));
    for (int i = 0; i < size; i++) wire.putFixed(Double.doubleToRawLongBits(parts[i]));
  }

  /** A sum of one. */
  static void write(Wire wire, double value) {
    boolean finite = Math.abs(value) <= Double.MAX_VALUE;
    wire.putLong(finite ? 2 : 1).putFixed(Double.doubleToRawLongBits(value));
  }

  static ExactSum read(Wire wire) {
    int head = (int) wire.getLong();
    double special = (head & 1) != 0 ? Double.longBitsToDouble(wire.getFixed()) : 0;
    double[] parts = new double[head >> 1];
    for (int i = 0; i < parts.length; i++) parts[i] = Double.longBitsToDouble(wire.getFixed());
    return new ExactSum(parts, special);
  }

  /** Adds what {@link #read} would read. */
  void addRead(Wire wire) {
    int head = (int) wire.getLong();
    if ((head & 1) != 0) special += Double.longBitsToDouble(wire.getFixed());
    for (int left = head >> 1; left > 0; left--) add(Double.longBitsToDouble(wire.getFixed()));
  }
}
