package penstock.kernel;

import java.util.Iterator;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.StructType;

/**
 * Puts the parts of a bucket into packets before the shuffle. Spark then moves, sorts and groups a few large rows
 * instead of one for every event, which cost it more than all that is done with the event.
 *
 * <ol>
 *   <li>Every part that comes is in one packet of its bucket, and those of a key are in the order in which they came.
 *   <li>A packet says the newest time of all that came before it left, so the greatest of a task is that of all its
 *       events and ticks: the watermark asks for no more.
 *   <li>A task holds no more than about {@value #HELD_BYTES} bytes, and the part that is under way.
 * </ol>
 */
final class Packing implements MapPartitionsFunction<Row, Row> {
  static final StructType PACKET = StructType.fromDDL("bucket int, parts binary, newest_ms bigint");
  static final int PARTS = 1;
  private static final int HELD_BYTES = 4 << 20;
  private static final int LEAST_BYTES = 1 << 10;

  private final Buckets buckets;
  /** Or null for none. */
  private final Combine combine;

  Packing(Buckets buckets, Combine combine) {
    this.buckets = buckets;
    this.combine = combine;
  }

  @Override public Iterator<Row> call(Iterator<Row> parts) {
    return new Packed(parts);
  }

  private final class Packed implements Iterator<Row> {
    private final Iterator<byte[]> parts;
    private final Wire[] held = new Wire[buckets.count()];
    private final int fullBytes = Math.max(LEAST_BYTES, HELD_BYTES / buckets.count());
    private long newestMs = 0;
    private long toldMs = -1;
    /** When all parts are in, the buckets before this one have left. */
    private int left = 0;
    private Row packet = null;

    Packed(Iterator<Row> rows) {
      Iterator<byte[]> came = new Iterator<byte[]>() {
        @Override public boolean hasNext() { return rows.hasNext(); }

        @Override public byte[] next() {
          byte[] part = (byte[]) rows.next().get(0);
          newestMs = Math.max(newestMs, Part.timeMs(part));
          return part;
        }
      };
      parts = combine == null ? came : combine.combined(came);
    }

    @Override public boolean hasNext() {
      while (packet == null && parts.hasNext()) takeIn(parts.next());
      while (packet == null && left < held.length) leave(left++);
      // Ticks, and nothing else.
      if (packet == null && newestMs > toldMs) packet = packet(0, new byte[0]);
      return packet != null;
    }

    @Override public Row next() {
      hasNext();
      Row leaving = packet;
      packet = null;
      return leaving;
    }

    private void takeIn(byte[] part) {
      if (Part.kind(part) == Part.TICK) return;
      int place = buckets.placeOf(Part.key(part));
      if (held[place] == null) held[place] = new Wire(LEAST_BYTES);
      if (held[place].putBytes(part).size() >= fullBytes) leave(place);
    }

    private void leave(int place) {
      if (held[place] != null && held[place].size() > 0) packet = packet(place, held[place].take());
    }

    private Row packet(int place, byte[] parts) {
      toldMs = newestMs;
      return RowFactory.create(buckets.number(place), parts, newestMs);
    }
  }
}
