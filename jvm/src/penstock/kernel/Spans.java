package penstock.kernel;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Sessions or windows per key, with a row each time one changes.
 *
 * <ol>
 *   <li>Events of one batch that belong together by the {@link Shape} are taken together, in whatever order
 *       they came; then they go into the spans that they reach.
 *   <li>Every span touched in a batch gives one row: {@code live}, or {@code final} once the clock (the
 *       watermark) has passed its end, or {@code corrected} when a final row was out already.
 *   <li>A span is kept until the clock is {@code lateness} past that. Events that reach no kept span and are
 *       older leave as {@code late}.
 *   <li>An event whose id is remembered leaves as {@code duplicate}. Ids are remembered until the clock is
 *       {@code within} past the event; those of late events are not.
 *   <li>A span's identity is its key and start. When the start moves or sessions merge, the identities that no
 *       longer hold leave as {@code retracted}. Where the start is so old that a span of that identity may
 *       have been told of and forgotten, the number of the batch is part of it.
 *   <li>A record that was rejected upstream passes through and touches no state.
 *   <li>Every input row is told of exactly once: {@code new_events} of all rows, plus the rows of late,
 *       duplicate and rejected, are the records of the batch. Where nobody asks for live rows, {@code counted}
 *       ones stand in for them; versions and state are the same.
 * </ol>
 *
 * <p>Spark calls it for a bucket of keys ({@link Buckets}), with the packets of their parts ({@link Packing}). Cost is per touched key: one read and one write of state, and
 * one place among those that are {@link Due}, which it keeps until then, however often the span is extended.
 * Twins: {@code session_window} and {@code window}, which give final rows only.
 */
final class Spans extends StatefulProcessor<Integer, Row, byte[]> {
  private static final Comparator<Span> BY_TIME =
      Comparator.<Span>comparingLong(part -> part.startMs).thenComparing(part -> part.places.first());

  private final Shape shape;
  private final Measure[][] layouts;
  private final Measure[] measures;
  private final long latenessMs;
  private final long withinMs;
  private final boolean live;
  private transient MapState<byte[], byte[]> state;
  private transient Due due;
  private transient Kept.Codec codec;
  private transient Wire wire;
  private transient Counted counted;

  /**
   * @param layouts the measures, at each time that they were changed; the last are the present ones
   * @param withinMs how long ids are remembered; 0 for not at all
   * @param live whether live rows are told; else they are only {@link Counted}
   */
  Spans(Shape shape, Measure[][] layouts, long latenessMs, long withinMs, boolean live) {
    this.shape = shape;
    this.layouts = layouts;
    this.measures = layouts[layouts.length - 1];
    this.latenessMs = latenessMs;
    this.withinMs = withinMs;
    this.live = live;
  }

  @Override public void init(OutputMode mode, TimeMode time) {
    state = getHandle().getMapState("spans", Encoders.BINARY(), Encoders.BINARY(), TTLConfig.NONE());
    due = new Due(getHandle(), shape.lastDueMs(0) + Math.max(latenessMs, withinMs));
    codec = new Kept.Codec(layouts);
    wire = new Wire(512);
    counted = new Counted();
  }

  @Override public Iterator<byte[]> handleInputRows(Integer bucket, Iterator<Row> packets, TimerValues clock) {
    Map<Key, List<Span>> came = new HashMap<>();
    List<byte[]> out = new ArrayList<>();
    while (packets.hasNext()) {
      Wire packet = new Wire(packets.next().<byte[]>getAs(Packing.PARTS));
      while (packet.hasMore()) unpack(packet, came, out);
    }
    if (!came.isEmpty()) {
      long clockMs = clock.getCurrentWatermarkInMs();
      due.begin(0);
      came.forEach((key, parts) -> take(key.bytes(), parts, clockMs, out));
      due.end();
      counted.tell(wire, out);
    }
    return CollectionConverters.asScala(out.iterator());
  }

  private void unpack(Wire packet, Map<Key, List<Span>> came, List<byte[]> out) {
    int end = packet.getEnd();
    byte kind = packet.getByte();
    long timeMs = kind == Part.EVENT ? packet.getLong() : 0;
    Key key = packet.getKey();
    if (kind == Part.ASIDE) {
      out.add(wire.putByte(Told.Kind.REJECTED.ordinal()).putBytes(key.bytes()).putUpTo(packet, end).take());
      return;
    }
    List<Span> parts = came.computeIfAbsent(key, its -> new ArrayList<>(1));
    if (kind == Part.EVENT) takeIn(packet, timeMs, parts);
    else parts.add(Part.readSpan(packet, measures));
  }

  /** Into the newest part that it joins; what it bridges is joined later. With ids each is judged by itself. */
  private void takeIn(Wire event, long timeMs, List<Span> parts) {
    Span home = null;
    for (int i = withinMs > 0 ? -1 : parts.size() - 1; i >= 0 && home == null; i--)
      if (shape.joins(parts.get(i), timeMs, timeMs)) home = parts.get(i);
    Span part = Part.readEvent(event, timeMs, home, measures);
    if (home == null) parts.add(part);
  }

  @Override public Iterator<byte[]> handleExpiredTimer(Integer bucket, TimerValues clock, ExpiredTimerInfo timer) {
    List<byte[]> out = new ArrayList<>();
    long clockMs = clock.getCurrentWatermarkInMs();
    due.begin(timer.getExpiryTimeInMs());
    due.take(clockMs, (key, dueMs) -> {
      byte[] bytes = state.getValue(key);
      if (bytes == null) return;
      Kept kept = decode(bytes, clockMs);
      // Where the key has been given another time, this one was left behind.
      if (kept.dueMs != dueMs) return;
      kept.dueMs = 0;
      settle(key, kept, clockMs, out);
    });
    due.end();
    return CollectionConverters.asScala(out.iterator());
  }

