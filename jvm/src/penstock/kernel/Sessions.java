package penstock.kernel;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Sessions per key, with rows each time one changes.
 *
 * <ol>
 *   <li>Two events belong together when they are at most {@code gap} apart; a bridging event merges sessions.
 *   <li>Every session touched in a batch gives one row: {@code live}, or {@code final} once the clock (the
 *       watermark) has passed end + gap, or {@code corrected} when a final row was out already.
 *   <li>A session is kept until the clock passes end + gap + lateness. An event that reaches no kept session
 *       and is older than that leaves as {@code late}.
 *   <li>A session's identity is its key and start. When the start moves or sessions merge, the identities
 *       that no longer hold leave as {@code retracted}.
 *   <li>A record that was rejected upstream passes through as {@code rejected} and touches no state.
 *   <li>Every input row is told of exactly once: {@code new_events} of all rows, plus the late, plus the
 *       rejected rows, are the rows of the batch.
 * </ol>
 *
 * <p>Cost is per touched key: one read and one write of state, and a timer that stays where it is until it
 * fires, however often the session is extended. Twin: {@code session_window}, which gives final rows only.
 */
public final class Sessions extends StatefulProcessor<String, Row, Row> {
  /** What every input row starts with; the values of the measures follow. */
  public static final String INPUT =
      "key string, ts long, created_ms long, partition int, offset long, reason string, raw binary";
  /** What every output row starts with; the measures follow. */
  public static final String OUTPUT =
      "kind string, session_id string, key string, start_ms long, end_ms long, version long, is_final boolean, "
          + "new_events long, oldest_created_ms long, partition int, offset long, ts long, reason string, raw binary";
  private static final int KEY = 0, TS = 1, CREATED = 2, PARTITION = 3, OFFSET = 4, REASON = 5, RAW = 6;
  private static final int INPUT_COLUMNS = 7, OUTPUT_COLUMNS = 14;

  private final long gapMs;
  private final long latenessMs;
  private final Measure[] measures;
  private transient ValueState<byte[]> state;
  private transient SessionCodec codec;

  private Sessions(long gapMs, long latenessMs, Measure[] measures) {
    this.gapMs = gapMs;
    this.latenessMs = latenessMs;
    this.measures = measures;
  }

  /**
   * Puts sessions on top of rows that start with {@link #INPUT} and hold, for every measure but
   * {@code count(*)}, a column of the measure's name.
   *
   * @param names the measures' names, in order
   * @param operations count, sum, min, max, first or last for each
   */
  public static Dataset<Row> apply(Dataset<Row> rows, long gapMs, long latenessMs, List<String> names, List<String> operations) {
    StructType input = rows.schema();
    StructType output = StructType.fromDDL(OUTPUT);
    Measure[] measures = new Measure[names.size()];
    List<String> columns = List.of(input.fieldNames());
    for (int i = 0; i < names.size(); i++) {
      int column = columns.subList(INPUT_COLUMNS, columns.size()).indexOf(names.get(i));
      Measure.Operation operation = Measure.Operation.valueOf(operations.get(i).toUpperCase());
      DataType type = operation == Measure.Operation.COUNT ? DataType.fromDDL("long") : input.apply(column + INPUT_COLUMNS).dataType();
      measures[i] = new Measure(names.get(i), operation, type, column < 0 ? -1 : column + INPUT_COLUMNS);
      output = output.add(names.get(i), type);
    }
    return rows.groupBy("key")
        .as(Encoders.STRING(), Encoders.row(input))
        .transformWithState(new Sessions(gapMs, latenessMs, measures), TimeMode.EventTime(), OutputMode.Append(), Encoders.row(output));
  }

  @Override public void init(OutputMode mode, TimeMode time) {
    state = getHandle().getValueState("sessions", Encoders.BINARY(), TTLConfig.NONE());
    codec = new SessionCodec(measures);
  }

  @Override public Iterator<Row> handleInputRows(String key, Iterator<Row> rows, TimerValues clock) {
    List<Row> events = new ArrayList<>();
    List<Row> out = new ArrayList<>(2);
    while (rows.hasNext()) {
      Row row = rows.next();
      if (row.isNullAt(REASON)) events.add(row);
      else out.add(asideRow("rejected", row, row.getString(REASON)));
    }
    if (!events.isEmpty()) {
      if (events.size() > 1) events.sort(Comparator.comparing(Sessions::positionOf));
      byte[] bytes = state.get();
      SessionCodec.Kept kept = bytes == null ? new SessionCodec.Kept() : codec.decode(bytes);
      long clockMs = clock.getCurrentWatermarkInMs();
      for (Row event : events) fold(event, kept.sessions, clockMs, out);
      settle(key, kept, clockMs, out);
    }
    return CollectionConverters.asScala(out.iterator());
  }

