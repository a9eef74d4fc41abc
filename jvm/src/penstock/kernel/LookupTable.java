package penstock.kernel;

import java.io.BufferedInputStream;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.Serializable;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.array.ByteArrayMethods;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Rows by key, packed into two arrays, with a hash table of their places beside them: 51 bytes a row, where Spark's
 * own broadcast takes 166 ({@code penstock bench lookup}, a million users).
 *
 * <p>An entry is the length of its key and the place of its row (two ints), then the key; many have the same row, which
 * is kept once. A row is its length (8 bytes), then itself as an UnsafeRow. Everything starts at a multiple of 8, and
 * places are divided by it. The first entry has no key: it is what an unknown key gives. A slot of the hash table holds
 * the hash of a key, so that other entries are seldom looked at (each is far away in memory), and an entry's place, so
 * that an empty slot, 0, leads to the first entry.
 */
public final class LookupTable implements Serializable {
  private static final int HEADER = 8;
  private static final int LARGEST = Integer.MAX_VALUE - 64;
  private static final int REMEMBERED = 1 << 16;

  private final StructType schema;
  private final int width;
  private byte[] entries = new byte[1 << 16];
  private byte[] rows = new byte[1 << 16];
  private long[] slots = new long[16];
  private int entriesEnd = 0;
  private int rowsEnd = 0;
  private int keys = 0;

  /** Where the first so many different rows are; only while the table is filled. */
  private transient Map<UnsafeRow, Integer> places = new HashMap<>();

  private LookupTable(StructType schema) {
    this.schema = schema;
    this.width = schema.size();
  }

  /**
   * Reads a stream of Arrow batches and broadcasts it. The first column is the key, a text, each there once; the
   * first row has none and says what an unknown key gives.
   */
  public static Broadcast<LookupTable> load(JavaSparkContext spark, String path) throws IOException {
    try (InputStream file = new BufferedInputStream(new FileInputStream(path), 1 << 20);
        BufferAllocator memory = ArrowUtils.rootAllocator().newChildAllocator("lookup", 0, Long.MAX_VALUE);
        ArrowStreamReader reader = new ArrowStreamReader(file, memory)) {
      StructType all = ArrowUtils.fromArrowSchema(reader.getVectorSchemaRoot().getSchema());
      LookupTable table = new LookupTable(new StructType(Arrays.copyOfRange(all.fields(), 1, all.size())));
      while (reader.loadNextBatch())
        table.add(reader.getVectorSchemaRoot().getFieldVectors(), reader.getVectorSchemaRoot().getRowCount());
      table.entries = Arrays.copyOf(table.entries, table.entriesEnd);
      table.rows = Arrays.copyOf(table.rows, table.rowsEnd);
      table.places = null;
      return spark.broadcast(table);
    }
  }

  StructType schema() {
    return schema;
  }

  /** The row of a key, or the first row: a view of this table's bytes. */
  InternalRow find(UTF8String key) {
    int entry = key == null ? 0 : place(slots[slotOf(key, key.hashCode())]);
    int at = rowPlace(entry);
    UnsafeRow row = new UnsafeRow(width);
    row.pointTo(rows, address(at + HEADER), Platform.getInt(rows, address(at)));
    return row;
  }

  private void add(List<FieldVector> vectors, int count) {
    ColumnVector[] columns = vectors.stream().map(ArrowColumnVector::new).toArray(ColumnVector[]::new);
    ColumnVector keyColumn = columns[0];
    ColumnarBatch taken = new ColumnarBatch(Arrays.copyOfRange(columns, 1, columns.length), count);
    UnsafeProjection packed = UnsafeProjection.create(schema);
    for (int i = 0; i < count; i++) {
      UnsafeRow row = packed.apply(taken.getRow(i));
      if (keyColumn.isNullAt(i)) append(UTF8String.EMPTY_UTF8, row);
      else add(keyColumn.getUTF8String(i), row);
    }
  }

  private void add(UTF8String key, UnsafeRow row) {
    if (++keys * 3L > slots.length * 2L) grow();
    int hash = key.hashCode();
    slots[slotOf(key, hash)] = slot(hash, append(key, row));
  }

  /** Where a key stands or, if it is unknown, would stand. */
  private int slotOf(UTF8String key, int hash) {
    int mask = slots.length - 1;
    int slot = hash & mask;
    while (slots[slot] != 0 && !holds(slots[slot], key, hash)) slot = slot + 1 & mask;
    return slot;
  }

  private static long slot(int hash, int at) {
    return (long) hash << Integer.SIZE | at >>> 3;
  }

  private static int place(long slot) {
    return (int) slot << 3;
  }

  private boolean holds(long slot, UTF8String key, int hash) {
    int at = place(slot);
    return slot >> Integer.SIZE == hash
        && keyLength(at) == key.numBytes()
        && ByteArrayMethods.arrayEquals(
            entries, address(at + HEADER), key.getBaseObject(), key.getBaseOffset(), key.numBytes());
  }

  private int append(UTF8String key, UnsafeRow row) {
    int at = entriesEnd;
    long end = (long) at + HEADER + aligned(key.numBytes());
    entries = withRoom(entries, end);
    Platform.putInt(entries, address(at), key.numBytes());
    Platform.putInt(entries, address(at + 4), placeOf(row) >>> 3);
    key.writeToMemory(entries, address(at + HEADER));
    entriesEnd = (int) end;
    return at;
  }

  private int placeOf(UnsafeRow row) {
    Integer before = places.get(row);
    if (before != null) return before;
    int at = rowsEnd;
    long end = (long) at + HEADER + row.getSizeInBytes();
    rows = withRoom(rows, end);
    Platform.putInt(rows, address(at), row.getSizeInBytes());
    row.writeToMemory(rows, address(at + HEADER));
    rowsEnd = (int) end;
    if (places.size() < REMEMBERED) places.put(row.copy(), at);
    return at;
  }

  private static byte[] withRoom(byte[] bytes, long end) {
    if (end > LARGEST) throw new IllegalArgumentException("larger than 2 GB");
    if (end <= bytes.length) return bytes;
    return Arrays.copyOf(bytes, (int) Math.min(LARGEST, Math.max(end, bytes.length * 2L)));
  }

  /** Twice the slots, filled from the entries; the first entry has none. */
  private void grow() {
    slots = new long[slots.length * 2];
    for (int at = next(0); at < entriesEnd; at = next(at)) {
      UTF8String key = UTF8String.fromAddress(entries, address(at + HEADER), keyLength(at));
      int hash = key.hashCode();
      slots[slotOf(key, hash)] = slot(hash, at);
    }
  }

  private int next(int at) {
    return at + HEADER + aligned(keyLength(at));
  }

  private int keyLength(int at) {
    return Platform.getInt(entries, address(at));
  }

  private int rowPlace(int at) {
    return Platform.getInt(entries, address(at + 4)) << 3;
  }

  private static long address(int at) {
    return (long) Platform.BYTE_ARRAY_OFFSET + at;
  }

  private static int aligned(int length) {
    return length + 7 & ~7;
  }
}
