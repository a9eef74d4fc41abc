package penstock.kernel;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The kernel's scalar functions as a Spark catalog, called from SQL as {@code penstock.decode.NAME(bytes)}
 * and {@code penstock.lookup.NAME(key)}. They are registered on the driver; what executors need travels
 * inside the plan.
 */
public final class Functions implements FunctionCatalog {
  private static final Map<String, BoundFunction> REGISTERED = new ConcurrentHashMap<>();
  private String catalog;

  /** Registers a decoder for a schema given as DDL, and what a number counts where it says timestamp: ms or s. */
  public static void decode(String name, String ddl, String epoch) {
    REGISTERED.put("decode." + name, new Decode(StructType.fromDDL(ddl), epoch));
  }

  /**
   * Registers a lookup on the rows of a table whose first column is the key, as text.
   *
   * @return the number of rows held
   * @throws IllegalArgumentException where a key stands twice: a join would double the events
   */
  public static int lookup(String name, Dataset<Row> rows) {
    StructType schema = rows.schema();
    StructType taken = new StructType();
    for (int i = 1; i < schema.size(); i++) taken = taken.add(schema.apply(i).name(), schema.apply(i).dataType());
    InternalRow[] collected = rows.queryExecution().executedPlan().executeCollect();
    HashMap<UTF8String, InternalRow> table = new HashMap<>(collected.length * 2);
    for (InternalRow row : collected) {
      if (row.isNullAt(0)) continue;
      Object[] values = new Object[taken.size()];
      for (int i = 0; i < values.length; i++) values[i] = copy(row.get(i + 1, taken.apply(i).dataType()));
      if (table.put(row.getUTF8String(0).copy(), new GenericInternalRow(values)) != null)
        throw new IllegalArgumentException("key '" + row.getUTF8String(0) + "' stands twice");
    }
    JavaSparkContext context = JavaSparkContext.fromSparkContext(rows.sparkSession().sparkContext());
    REGISTERED.put("lookup." + name, new Lookup(context.broadcast(table), taken));
    return table.size();
  }

  /** A text read from a row is a view of the row's buffer; held for long it must be its own. */
  private static Object copy(Object value) {
    return value instanceof UTF8String ? ((UTF8String) value).copy() : value;
  }

  @Override public void initialize(String name, CaseInsensitiveStringMap options) { catalog = name; }
  @Override public String name() { return catalog; }

  @Override public Identifier[] listFunctions(String[] namespace) {
    String prefix = String.join(".", namespace) + ".";
    return REGISTERED.keySet().stream()
        .filter(name -> name.startsWith(prefix))
        .map(name -> Identifier.of(namespace, name.substring(prefix.length())))
        .toArray(Identifier[]::new);
  }

  @Override public UnboundFunction loadFunction(Identifier id) {
    BoundFunction function = REGISTERED.get(String.join(".", id.namespace()) + "." + id.name());
    if (function == null) throw new IllegalArgumentException("the kernel has no function " + id);
    return new UnboundFunction() {
      @Override public BoundFunction bind(StructType input) { return function; }
      @Override public String description() { return function.name() + " " + id.name(); }
      @Override public String name() { return id.name(); }
    };
  }
}
