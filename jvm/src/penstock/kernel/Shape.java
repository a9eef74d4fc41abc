package penstock.kernel;

import java.io.Serializable;
import java.util.List;

/** What makes events one span: no long pause between them, or a window of time. */
interface Shape extends Serializable {
  /** Whether a part of the same batch from one moment to another is one with this part, whatever the state holds. */
  boolean joins(Span part, long fromMs, long toMs);

  /** When the clock passes this, the span is final. */
  long dueMs(Span span);

  /**
   * Puts a part into the spans that it belongs to, making those that are missing.
   *
   * @param forgottenMs spans due at or before this are no longer kept
   * @return false, and nothing is done, where the part comes too late for all
   */
  boolean place(Span part, List<Span> spans, Measure[] measures, long forgottenMs);

  /** When a span that holds this moment would be due at the latest. */
  long lastDueMs(long timeMs);

  /** Sessions: pauses of at most {@code gapMs}, cut at the multiples of {@code lengthMs} (0 for never). */
  final class Gap implements Shape {
    private final long gapMs;
    private final long lengthMs;

    Gap(long gapMs, long lengthMs) {
      this.gapMs = gapMs;
      this.lengthMs = lengthMs;
    }

    @Override public boolean joins(Span part, long fromMs, long toMs) {
      boolean near = fromMs <= part.endMs + gapMs && toMs >= part.startMs - gapMs;
      return near && (lengthMs == 0 || Math.floorDiv(part.startMs, lengthMs) == Math.floorDiv(fromMs, lengthMs));
    }

    @Override public long dueMs(Span span) {
      return span.endMs + gapMs;
    }

    @Override public boolean place(Span part, List<Span> spans, Measure[] measures, long forgottenMs) {
      Span home = null;
      for (int i = 0; i < spans.size(); i++) {
        Span span = spans.get(i);
        if (!joins(home == null ? part : home, span.startMs, span.endMs)) continue;
        if (home == null) {
          home = span;
          home.absorb(measures, part);
          i = -1;  // it may reach others now, also those passed over
        } else if (span != home) {
          home.absorb(measures, span);
          spans.remove(i);
          i = -1;
        }
      }
      if (home != null) return true;
      if (dueMs(part) <= forgottenMs) return false;
      spans.add(part);
      return true;
    }

    @Override public long lastDueMs(long timeMs) {
      return timeMs + gapMs;
    }
  }

  /** Windows of {@code sizeMs} that start every {@code stepMs}. */
  final class Fixed implements Shape {
    private final long sizeMs;
    private final long stepMs;

    Fixed(long sizeMs, long stepMs) {
      this.sizeMs = sizeMs;
      this.stepMs = stepMs;
    }

    @Override public boolean joins(Span part, long fromMs, long toMs) {
      return Math.floorDiv(part.startMs, stepMs) == Math.floorDiv(fromMs, stepMs);
    }

    @Override public long dueMs(Span span) {
      return span.endMs;
    }

    @Override public boolean place(Span part, List<Span> spans, Measure[] measures, long forgottenMs) {
      long last = Math.floorDiv(part.startMs, stepMs) * stepMs;
      boolean counted = false;
      for (long start = last - sizeMs + stepMs; start <= last; start += stepMs) {
        if (start + sizeMs <= forgottenMs) continue;
        Span window = at(start, spans, measures.length);
        window.absorbMeasures(measures, part);
        window.changed = true;
        // An event is counted once, in the earliest of its windows.
        if (!counted) window.absorbEvents(part);
        counted = true;
      }
      return counted;
    }

    private Span at(long startMs, List<Span> spans, int measures) {
      for (Span span : spans) if (span.startMs == startMs) return span;
      Span window = new Span(startMs, startMs + sizeMs, measures);
      spans.add(window);
      return window;
    }

    @Override public long lastDueMs(long timeMs) {
      return Math.floorDiv(timeMs, stepMs) * stepMs + sizeMs;
    }
  }
}
