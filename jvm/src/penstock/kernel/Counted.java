package penstock.kernel;

import java.util.Arrays;
import java.util.List;

/**
 * Spans that changed, where no sink asks for live rows: instead of a row for each only how many there were, and how
 * many of their events are how old. Rows that nobody reads cost as much as those that somebody does.
 */
final class Counted {
  /** So many are told at most, for whatever came in one call. */
  private static final int ROWS = 16;
  private static final int FINEST = 3;

  private long[] createdMs = new long[64];
  private long[] events = new long[64];
  private int size = 0;
  private long newSpans = 0;

  /** Of a span that readers would have been told of. */
  void add(Span span) {
    if (span.version == 1) newSpans++;
    if (span.newEvents == 0) return;
    if (size == createdMs.length) {
      createdMs = Arrays.copyOf(createdMs, size * 2);
      events = Arrays.copyOf(events, size * 2);
    }
    createdMs[size] = span.oldestCreatedMs;
    events[size++] = span.newEvents;
  }

  /** Tells of all that were added, each counted as old as the oldest it is told with: never too young. */
  void tell(Wire wire, List<byte[]> out) {
    if (size == 0 && newSpans == 0) return;
    long oldestMs = size == 0 ? 0 : createdMs[0];
    long newestMs = oldestMs;
    for (int i = 1; i < size; i++) {
      oldestMs = Math.min(oldestMs, createdMs[i]);
      newestMs = Math.max(newestMs, createdMs[i]);
    }
    int shift = FINEST;
    while (newestMs - oldestMs >> shift >= ROWS) shift++;
    long[] sums = new long[ROWS];
    for (int i = 0; i < size; i++) sums[(int) (createdMs[i] - oldestMs >> shift)] += events[i];
    for (int i = 0; i < ROWS; i++) {
      if (sums[i] == 0 && (i > 0 || newSpans == 0)) continue;
      Told.writeCounted(wire, sums[i], oldestMs + ((long) i << shift), newSpans);
      out.add(wire.take());
      newSpans = 0;
    }
    size = 0;
  }
}
