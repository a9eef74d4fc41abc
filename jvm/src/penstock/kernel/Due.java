package penstock.kernel;

import java.util.Map;
import java.util.TreeMap;
import java.util.function.ObjLongConsumer;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.ValueState;

/**
 * When the keys of a bucket are due: in state, with one timer of Spark's for all of them, at the earliest.
 *
 * <p>A key is a few bytes in a list with those that are due at about the same time; one that is due at another
 * time now stays in the list, and whoever takes it out sees that. A timer of Spark's for each key would cost
 * two reads and four writes in its life.
 */
final class Due {
  /** So many lists cover the time for which keys are kept: few to look through, each soon used up. */
  private static final long LISTS = 256;
  private static final long SHORTEST_MS = 1_000;

  private final StatefulProcessorHandle handle;
  private final long widthMs;
  private final ValueState<byte[]> contents;
  private final MapState<Long, byte[]> kept;

  // Of the bucket at hand.
  private final TreeMap<Long, DueList> lists = new TreeMap<>();
  private final Wire wire = new Wire(512);
  private long timerMs;
  private boolean changed;

  /** Keys that are due from a moment on, for some time. */
  private static final class DueList {
    long earliestMs = Long.MAX_VALUE;
    boolean isKept = false;
    /** What is not in state yet. */
    final Wire more = new Wire(64);
  }

  /** @param horizonMs how long a key is kept, about */
  Due(StatefulProcessorHandle handle, long horizonMs) {
    this.handle = handle;
    this.widthMs = Math.max(SHORTEST_MS, horizonMs / LISTS);
    this.contents = handle.getValueState("due", Encoders.BINARY(), TTLConfig.NONE());
    this.kept = handle.getMapState("due-lists", Encoders.LONG(), Encoders.BINARY(), TTLConfig.NONE());
  }

  /**
   * Begins with the bucket that Spark is at.
   *
   * @param firedMs the timer for which it is called, which is gone; 0 for none
   */
  void begin(long firedMs) {
    lists.clear();
    timerMs = 0;
    changed = firedMs != 0;
    byte[] bytes = contents.get();
    if (bytes == null) return;
    Wire wire = new Wire(bytes);
    timerMs = wire.getLong();
    if (timerMs == firedMs) timerMs = 0;
    while (wire.hasMore()) {
      DueList list = new DueList();
      long fromMs = wire.getLong();
      list.earliestMs = fromMs + wire.getLong();
      list.isKept = true;
      lists.put(fromMs, list);
    }
  }

  void add(byte[] key, long dueMs) {
    long fromMs = Math.floorDiv(dueMs, widthMs) * widthMs;
    DueList list = lists.computeIfAbsent(fromMs, from -> new DueList());
    list.earliestMs = Math.min(list.earliestMs, dueMs);
    list.more.putLong(dueMs - fromMs).putBytes(key);
    changed = true;
  }

  /** Takes out all keys that are due, each with the time it was added with. More may be added meanwhile, due later. */
  void take(long clockMs, ObjLongConsumer<byte[]> taker) {
    // All at once: what is added meanwhile may belong to a list that is reached, and must outlive it.
    TreeMap<Long, Wire> reached = new TreeMap<>();
    lists.entrySet().removeIf(entry -> {
      if (entry.getValue().earliestMs > clockMs) return false;
      reached.put(entry.getKey(), new Wire(kept.getValue(entry.getKey())));
      kept.removeKey(entry.getKey());
      return true;
    });
    reached.forEach((fromMs, held) -> {
      while (held.hasMore()) {
        long dueMs = fromMs + held.getLong();
        byte[] key = held.getBytes();
        if (dueMs <= clockMs) taker.accept(key, dueMs);
        else add(key, dueMs);
      }
    });
  }

  /** Writes what changed, and sets the timer. */
  void end() {
    if (!changed) return;
    long nextMs = Long.MAX_VALUE;
    for (Map.Entry<Long, DueList> entry : lists.entrySet()) {
      DueList list = entry.getValue();
      nextMs = Math.min(nextMs, list.earliestMs);
      if (list.more.size() == 0) continue;
      if (list.isKept) wire.putRest(new Wire(kept.getValue(entry.getKey())));
      kept.updateValue(entry.getKey(), wire.putRest(new Wire(list.more.take())).take());
    }
    if (lists.isEmpty()) {
      if (timerMs != 0) handle.deleteTimer(timerMs);
      contents.clear();
      return;
    }
    if (nextMs != timerMs) {
      if (timerMs != 0) handle.deleteTimer(timerMs);
      handle.registerTimer(nextMs);
    }
    wire.putLong(nextMs);
    lists.forEach((fromMs, list) -> wire.putLong(fromMs).putLong(list.earliestMs - fromMs));
    contents.update(wire.take());
  }
}
