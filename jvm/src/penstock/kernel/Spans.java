package penstock.kernel;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import scala.Tuple2;
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
 *       duplicate and rejected, are the records of the batch.
 * </ol>
 *
 * <p>Cost is per touched key: one read and one write of state, and a timer that stays where it is until it
 * fires, however often the span is extended. Twins: {@code session_window} and {@code window}, which give
 * final rows only.
 */
final class Spans extends StatefulProcessor<byte[], Tuple2<byte[], byte[]>, byte[]> {
  private static final Comparator<Span> BY_TIME =
      Comparator.<Span>comparingLong(part -> part.startMs).thenComparing(part -> part.places.first());

  private final Shape shape;
  private final Measure[][] layouts;
  private final Measure[] measures;
  private final long latenessMs;
  private final long withinMs;
  private transient ValueState<byte[]> state;
  private transient Kept.Codec codec;
  private transient Wire wire;

  /**
   * @param layouts the measures, at each time that they were changed; the last are the present ones
   * @param withinMs how long ids are remembered; 0 for not at all
   */
  Spans(Shape shape, Measure[][] layouts, long latenessMs, long withinMs) {
    this.shape = shape;
    this.layouts = layouts;
    this.measures = layouts[layouts.length - 1];
    this.latenessMs = latenessMs;
    this.withinMs = withinMs;
  }

  @Override public void init(OutputMode mode, TimeMode time) {
    state = getHandle().getValueState("spans", Encoders.BINARY(), TTLConfig.NONE());
    codec = new Kept.Codec(layouts);
    wire = new Wire(512);
  }

  @Override public Iterator<byte[]> handleInputRows(byte[] key, Iterator<Tuple2<byte[], byte[]>> rows, TimerValues clock) {
    List<Span> parts = new ArrayList<>();
    List<byte[]> out = new ArrayList<>(2);
    while (rows.hasNext()) {
      byte[] bytes = rows.next()._2();
      Wire part = new Wire(bytes);
      byte kind = part.getByte();
      if (kind == Part.EVENT) takeIn(part, parts);
      else if (kind == Part.SPAN) parts.add(Part.readSpan(part, measures));
      else if (kind == Part.ASIDE) out.add(wire.putByte(Told.Kind.REJECTED.ordinal()).putBytes(key).putRest(part).take());
    }
    if (!parts.isEmpty()) {
      long clockMs = clock.getCurrentWatermarkInMs();
      byte[] bytes = state.get();
      Kept kept = bytes == null ? new Kept() : decode(bytes, clockMs);
      take(key, parts, kept, clockMs, out);
      settle(key, kept, clockMs, out);
    }
    return CollectionConverters.asScala(out.iterator());
  }

  /** Into the newest part that it joins; what it bridges is joined later. With ids each is judged by itself. */
  private void takeIn(Wire event, List<Span> parts) {
    long timeMs = event.getLong();
    Span home = null;
    for (int i = withinMs > 0 ? -1 : parts.size() - 1; i >= 0 && home == null; i--)
      if (shape.joins(parts.get(i), timeMs, timeMs)) home = parts.get(i);
    Span part = Part.readEvent(event, timeMs, home, measures);
    if (home == null) parts.add(part);
  }

  @Override public Iterator<byte[]> handleExpiredTimer(byte[] key, TimerValues clock, ExpiredTimerInfo timer) {
    List<byte[]> out = new ArrayList<>(1);
    byte[] bytes = state.get();
    if (bytes != null) {
      long clockMs = clock.getCurrentWatermarkInMs();
      Kept kept = decode(bytes, clockMs);
      // A timer that fired is gone; an older one, left behind when an earlier was set, changes nothing.
      if (kept.timerMs == timer.getExpiryTimeInMs()) kept.timerMs = 0;
      settle(key, kept, clockMs, out);
    }
    return CollectionConverters.asScala(out.iterator());
  }

  private Kept decode(byte[] bytes, long clockMs) {
    Kept kept = codec.decode(bytes);
    kept.seen.values().removeIf(timeMs -> timeMs + withinMs <= clockMs);
    return kept;
  }

  private void take(byte[] key, List<Span> parts, Kept kept, long clockMs, List<byte[]> out) {
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

  /** Tells of every span that changed or is due, forgets those past their lateness, sets the next timer. */
  private void settle(byte[] key, Kept kept, long clockMs, List<byte[]> out) {
    long nextMs = Long.MAX_VALUE;
    for (int i = kept.spans.size() - 1; i >= 0; i--) {
      Span span = kept.spans.get(i);
      long dueMs = shape.dueMs(span);
      boolean due = dueMs <= clockMs;
      boolean finalOwed = !span.closed || span.reopened;
      if (span.changed || due && finalOwed) tell(key, span, due, clockMs, out);
      if (due && dueMs + latenessMs <= clockMs) kept.spans.remove(i);
      else nextMs = Math.min(nextMs, dueMs + (due ? latenessMs : 0));
    }
    if (kept.isEmpty()) {
      if (kept.timerMs != 0) getHandle().deleteTimer(kept.timerMs);
      state.clear();
      return;
    }
    if (kept.spans.isEmpty()) for (long timeMs : kept.seen.values()) nextMs = Math.min(nextMs, timeMs + withinMs);
    if (kept.timerMs == 0 || nextMs < kept.timerMs) {
      if (kept.timerMs != 0) getHandle().deleteTimer(kept.timerMs);
      getHandle().registerTimer(nextMs);
      kept.timerMs = nextMs;
    }
    state.update(codec.encode(kept));
  }

  private long born(Span span, long clockMs) {
    for (Span.Told told : span.told) if (told.startMs == span.startMs) return told.born;
    boolean old = shape.lastDueMs(span.startMs) + latenessMs <= clockMs;
    return old ? getHandle().getQueryInfo().getBatchId() : 0;
  }

  private void tell(byte[] key, Span span, boolean due, long clockMs, List<byte[]> out) {
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
    Told.Kind kind = !due ? Told.Kind.LIVE : span.closed ? Told.Kind.CORRECTED : Told.Kind.FINAL;
    Told.writeSpan(wire, kind, key, span, due, measures);
    out.add(wire.take());
    span.reopened = span.closed && !due;
    span.closed |= due;
  }
}
