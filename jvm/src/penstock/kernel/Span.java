package penstock.kernel;

import java.util.ArrayList;
import java.util.List;

/**
 * Events of one key that belong together: a session, a window, or a part of one that is on its way there.
 */
final class Span {
  /** Of its events, the first and the last; of a window its bounds. */
  long startMs;
  long endMs;
  /** One a measure; null where no event had a value. */
  final Object[] values;
  /** Where the value of an ordered measure came from. */
  final Position[] positions;

  // Kept from batch to batch.
  /** Of the newest row that readers have; each further row has a higher one. */
  long version;
  /** Part of its identity, see {@link Spans}: 0, or the batch in which an old event became its start. */
  long born;
  /** Readers have had a final row: the next one is a correction. */
  boolean closed;
  /** Events came after that final row and moved the end, so that another final row is owed. */
  boolean reopened;

  // Of one batch.
  /** Events came, so readers are owed a row. */
  boolean changed;
  /** Of all spans that an event belongs to, one counts it. */
  long newEvents = 0;
  long oldestCreatedMs = Long.MAX_VALUE;
  /** Of a part, where its events stand in the topic. */
  Places places;
  /** Identities under which readers know (parts of) this span. */
  final List<Told> told = new ArrayList<>(1);

  /** A span's identity as readers know it. */
  static final class Told {
    final long startMs;
    final long born;
    final long endMs;
    final long version;
    final boolean closed;

    Told(Span span) {
      startMs = span.startMs;
      born = span.born;
      endMs = span.endMs;
      version = span.version;
      closed = span.closed;
    }
  }

  Span(long startMs, long endMs, int measures) {
    this.startMs = startMs;
    this.endMs = endMs;
    this.values = new Object[measures];
    this.positions = new Position[measures];
  }

  /** Takes the other's measures in; bounds and events are the caller's to decide. */
  void absorbMeasures(Measure[] measures, Span other) {
    for (int i = 0; i < measures.length; i++) {
      Object value = other.values[i];
      if (value == null) continue;
      if (measures[i].isOrdered()) {
        if (positions[i] == null || measures[i].replaces(other.positions[i].compareTo(positions[i]))) {
          values[i] = value;
          positions[i] = other.positions[i];
        }
      } else {
        values[i] = values[i] == null ? measures[i].copy(value) : measures[i].merge(values[i], value);
      }
    }
  }

  void absorbEvents(Span other) {
    newEvents += other.newEvents;
    oldestCreatedMs = Math.min(oldestCreatedMs, other.oldestCreatedMs);
  }

  /** Becomes one with the other, from the first event of both to the last. */
  void absorb(Measure[] measures, Span other) {
    startMs = Math.min(startMs, other.startMs);
    endMs = Math.max(endMs, other.endMs);
    version = Math.max(version, other.version);
    closed |= other.closed;
    reopened |= other.reopened;
    changed |= other.changed;
    told.addAll(other.told);
    absorbEvents(other);
    absorbMeasures(measures, other);
  }

  /** Takes the values of one event in, as {@link Part} wrote them. */
  void absorbEvent(Measure[] measures, Wire wire, long timeMs, int partition, long offset) {
    startMs = Math.min(startMs, timeMs);
    endMs = Math.max(endMs, timeMs);
    Position here = null;
    for (int i = 0; i < measures.length; i++) {
      Measure measure = measures[i];
      if (wire.getByte() == 0) continue;
      if (!measure.isOrdered()) {
        values[i] = values[i] == null ? measure.read(wire) : measure.mergeRead(values[i], wire);
      } else if (positions[i] == null || measure.replaces(-positions[i].compareTo(timeMs, partition, offset))) {
        if (here == null) here = new Position(timeMs, partition, offset);
        values[i] = measure.read(wire);
        positions[i] = here;
      } else {
        measure.skip(wire);
      }
    }
  }

  void write(Wire wire, Measure[] measures) {
    wire.putLong(startMs).putLong(endMs - startMs);
    for (int i = 0; i < measures.length; i++) {
      wire.putByte(values[i] == null ? 0 : 1);
      if (values[i] == null) continue;
      measures[i].write(wire, values[i]);
      if (measures[i].isOrdered()) positions[i].write(wire, startMs);
    }
  }

  static Span read(Wire wire, Measure[] measures) {
    long startMs = wire.getLong();
    Span span = new Span(startMs, startMs + wire.getLong(), measures.length);
    for (int i = 0; i < measures.length; i++) {
      if (wire.getByte() == 0) continue;
      span.values[i] = measures[i].read(wire);
      if (measures[i].isOrdered()) span.positions[i] = Position.read(wire, startMs);
    }
    return span;
  }
}
