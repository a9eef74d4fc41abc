package penstock.kernel;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;

/** One session of one key: its span, its measures, and what readers have been told about it. */
final class Session {
  long startMs;
  long endMs;
  /** Of the newest row that readers have; each further row has a higher one. */
  long version;
  /** Readers have had a final row: the next one is a correction. */
  boolean closed;
  /** Events came after that final row and moved the end, so that another final row is owed. */
  boolean reopened;
  final Object[] values;
  final Position[] positions;

  // Known only within one batch, never stored.
  long newEvents = 0;
  long oldestCreatedMs = Long.MAX_VALUE;
  /** Identities under which readers know (parts of) this session. */
  final List<Told> told = new ArrayList<>(1);

  /** A session's identity as readers know it. */
  static final class Told {
    final long startMs;
    final long endMs;
    final long version;
    final boolean closed;

    Told(long startMs, long endMs, long version, boolean closed) {
      this.startMs = startMs;
      this.endMs = endMs;
      this.version = version;
      this.closed = closed;
    }
  }

  Session(long startMs, long endMs, int measures) {
    this.startMs = startMs;
    this.endMs = endMs;
    this.values = new Object[measures];
    this.positions = new Position[measures];
  }

  boolean touches(long fromMs, long toMs, long gapMs) {
    return fromMs <= endMs + gapMs && toMs >= startMs - gapMs;
  }

  void fold(Measure[] measures, Row event, Position position, long createdMs) {
    startMs = Math.min(startMs, position.timeMs);
    endMs = Math.max(endMs, position.timeMs);
    newEvents++;
    oldestCreatedMs = Math.min(oldestCreatedMs, createdMs);
    for (int i = 0; i < measures.length; i++) {
      Measure measure = measures[i];
      Object value = measure.column < 0 ? (Object) 1L : event.get(measure.column);
      if (value == null) continue;
      if (measure.isOrdered()) {
        place(i, measure, value, position);
      } else {
        if (measure.operation == Measure.Operation.COUNT) value = 1L;
        values[i] = measure.merge(values[i], value);
      }
    }
  }

  void absorb(Measure[] measures, Session other) {
    startMs = Math.min(startMs, other.startMs);
    endMs = Math.max(endMs, other.endMs);
    version = Math.max(version, other.version);
    closed |= other.closed;
    reopened |= other.reopened;
    newEvents += other.newEvents;
    oldestCreatedMs = Math.min(oldestCreatedMs, other.oldestCreatedMs);
    told.addAll(other.told);
    for (int i = 0; i < measures.length; i++) {
      if (other.values[i] == null) continue;
      if (measures[i].isOrdered()) place(i, measures[i], other.values[i], other.positions[i]);
      else values[i] = measures[i].merge(values[i], other.values[i]);
    }
  }

  private void place(int i, Measure measure, Object value, Position position) {
    if (positions[i] != null && !measure.replaces(position.compareTo(positions[i]))) return;
    values[i] = value;
    positions[i] = position;
  }
}
