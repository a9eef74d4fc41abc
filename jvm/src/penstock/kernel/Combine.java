package penstock.kernel;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/**
 * Makes parts of one key into fewer before the shuffle: less to sort and move, and one key with most of the
 * events is folded by all cores instead of one.
 *
 * <p>Each task of each batch decides by what it sees: it stops after {@value #SAMPLE} events unless one key
 * has {@value #HOT} of them or there are {@value #MANY} for each part.
 * It never changes a result, because nothing behind it depends on how events arrive.
 */
final class Combine implements Serializable {
  private static final int SAMPLE = 2_000;
  private static final int HOT = 100;
  private static final int MANY = 6;
  /** So many parts are held at most; then they leave and others are begun. */
  private static final int HELD = 200_000;

  private final Shape shape;
  private final Measure[] measures;

  Combine(Shape shape, Measure[] measures) {
    this.shape = shape;
    this.measures = measures;
  }

  Iterator<byte[]> combined(Iterator<byte[]> parts) {
    return new Combined(parts);
  }

  /** Takes in until enough is held, or passes on what comes, then gives what is held. */
  private final class Combined implements Iterator<byte[]> {
    private final Iterator<byte[]> input;
    private final Map<Key, Parts> held = new HashMap<>();
    private Iterator<Map.Entry<Key, Parts>> leaving = null;
    private byte[] leavingKey;
    private Iterator<Span> leavingSpans = null;
    private byte[] passing = null;
    private final Wire wire = new Wire(512);
    private long events = 0;
    private int hottest = 0;
    private int parts = 0;
    private boolean combining = true;

    Combined(Iterator<byte[]> input) {
      this.input = input;
    }

    @Override public boolean hasNext() {
      while (passing == null && leavingSpans == null) {
        if (leaving != null && leaving.hasNext()) {
          Map.Entry<Key, Parts> entry = leaving.next();
          leavingKey = entry.getKey().bytes();
          leavingSpans = entry.getValue().spans.iterator();
        } else if (leaving != null) {
          held.clear();
          leaving = null;
          parts = 0;
        } else if (!input.hasNext()) {
          if (held.isEmpty()) return false;
          leaving = held.entrySet().iterator();
        } else {
          takeIn(input.next());
        }
      }
      return true;
    }

    @Override public byte[] next() {
      hasNext();
      if (passing != null) {
        byte[] part = passing;
        passing = null;
        return part;
      }
      Part.writeSpan(leavingKey, leavingSpans.next(), measures, wire);
      if (!leavingSpans.hasNext()) leavingSpans = null;
      return wire.take();
    }

    private void takeIn(byte[] bytes) {
      if (!combining || Part.kind(bytes) != Part.EVENT) {
        passing = bytes;
        return;
      }
      Wire part = new Wire(bytes);
      part.getByte();
      long timeMs = part.getLong();
      Key key = part.getKey();
      Parts own = held.computeIfAbsent(key, its -> new Parts());
      List<Span> spans = own.spans;
      hottest = Math.max(hottest, ++own.events);
      // The newest first, as events come. What an event bridges is joined behind the shuffle.
      Span home = null;
      for (int i = spans.size() - 1; i >= 0 && home == null; i--)
        if (shape.joins(spans.get(i), timeMs, timeMs)) home = spans.get(i);
      Span span = Part.readEvent(part, timeMs, home, measures);
      if (home == null) {
        spans.add(span);
        parts++;
      }
      if (++events == SAMPLE && hottest < HOT && events < MANY * parts) combining = false;
      if (!combining || parts >= HELD) leaving = held.entrySet().iterator();
    }
  }

  /** What is held of a key. */
  private static final class Parts {
    final List<Span> spans = new ArrayList<>(1);
    int events = 0;
  }
}
