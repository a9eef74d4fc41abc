package penstock.kernel;

import java.util.Arrays;

/**
 * How many different values there were: exactly up to {@value #LIMIT}, estimated beyond.
 *
 * <p>Values are held as 64-bit hashes, the {@value #LIMIT} smallest of them, sorted. How densely those lie tells
 * how many there were in all (standard error 3 %). The smallest of a union are the same whatever the order, so
 * this too does not depend on how events were split and merged.
 */
final class Distinct {
  static final int LIMIT = 1_024;

  private long[] hashes;
  private int size;
  private boolean exact;

  private Distinct(long[] hashes, boolean exact) {
    this.hashes = hashes;
    this.size = hashes.length;
    this.exact = exact;
  }

  Distinct copy() {
    return new Distinct(Arrays.copyOf(hashes, size), exact);
  }

  void add(Distinct other) {
    exact &= other.exact;
    if (other.size == 1) {
      add(other.hashes[0]);
      return;
    }
    long[] merged = new long[size + other.size];
    int count = 0, a = 0, b = 0;
    while (a < size || b < other.size) {
      long next;
      if (b == other.size || a < size && hashes[a] <= other.hashes[b]) next = hashes[a++];
      else next = other.hashes[b++];
      if (count == 0 || merged[count - 1] != next) merged[count++] = next;
    }
    hashes = merged;
    size = count;
    cut();
  }

  private void add(long hash) {
    int place = Arrays.binarySearch(hashes, 0, size, hash);
    if (place >= 0) return;
    place = -place - 1;
    if (size == hashes.length) hashes = Arrays.copyOf(hashes, Math.min(size * 2, LIMIT + 1));
    System.arraycopy(hashes, place, hashes, place + 1, size - place);
    hashes[place] = hash;
    size++;
    cut();
  }

  private void cut() {
    if (size <= LIMIT) return;
    size = LIMIT;
    exact = false;
  }

  boolean isExact() {
    return exact;
  }

  long count() {
    if (exact) return size;
    // The hashes are spread over [-2^63, 2^63): the share below the largest kept holds LIMIT - 1 of all.
    double share = (hashes[size - 1] - (double) Long.MIN_VALUE) / 0x1p64;
    return Math.round((LIMIT - 1) / share);
  }

  void write(Wire wire) {
    wire.putByte(exact ? 1 : 0).putLong(size);
    for (int i = 0; i < size; i++) wire.putFixed(hashes[i]);
  }

  /** Of one value. */
  static void write(Wire wire, long hash) {
    wire.putByte(1).putLong(1).putFixed(hash);
  }

  static Distinct read(Wire wire) {
    boolean exact = wire.getByte() == 1;
    long[] hashes = new long[(int) wire.getLong()];
    for (int i = 0; i < hashes.length; i++) hashes[i] = wire.getFixed();
    return new Distinct(hashes, exact);
  }
}