  @Override public Iterator<Row> handleExpiredTimer(String key, TimerValues clock, ExpiredTimerInfo timer) {
    List<Row> out = new ArrayList<>(1);
    byte[] bytes = state.get();
    if (bytes != null) {
      SessionCodec.Kept kept = codec.decode(bytes);
      // A timer that fired is gone; an older one, left behind when an earlier was set, changes nothing.
      if (kept.timerMs == timer.getExpiryTimeInMs()) kept.timerMs = 0;
      settle(key, kept, clock.getCurrentWatermarkInMs(), out);
    }
    return CollectionConverters.asScala(out.iterator());
  }

  private void fold(Row event, List<Session> sessions, long clockMs, List<Row> out) {
    Position position = positionOf(event);
    long ts = position.timeMs;
    Session home = null;
    for (Session session : sessions) {
      if (session.touches(ts, ts, gapMs)) {
        home = session;
        break;
      }
    }
    if (home == null) {
      if (ts + gapMs + latenessMs <= clockMs) {
        String reason = "late: " + (clockMs - ts) + " ms behind the clock, " + (gapMs + latenessMs) + " allowed";
        out.add(asideRow("late", event, reason));
        return;
      }
      home = new Session(ts, ts, measures.length);
      sessions.add(home);
    }
    home.fold(measures, event, position, event.isNullAt(CREATED) ? ts : event.getLong(CREATED));
    for (int i = sessions.size() - 1; i >= 0; i--) {
      Session other = sessions.get(i);
      if (other != home && other.touches(home.startMs, home.endMs, gapMs)) {
        home.absorb(measures, other);
        sessions.remove(i);
      }
    }
  }

  /** Tells of every session that changed or is due, forgets those past their lateness, sets the next timer. */
  private void settle(String key, SessionCodec.Kept kept, long clockMs, List<Row> out) {
    long nextMs = Long.MAX_VALUE;
    for (int i = kept.sessions.size() - 1; i >= 0; i--) {
      Session session = kept.sessions.get(i);
      boolean due = session.endMs + gapMs <= clockMs;
      boolean finalOwed = !session.closed || session.reopened;
      if (session.newEvents > 0 || due && finalOwed) tell(key, session, due, out);
      if (due && session.endMs + gapMs + latenessMs <= clockMs) kept.sessions.remove(i);
      else nextMs = Math.min(nextMs, session.endMs + gapMs + (due ? latenessMs : 0));
    }
    if (kept.sessions.isEmpty()) {
      if (kept.timerMs != 0) getHandle().deleteTimer(kept.timerMs);
      state.clear();
      return;
    }
    if (kept.timerMs == 0 || nextMs < kept.timerMs) {
      if (kept.timerMs != 0) getHandle().deleteTimer(kept.timerMs);
      getHandle().registerTimer(nextMs);
      kept.timerMs = nextMs;
    }
    state.update(codec.encode(kept));
  }

  private void tell(String key, Session session, boolean due, List<Row> out) {
    String identity = identity(key, session.startMs);
    // Of several identities that became one, one lives on: under its own name, or moved with the new start.
    boolean livesOn = false;
    for (Session.Told told : session.told) livesOn |= told.startMs == session.startMs;
    for (Session.Told told : session.told) {
      if (told.startMs == session.startMs) continue;
      Object[] row = new Object[OUTPUT_COLUMNS + measures.length];
      identify(row, "retracted", key, told.startMs, told.endMs, told.version + 1, told.closed);
      row[7] = 0L;
      row[12] = (livesOn ? "merged into " : "moved to ") + identity;
      livesOn = true;
      out.add(RowFactory.create(row));
    }
    session.version++;
    String kind = !due ? "live" : session.closed ? "corrected" : "final";
    Object[] row = new Object[OUTPUT_COLUMNS + measures.length];
    identify(row, kind, key, session.startMs, session.endMs, session.version, due);
    row[7] = session.newEvents;
    row[8] = session.newEvents == 0 ? null : session.oldestCreatedMs;
    System.arraycopy(session.values, 0, row, OUTPUT_COLUMNS, measures.length);
    out.add(RowFactory.create(row));
    session.reopened = session.closed && !due;
    session.closed |= due;
  }

  private static void identify(Object[] row, String kind, String key, long startMs, long endMs, long version, boolean isFinal) {
    row[0] = kind;
    row[1] = identity(key, startMs);
    row[2] = key;
    row[3] = startMs;
    row[4] = endMs;
    row[5] = version;
    row[6] = isFinal;
  }

  private static String identity(String key, long startMs) {
    return key + "@" + startMs;
  }

  private Row asideRow(String kind, Row event, String reason) {
    Object[] row = new Object[OUTPUT_COLUMNS + measures.length];
    row[0] = kind;
    row[2] = event.getString(KEY);
    row[6] = false;
    row[7] = 0L;
    row[8] = event.isNullAt(CREATED) ? null : event.getLong(CREATED);
    row[9] = event.getInt(PARTITION);
    row[10] = event.getLong(OFFSET);
    row[11] = event.isNullAt(TS) ? null : event.getLong(TS);
    row[12] = reason;
    row[13] = event.isNullAt(RAW) ? null : event.get(RAW);
    return RowFactory.create(row);
  }

  private static Position positionOf(Row event) {
    return new Position(event.getLong(TS), event.getInt(PARTITION), event.getLong(OFFSET));
  }
}
