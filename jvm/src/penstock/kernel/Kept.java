package penstock.kernel;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The state of one key: its spans, the ids of its events that are remembered, and when it is due. */
final class Kept {
  /** The time at which it stands in {@link Due}, or 0 for none. */
  long dueMs = 0;
  final List<Span> spans = new ArrayList<>(2);
  /** Hash of an event's id, and the event's time. */
  final Map<Long, Long> seen = new HashMap<>(0);

  boolean isEmpty() {
    return spans.isEmpty() && seen.isEmpty();
  }

  /**
   * Kept as bytes: rows of Spark's cost six times as much as folding the events. The first byte is the number
   * of the layout, the list of measures at the time of writing; what an older one wrote is read by name.
   */
  static final class Codec {
    private final Measure[][] layouts;
    private final Measure[] current;
    private final Wire wire = new Wire(256);
    /** For each layout, where its measures stand in the current one; negative where they were dropped. */
    private final int[][] places;

    /** @param layouts all that this state was ever written in; the last is the current one */
    Codec(Measure[][] layouts) {
      this.layouts = layouts;
      this.current = layouts[layouts.length - 1];
      this.places = new int[layouts.length][];
      for (int i = 0; i < layouts.length; i++) {
        places[i] = new int[layouts[i].length];
        for (int k = 0; k < places[i].length; k++) places[i][k] = placeOf(layouts[i][k].name);
      }
    }

    private int placeOf(String name) {
      for (int i = 0; i < current.length; i++) if (current[i].name.equals(name)) return i;
      return -1;
    }

    byte[] encode(Kept kept) {
      wire.putByte(layouts.length - 1).putLong(kept.dueMs).putLong(kept.spans.size());
      for (Span span : kept.spans) {
        wire.putLong(span.version).putLong(span.born).putByte((span.closed ? 1 : 0) | (span.reopened ? 2 : 0));
        span.write(wire, current);
      }
      kept.seen.forEach((id, timeMs) -> wire.putFixed(id).putLong(timeMs));
      return wire.take();
    }

    Kept decode(byte[] bytes) {
      Wire wire = new Wire(bytes);
      int layout = wire.getByte();
      Kept kept = new Kept();
      kept.dueMs = wire.getLong();
      for (long left = wire.getLong(); left > 0; left--) {
        long version = wire.getLong();
        long born = wire.getLong();
        byte flags = wire.getByte();
        Span span = current(Span.read(wire, layouts[layout]), layout);
        span.version = version;
        span.born = born;
        span.closed = (flags & 1) != 0;
        span.reopened = (flags & 2) != 0;
        span.told.add(new Span.Told(span));
        kept.spans.add(span);
      }
      while (wire.hasMore()) kept.seen.put(wire.getFixed(), wire.getLong());
      return kept;
    }

    private Span current(Span span, int layout) {
      if (layout == layouts.length - 1) return span;
      Span now = new Span(span.startMs, span.endMs, current.length);
      for (int i = 0; i < places[layout].length; i++) {
        int place = places[layout][i];
        if (place < 0) continue;
        now.values[place] = span.values[i];
        now.positions[place] = span.positions[i];
      }
      return now;
    }
  }
}
