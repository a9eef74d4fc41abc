package penstock.kernel;

/** An event's place in the total order that first and last go by. */
final class Position implements Comparable<Position> {
  final long timeMs;
  final int partition;
  final long offset;

  Position(long timeMs, int partition, long offset) {
    this.timeMs = timeMs;
    this.partition = partition;
    this.offset = offset;
  }

  @Override public int compareTo(Position other) {
    return compareTo(other.timeMs, other.partition, other.offset);
  }

  int compareTo(long otherMs, int otherPartition, long otherOffset) {
    int order = Long.compare(timeMs, otherMs);
    if (order == 0) order = Integer.compare(partition, otherPartition);
    return order != 0 ? order : Long.compare(offset, otherOffset);
  }

  void write(Wire wire, long sinceMs) {
    wire.putLong(timeMs - sinceMs).putLong(partition).putLong(offset);
  }

  static Position read(Wire wire, long sinceMs) {
    return new Position(sinceMs + wire.getLong(), (int) wire.getLong(), wire.getLong());
  }
}
