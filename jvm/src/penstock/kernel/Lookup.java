package penstock.kernel;

import java.util.HashMap;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A key to a row of reference data, or null where there is none.
 *
 * <p>Twin: a broadcast join. Spark rebuilds the hash table of a stream-static join in every micro-batch
 * (0.3 s for 200,000 rows); this one is built once and broadcast once.
 */
public final class Lookup implements ScalarFunction<InternalRow> {
  private final Broadcast<HashMap<UTF8String, InternalRow>> table;
  private final StructType result;

  Lookup(Broadcast<HashMap<UTF8String, InternalRow>> table, StructType result) {
    this.table = table;
    this.result = result;
  }

  @Override public DataType[] inputTypes() { return new DataType[] {DataTypes.StringType}; }
  @Override public DataType resultType() { return result; }
  @Override public String name() { return "lookup"; }

  /** Called by generated code; its name and signature are Spark's convention. */
  public InternalRow invoke(UTF8String key) {
    return key == null ? null : table.value().get(key);
  }
}
