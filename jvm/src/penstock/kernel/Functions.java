package penstock.kernel;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The kernel's scalar functions as a Spark catalog, called from SQL as {@code penstock.decode.NAME(bytes)},
 * {@code penstock.lookup.NAME(key)} and so on. They are registered on the driver; what executors need travels
 * inside the plan.
 */
public final class Functions implements FunctionCatalog {
  private static final Map<String, Function<DataType, BoundFunction>> REGISTERED = new ConcurrentHashMap<>();
  private String catalog;

  /** Makes a function known; it is bound to the type of its one argument. */
  static void register(String name, Function<DataType, BoundFunction> binding) {
    REGISTERED.put(name, binding);
  }

  /**
   * Registers a decoder for a schema given as DDL.
   *
   * @param passed names of fields that records have beside those
   * @param epoch what a number counts where the schema says timestamp: ms or s
   */
  public static void decode(String name, String ddl, List<String> passed, String epoch) {
    Decode decode = new Decode(StructType.fromDDL(ddl), passed, epoch);
    register("decode." + name, input -> decode);
  }

  /** Registers a lookup on a table; its version can be changed through what is returned. */
  public static Lookup lookup(String name, Broadcast<LookupTable> table) {
    Lookup lookup = new Lookup(table);
    register("lookup." + name, input -> lookup);
    return lookup;
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
    Function<DataType, BoundFunction> binding = REGISTERED.get(String.join(".", id.namespace()) + "." + id.name());
    if (binding == null) throw new IllegalArgumentException("the kernel has no function " + id);
    return new UnboundFunction() {
      @Override public BoundFunction bind(StructType input) { return binding.apply(input.apply(0).dataType()); }
      @Override public String description() { return id.toString(); }
      @Override public String name() { return id.name(); }
    };
  }
}
