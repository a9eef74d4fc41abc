package penstock.kernel;

import java.util.Arrays;

/**
 * Where events stand in the topic, when they happened, and the hash of their id (0 for none).
 *
 * <p>Asked for only when events turn out to be late, or to be remembered; but that is known only behind the
 * shuffle, so they go along, in about four bytes an event.
 */
final class Places {
  private static final int WIDTH = 4;

  private long[] held;
  private int size = 0;

  interface Visitor {
    void visit(int partition, long offset, long timeMs, long id);
  }

  Places(int expected) {
    held = new long[expected * WIDTH];
  }

  void add(int partition, long offset, long timeMs, long id) {
    if (size == held.length) held = Arrays.copyOf(held, Math.max(size * 2, WIDTH));
    held[size] = partition;
    held[size + 1] = offset;
    held[size + 2] = timeMs;
    held[size + 3] = id;
    size += WIDTH;
  }

  void add(Places other) {
    if (size + other.size > held.length) held = Arrays.copyOf(held, Math.max(size * 2, size + other.size));
    System.arraycopy(other.held, 0, held, size, other.size);
    size += other.size;
  }

  int count() {
    return size / WIDTH;
  }

  void each(Visitor visitor) {
    for (int i = 0; i < size; i += WIDTH) visitor.visit((int) held[i], held[i + 1], held[i + 2], held[i + 3]);
  }

  /** The place of the first, in the order in which events are taken. */
  Position first() {
    return new Position(held[2], (int) held[0], held[1]);
  }

  long firstId() {
    return held[3];
  }

  void write(Wire wire) {
    wire.putLong(count());
    long partition = 0, offset = 0, timeMs = 0;
    for (int i = 0; i < size; i += WIDTH) {
      wire.putLong(held[i] - partition).putLong(held[i + 1] - offset).putLong(held[i + 2] - timeMs).putLong(held[i + 3]);
      partition = held[i];
      offset = held[i + 1];
      timeMs = held[i + 2];
    }
  }

  static Places read(Wire wire) {
    int count = (int) wire.getLong();
    Places places = new Places(count);
    long partition = 0, offset = 0, timeMs = 0;
    for (; count > 0; count--) {
      partition += wire.getLong();
      offset += wire.getLong();
      timeMs += wire.getLong();
      places.add((int) partition, offset, timeMs, wire.getLong());
    }
    return places;
  }
}