  private Kept decode(byte[] bytes, long clockMs) {
    Kept kept = codec.decode(bytes);
    kept.seen.values().removeIf(timeMs -> timeMs + withinMs <= clockMs);
    return kept;
  }

  private void take(byte[] key, List<Span> parts, long clockMs, List<byte[]> out) {
    byte[] bytes = state.getValue(key);
    Kept kept = bytes == null ? new Kept() : decode(bytes, clockMs);
    if (parts.size() > 1) parts.sort(BY_TIME);
    if (withinMs > 0) setAsideDuplicates(key, parts, kept, out);
    for (Span part : joined(parts)) {
      Places places = part.places;
      if (!shape.place(part, kept.spans, measures, clockMs - latenessMs)) {
        places.each((partition, offset, ts, id) -> out.add(late(key, partition, offset, ts, clockMs)));
      } else if (withinMs > 0) {
        places.each((partition, offset, ts, id) -> {
          if (id != 0 && ts + withinMs > clockMs) kept.seen.put(id, ts);
        });
      }
    }
    settle(key, kept, clockMs, out);
  }

  /** With ids to remember, parts are single events: {@link Combine} is not used then. */
  private void setAsideDuplicates(byte[] key, List<Span> parts, Kept kept, List<byte[]> out) {
    Set<Long> came = new HashSet<>();
    parts.removeIf(part -> {
      long id = part.places.firstId();
      if (id == 0 || !kept.seen.containsKey(id) && came.add(id)) return false;
      Position at = part.places.first();
      String reason = "duplicate: an event of this id came within " + withinMs + " ms";
      Told.writeAside(wire, Told.Kind.DUPLICATE, key, at.partition, at.offset, at.timeMs, reason);
      out.add(wire.take());
      return true;
    });
  }

  /** Parts that belong together as one, whatever order they came in. They are sorted by their start. */
  private List<Span> joined(List<Span> parts) {
    List<Span> whole = new ArrayList<>(1);
    for (Span part : parts) {
      Span last = whole.isEmpty() ? null : whole.get(whole.size() - 1);
      if (last != null && shape.joins(last, part.startMs, part.endMs)) {
        last.absorb(measures, part);
        last.places.add(part.places);
      } else {
        whole.add(part);
      }
    }
    return whole;
  }

  private byte[] late(byte[] key, int partition, long offset, long ts, long clockMs) {
    long allowedMs = shape.lastDueMs(ts) - ts + latenessMs;
    String reason = "late: " + (clockMs - ts) + " ms behind the clock, " + allowedMs + " allowed";
    Told.writeAside(wire, Told.Kind.LATE, key, partition, offset, ts, reason);
    return wire.take();
  }

  /** Tells of every span that changed or is due, forgets those past their lateness, says when the next is due. */
  private void settle(byte[] key, Kept kept, long clockMs, List<byte[]> out) {
    long nextMs = Long.MAX_VALUE;
    for (int i = kept.spans.size() - 1; i >= 0; i--) {
      Span span = kept.spans.get(i);
      long dueMs = shape.dueMs(span);
      boolean isDue = dueMs <= clockMs;
      boolean finalOwed = !span.closed || span.reopened;
      if (span.changed || isDue && finalOwed) tell(key, span, isDue, clockMs, out);
      if (isDue && dueMs + latenessMs <= clockMs) kept.spans.remove(i);
      else nextMs = Math.min(nextMs, dueMs + (isDue ? latenessMs : 0));
    }
    if (kept.isEmpty()) {
      state.removeKey(key);
      return;
    }
    if (kept.spans.isEmpty()) for (long timeMs : kept.seen.values()) nextMs = Math.min(nextMs, timeMs + withinMs);
    if (kept.dueMs == 0 || nextMs < kept.dueMs) {
      due.add(key, nextMs);
      kept.dueMs = nextMs;
    }
    state.updateValue(key, codec.encode(kept));
  }

  private long born(Span span, long clockMs) {
    for (Span.Told told : span.told) if (told.startMs == span.startMs) return told.born;
    boolean old = shape.lastDueMs(span.startMs) + latenessMs <= clockMs;
    return old ? getHandle().getQueryInfo().getBatchId() : 0;
  }

  private void tell(byte[] key, Span span, boolean isDue, long clockMs, List<byte[]> out) {
    if (span.changed) span.born = born(span, clockMs);
    // Of several identities that became one, one lives on: under its own name, or moved with the new start.
    boolean livesOn = false;
    for (Span.Told told : span.told) livesOn |= told.startMs == span.startMs;
    span.told.sort(Comparator.comparingLong(told -> told.startMs));
    for (Span.Told told : span.told) {
      if (told.startMs == span.startMs) continue;
      Told.writeRetracted(wire, key, told, livesOn, span);
      out.add(wire.take());
      livesOn = true;
    }
    span.version++;
    Told.Kind kind = !isDue ? Told.Kind.LIVE : span.closed ? Told.Kind.CORRECTED : Told.Kind.FINAL;
    if (kind == Told.Kind.LIVE && !live) {
      counted.add(span);
    } else {
      Told.writeSpan(wire, kind, key, span, isDue, measures);
      out.add(wire.take());
    }
    span.reopened = span.closed && !isDue;
    span.closed |= isDue;
  }
}
